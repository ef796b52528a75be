"""What the web console costs: bytes of its pages, time to first paint, processor per viewer.

    make console-budget
    python scripts/console_budget.py --seconds 60 --soak-seconds 600

Fails if the scripts are over their budget, or if a page that stays open on a busy partition is:
its memory, its elements, what the console spends on it, and what its browser complains of. Other
times are printed, not judged: they are worth something only on a machine that does nothing else.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, CDPSession, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.console_files import STATIC, as_one_stream, gzipped, loaded_by, page_modules, scripts
from support.console_pages import CLUSTER_NAME, Complaints, running_console
from support.console_story import GROUP, TOPIC, tell_story
from tidelog.testing import Cluster

SCRIPTS_MAX_BYTES = 60 * 1024
EACH_MAX_BYTES = 64 * 1024
PAINTS = 3
RATE = 5_000
SETTLE_SECONDS = 3
TICKS = os.sysconf("SC_CLK_TCK")
PATHS = (
    "/",
    "/topics",
    f"/topics/{TOPIC}",
    f"/topics/{TOPIC}/records",
    f"/p/{TOPIC}-0",
    "/timeline",
    "/groups",
    f"/groups/{GROUP}",
    "/brokers",
    "/b/1",
    "/controller",
    "/chaos",
    "/metrics-view",
    "/lab",
    "/help",
)
SHOWN = "main h1, main .failed"  # what it is about, or that it is not to be had here
BUSY = f"/p/{TOPIC}-0"
WATCHED = ("/", BUSY, f"/topics/{TOPIC}/records")
VIEWER_MAX_PERCENT = 5.0
"""Of a core, of the console, for one page that is open."""
HEAP_MAX_MB = 6.0
ELEMENTS_MAX = 1_500
"""Twice the most that a page had in three minutes: 3.1 MB and 761. Both go up and down."""
GROWN_MAX_MB = 1.5
"""Since the page had settled: what grows for as long as a page is open takes everything in the
end. It was 0.6 MB at most."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20, help="how long each viewer watches")
    parser.add_argument("--soak-seconds", type=float, default=60, help="how long a page stays open")
    parser.add_argument("--bytes-only", action="store_true", help="without a browser and a cluster")
    asked = parser.parse_args()
    fits = weigh()
    if not asked.bytes_only:
        with tempfile.TemporaryDirectory(prefix="tidelog-budget-") as home:
            fits = measure(Path(home), asked.seconds, asked.soak_seconds) and fits
    return 0 if fits else 1


def weigh() -> bool:
    """A page loads the frame, the shared modules and its own; each is kept by the browser."""
    frame = loaded_by(STATIC / "app.js")
    print("gzipped bytes   of its own  page")
    for page in page_modules():
        if not page.is_file():
            print(f"{'missing':>13}               {page.name}")
            continue
        own = [path for path in loaded_by(page) if path not in frame]
        print(f"{gzipped(*frame, *own):>13,}  {gzipped(*own):>10,}  {page.stem}")
    total, each = as_one_stream(*scripts()), gzipped(*scripts())
    print(f"{total:>13,}  all scripts as one stream, {SCRIPTS_MAX_BYTES:,} allowed")
    print(f"{each:>13,}  all scripts, each by itself, {EACH_MAX_BYTES:,} allowed")
    print(f"{gzipped(*STATIC.rglob('*.css')):>13,}  style sheets")
    return total <= SCRIPTS_MAX_BYTES and each <= EACH_MAX_BYTES


def measure(home: Path, seconds: float, soak_seconds: float) -> bool:
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("there is no chromium: apt-get install chromium")
    with (
        Cluster(brokers=3, directory=home / CLUSTER_NAME) as cluster,
        running_console(home) as url,
        sync_playwright() as playwright,
    ):
        tell_story(cluster)
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        paint(browser, url)
        with load(cluster):
            time.sleep(SETTLE_SECONDS)
            watch(browser, url, seconds)
            fits = soak(browser, url, soak_seconds)
        browser.close()
    return fits


def paint(browser: Browser, url: str) -> None:
    print(f"\nfirst contentful paint, median of {PAINTS}, nothing kept by the browser")
    for path in PATHS:
        times = []
        for _ in range(PAINTS):
            context = browser.new_context()
            page = context.new_page()
            page.goto(url + path)
            page.locator(SHOWN).first.wait_for()
            times.append(
                page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            )
            context.close()
        print(f"{statistics.median(times):>8.0f} ms  {path}")


