"""Pictures of the web console for the README and the documents, in light and in dark.

    make screenshots

A cluster of three brokers is started; a leader is cut off, takes two records that nobody else has,
and dies. Each page is then taken as anybody would see it.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.console_pages import CLUSTER_NAME, console_of, open_page
from tidelog.testing import Cluster

IMAGES = ROOT / "docs" / "images"
LARGEST_BYTES = 200_000
WIDTH = 1280
THEMES = ("light", "dark")
TOPIC = "orders"
PARTITION = f"{TOPIC}-0"
WITHIN_SECONDS = 60
REPAINT_MS = 1_500
"""Canvases are drawn once a second, also when nothing but the theme has changed."""
SETTLE_SECONDS = 3
"""Rates and charts need a few looks at the cluster."""


def main() -> int:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tidelog-screenshots-") as directory:
        home = Path(directory)
        with (
            Cluster(brokers=3, directory=home / CLUSTER_NAME) as cluster,
            sync_playwright() as playwright,
        ):
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            page = browser.new_page(reduced_motion="reduce")
            place = ("--data-dir", str(home), "--name", CLUSTER_NAME)
            with console_of(home, *place) as url:
                watch(cluster, page, url)
            with console_of(home, *place) as url:  # it learns what has happened from the brokers
                look_back(page, url)
            browser.close()
    return judge()


def watch(cluster: Cluster, page: Page, url: str) -> None:
    cluster.topic(TOPIC, assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    cluster.topic("payments", partitions=2, replication_factor=3)
    produce(cluster.bootstrap_servers, 16, "all")
    commit(cluster.bootstrap_servers, "audit", 9)
    with member(cluster.bootstrap_servers, "billing", 14):
        open_page(page, f"{url}/groups")
        time.sleep(SETTLE_SECONDS)
        take(page, "groups", 480)
    open_page(page, f"{url}/p/{PARTITION}")
    reconcile(cluster, page)
    take(page, "partition", 940)
    open_page(page, url)
    take(page, "overview", 800)
    cluster.heal()
    cluster.restart(1)


def look_back(page: Page, url: str) -> None:
    open_page(page, f"{url}/timeline?partition={PARTITION}")
    page.locator(".moment", has_text="cut").first.click()
    take(page, "timeline", 640)
    open_page(page, f"{url}/lab/reconcile?step=4")
    take(page, "lab", 980)


def reconcile(cluster: Cluster, page: Page) -> None:
    """Broker 1 has two records that nobody else has, and dies; 2 leads and goes on."""
    cluster.partition_off([1], [2, 3])
    host, port = cluster.address(1)
    produce(f"{host}:{port}", 2, "1")
    page.locator(".replica-row .cell.uncommitted").nth(1).wait_for()
    cluster.kill(1)
    cluster.wait(lambda: cluster.partition(TOPIC, 0).leader == 2)
    produce(cluster.bootstrap_servers, 3, "all")
    page.locator(".cell.differs").first.wait_for()
    time.sleep(SETTLE_SECONDS)
    page.locator(".strips .message").last.hover()


def produce(servers: str, count: int, acks: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "acks": acks})
    for number in range(count):
        producer.produce(TOPIC, f"order {number}", f"customer {number}", partition=0)
        time.sleep(0.06)  # so that followers fetch more than once
        producer.poll(0)
    if producer.flush(WITHIN_SECONDS):
        raise SystemExit("records were not acknowledged")


@contextmanager
def member(servers: str, group: str, offset: int) -> Iterator[None]:
    """A consumer that has read so far."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    consumer.subscribe([TOPIC])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    yield
    consumer.close()


def commit(servers: str, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    consumer.close()


def take(page: Page, name: str, height: int) -> None:
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.evaluate("scrollTo(0, 0)")
    for theme in THEMES:
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        page.wait_for_timeout(REPAINT_MS)
        page.screenshot(path=IMAGES / f"console-{name}-{theme}.png")


def judge() -> int:
    """Who clones the repository fetches them all."""
    sizes = {path.name: path.stat().st_size for path in sorted(IMAGES.glob("console-*.png"))}
    for name, size in sizes.items():
        print(f"{size:>9,}  {name}")
    return 1 if max(sizes.values()) > LARGEST_BYTES else 0


if __name__ == "__main__":
    sys.exit(main())
