"""How long after a SIGKILL the partition view shows that the broker is down, and who leads then.

    python scripts/console_latency.py --kills 5

The first is bounded by the console (the broker's stream of events breaks), the second by the
session timeout of the cluster. Worth something only on a machine that does nothing else.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.console_pages import CLUSTER_NAME, open_page, running_console
from tidelog.testing import Cluster

TOPIC = "watched"
WATCH = """() => {
  window.shown = {};
  const look = () => {
    for (const row of document.querySelectorAll(".replica-row")) {
      const { broker } = row.dataset;
      if (row.classList.contains("down")) window.shown[`down ${broker}`] ??= Date.now();
      if (row.querySelector(".strip-crown.now")) window.shown[`leads ${broker}`] ??= Date.now();
    }
  };
  const options = { subtree: true, childList: true, attributes: true };
  new MutationObserver(look).observe(document.querySelector(".strips"), options);
}"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=5)
    kills = parser.parse_args().kills
    with tempfile.TemporaryDirectory(prefix="tidelog-latency-") as directory:
        home = Path(directory)
        with (
            Cluster(brokers=3, directory=home / CLUSTER_NAME) as cluster,
            running_console(home) as url,
            sync_playwright() as playwright,
        ):
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            cluster.topic(TOPIC, replication_factor=3)
            page = browser.new_page()
            measured = [kill(cluster, page, f"{url}/p/{TOPIC}-0") for _ in range(kills)]
            browser.close()
    report("down shown", [down for down, _ in measured])
    report("new leader shown", [led for _, led in measured])
    return 0


def report(what: str, times_ms: list[float]) -> None:
    middle, worst = statistics.median(times_ms), max(times_ms)
    print(f"{what:<17} median {middle:>6.0f} ms, worst {worst:>6.0f} ms")


def kill(cluster: Cluster, page: Page, url: str) -> tuple[float, float]:
    """Milliseconds until the leader is shown as down, and until another one leads."""
    cluster.wait(lambda: len(cluster.partition(TOPIC, 0).isr) == len(cluster.brokers))
    leader = cluster.partition(TOPIC, 0).leader
    assert leader is not None
    open_page(page, url)
    page.locator(f".replica-row[data-broker='{leader}'] .strip-crown.now").wait_for()
    page.evaluate(WATCH)
    began_ms = time.time() * 1000
    cluster.kill(leader)
    others = f".replica-row:not([data-broker='{leader}']) .strip-crown.now"
    page.locator(f".replica-row[data-broker='{leader}'].down").wait_for()
    page.locator(others).wait_for()
    shown = page.evaluate("window.shown")
    cluster.restart(leader)
    shown.pop(f"leads {leader}", None)  # it is drawn with a crown until another one has it
    led = min(at for what, at in shown.items() if what.startswith("leads"))
    return shown[f"down {leader}"] - began_ms, led - began_ms


if __name__ == "__main__":
    sys.exit(main())