@contextmanager
def load(cluster: Cluster) -> Iterator[None]:
    """Somebody writes 5,000 records a second to the first partition."""
    endless = ("--value", "{}", "--count", "100000000", "--rate", f"{RATE}/s")
    command = ("produce", TOPIC, "--partition", "0", *endless)
    producing = subprocess.Popen(
        [sys.executable, "-m", "tidelog", *command, "-b", cluster.bootstrap_servers],
        stdout=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        producing.terminate()
        producing.wait(30)


def watch(browser: Browser, url: str, seconds: float) -> None:
    console = process_with("tidelog console")
    print(f"\nat {RATE:,} records/s, percent of a core over {seconds:g} s")
    print("console  browser  page")
    idle = spent([console])
    time.sleep(seconds)
    nobody = 100 * (spent([console]) - idle) / seconds
    print(f"{nobody:>6.1f}  {'–':>7}  nobody looks")
    for path in WATCHED:
        context = browser.new_context()
        page = context.new_page()
        page.goto(url + path)
        page.locator(SHOWN).first.wait_for()
        tail = page.get_by_role("button", name="Live tail")
        if tail.count():
            tail.click()
        before, shown = spent([console]), spent(chromium_processes())
        page.wait_for_timeout(1000 * seconds)
        of_console = 100 * (spent([console]) - before) / seconds
        of_browser = 100 * (spent(chromium_processes()) - shown) / seconds
        print(f"{of_console - nobody:>6.1f}  {of_browser:>7.1f}  {path}")
        context.close()


def soak(browser: Browser, url: str, seconds: float) -> bool:
    """A page is left open on the busy partition."""
    console = process_with("tidelog console")
    idle = spent([console])
    time.sleep(seconds / 4)
    nobody = (spent([console]) - idle) / (seconds / 4)
    context = browser.new_context()
    page = context.new_page()
    complaints = Complaints(page)
    page.goto(url + BUSY)
    page.locator(SHOWN).first.wait_for()
    inspector = context.new_cdp_session(page)
    inspector.send("Performance.enable")
    page.wait_for_timeout(1000 * SETTLE_SECONDS)
    heap_before, _ = held(inspector)
    before = spent([console])
    page.wait_for_timeout(1000 * seconds)
    percent = 100 * ((spent([console]) - before) / seconds - nobody)
    heap, elements = held(inspector)
    context.close()
    print(f"\n{BUSY} left open for {seconds:g} s at {RATE:,} records/s")
    rows = (
        (percent, VIEWER_MAX_PERCENT, "percent of a core, of the console"),
        (heap, HEAP_MAX_MB, "MB of memory of its scripts"),
        (heap - heap_before, GROWN_MAX_MB, "MB more than when it had settled"),
        (elements, ELEMENTS_MAX, "elements and texts"),
        (len(complaints.texts), 0, "complaints of the browser"),
    )
    for found, allowed, what in rows:
        print(f"{found:>10,.1f}  {allowed:>7,.1f} allowed  {what}")
    for text in complaints.texts[:10]:
        print(f"            {text}")
    return all(found <= allowed for found, allowed, _ in rows)


def held(inspector: CDPSession) -> tuple[float, int]:
    """What a page holds on to: megabytes, and elements with their texts."""
    inspector.send("HeapProfiler.collectGarbage")
    metrics = inspector.send("Performance.getMetrics")["metrics"]
    found = {each["name"]: each["value"] for each in metrics}
    return found["JSHeapUsedSize"] / 1e6, int(found["Nodes"])


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    """All that came from a process, near and far."""
    found = []
    for task in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = task.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            child = int(task.parent.name)
            found += [child, *children(child)]
    return found


def process_with(text: str) -> int:
    return next(pid for pid in children(os.getpid()) if text in command_line(pid))


def chromium_processes() -> list[int]:
    return [pid for pid in children(os.getpid()) if "chromium" in command_line(pid)]


def spent(pids: list[int]) -> float:
    """Seconds of processor that these processes took until now."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


if __name__ == "__main__":
    sys.exit(main())
