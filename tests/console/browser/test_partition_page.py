"""The partition view and the timeline of a live cluster, while brokers die and come back."""

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Locator, Page, expect

from support.console_pages import (
    CLUSTER_NAME,
    Complaints,
    LiveConsole,
    open_page,
    running_console,
)
from tidelog.cluster import state as states
from tidelog.cluster.nodes import LocalNodes
from tidelog.console.place import Place
from tidelog.testing import Cluster

WITHIN_SECONDS = 60
WATCH = """() => {
  window.seen = [];
  let draws = 0;
  const look = () => {
    draws += 1;
    for (const row of document.querySelectorAll(".replica-row")) {
      const what = [];
      if (row.classList.contains("down")) what.push("down");
      if (row.querySelector(".strip-crown.now")) what.push("leads");
      if (row.querySelector(".cell.differs")) what.push("differs");
      for (const each of what) {
        const text = `${row.dataset.broker} ${each}`;
        if (!window.seen.some(([, known]) => known === text)) window.seen.push([draws, text]);
      }
    }
  };
  look();
  const options = { subtree: true, childList: true, attributes: true };
  new MutationObserver(look).observe(document.querySelector(".strips"), options);
}"""


@pytest.fixture(scope="module")
def broken() -> Iterator[LiveConsole]:
    """A cluster of its own: others want theirs whole."""
    with tempfile.TemporaryDirectory(prefix="tidelog-partition-") as directory:
        home = Path(directory)
        with (
            Cluster(brokers=3, directory=home / CLUSTER_NAME) as cluster,
            running_console(home) as url,
        ):
            yield LiveConsole(cluster, url)
            end_what_the_console_started(home / CLUSTER_NAME)


def end_what_the_console_started(directory: Path) -> None:
    """The cluster ends only processes of its own."""
    state = states.load(directory)
    assert state is not None
    nodes = LocalNodes(directory, state)
    for node_id in nodes.node_ids:
        nodes.kill(node_id)
    nodes.close()


def write(servers: str, topic: str, count: int, acks: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "acks": acks})
    for number in range(count):
        producer.produce(topic, f"record {number}")
    assert producer.flush(WITHIN_SECONDS) == 0, "records were not acknowledged"


def row_of(page: Page, broker: int) -> Locator:
    return page.locator(f".replica-row[data-broker='{broker}']")


def shown_at(page: Page, what: str) -> int:
    """In which draw of the picture it was first seen."""
    seen = {text: draw for draw, text in page.evaluate("window.seen")}
    assert what in seen, seen
    return int(seen[what])


def test_a_leader_dies_with_records_that_nobody_else_has_and_comes_back(
    broken: LiveConsole, page: Page, complaints: Complaints
) -> None:
    cluster = broken.cluster
    topic = cluster.topic("reconciled", replication_factor=3)
    write(cluster.bootstrap_servers, topic, 5, "all")
    old = cluster.partition(topic, 0).leader
    assert old is not None
    others = [broker for broker in cluster.brokers if broker != old]
    open_page(page, f"{broken.url}/p/{topic}-0")
    page.evaluate(WATCH)
    expect(page.locator(".page-head")).to_contain_text(f"leader {old} · leader epoch 0")
    for broker in cluster.brokers:
        expect(row_of(page, broker)).to_contain_text("HW 5")
        expect(row_of(page, broker)).to_contain_text("LEO 5")

    cluster.partition_off([old], others)
    host, port = cluster.address(old)
    write(f"{host}:{port}", topic, 2, "1")
    expect(row_of(page, old)).to_contain_text("LEO 7")
    expect(row_of(page, old).locator(".cell.uncommitted")).to_have_count(2)
    page.keyboard.press("k")
    expect(page.locator(".notice")).to_contain_text(f"Broker {old} was killed.")
    expect(row_of(page, old)).to_have_class(re.compile(r"\bdown\b"))
    expect(page.locator(".page-head")).to_contain_text("leader epoch 1")
    new = cluster.partition(topic, 0).leader
    assert new in others
    expect(row_of(page, new).locator(".strip-crown.now")).to_have_count(1)
    expect(row_of(page, old).locator(".strip-crown.preferred")).to_have_count(1)
    page.keyboard.press("n")
    expect(page.locator(".notice")).to_contain_text("Produced offset 5.")
    write(cluster.bootstrap_servers, topic, 2, "all")
    expect(row_of(page, old).locator(".cell.differs")).to_have_count(2)
    expect(row_of(page, old)).to_contain_text("last seen")
    assert shown_at(page, f"{old} down") <= shown_at(page, f"{new} leads")
    assert shown_at(page, f"{new} leads") <= shown_at(page, f"{old} differs")

    cluster.heal()
    page.keyboard.press("r")
    expect(page.locator(".messages")).to_contain_text(f"{old} truncated 7 → 5")
    expect(page.locator(".messages")).to_contain_text("epoch 0 ends at 5")
    expect(row_of(page, old)).to_contain_text("LEO 8")
    expect(page.locator(".page-head")).to_contain_text("healthy")
    expect(row_of(page, old).locator(".isr-badge")).to_have_text("ISR")
    expect(page.locator(".cell.differs:not(.falls)")).to_have_count(0)
    events = page.locator(".events").inner_text()
    assert events.index("truncates its log, end 7 → 5") < events.index(f"leader {new} (was {old})")


def test_the_picture_can_be_paused_and_goes_on(
    broken: LiveConsole, page: Page, complaints: Complaints
) -> None:
    topic = broken.cluster.topic("paused", replication_factor=3)
    write(broken.cluster.bootstrap_servers, topic, 2, "all")
    leader = broken.cluster.partition(topic, 0).leader
    assert leader is not None
    open_page(page, f"{broken.url}/p/{topic}-0")
    expect(row_of(page, leader)).to_contain_text("LEO 2")
    page.keyboard.press("Space")
    write(broken.cluster.bootstrap_servers, topic, 3, "all")
    expect(page.get_by_role("button", name="changes wait")).to_be_visible()
    expect(page.get_by_role("button", name="Paused, 0 changes wait")).to_have_count(0)
    expect(row_of(page, leader)).to_contain_text("LEO 2")
    page.keyboard.press("Space")
    expect(row_of(page, leader)).to_contain_text("LEO 5")


def test_an_unknown_partition_is_an_error_with_advice(broken: LiveConsole, page: Page) -> None:
    page.goto(f"{broken.url}/p/nothing-0")
    expect(page.locator(".failed")).to_contain_text("nothing")


def test_a_polled_cluster_shows_what_it_tells_and_says_so(
    broken: LiveConsole,
    page: Page,
    complaints: Complaints,
    console_of: Callable[[Place], AbstractContextManager[str]],
) -> None:
    topic = broken.cluster.topic("asked", replication_factor=3)
    write(broken.cluster.bootstrap_servers, topic, 4, "all")
    leader = broken.cluster.partition(topic, 0).leader
    assert leader is not None
    with console_of(Place("asked", broken.cluster.bootstrap_servers)) as url:
        open_page(page, f"{url}/p/{topic}-0")
        expect(page.locator(".note")).to_contain_text("polled")
        expect(row_of(page, leader)).to_contain_text("LEO 4")
        cells = row_of(page, leader).locator(".cell-epoch")
        assert cells.all_text_contents() == ["e?"] * 4
        expect(page.locator(".explain")).to_contain_text("tells no messages")
        page.context.close()


def test_the_timeline_can_be_filtered_scrubbed_and_linked(
    broken: LiveConsole, page: Page, complaints: Complaints
) -> None:
    topic = broken.cluster.topic("told", replication_factor=3)
    open_page(page, f"{broken.url}/timeline")
    lanes = page.locator(".lane-names li")
    for lane in ("broker 1", "broker 2", "broker 3", f"{topic}-0"):
        expect(lanes.filter(has_text=lane).first).to_be_visible()
    page.get_by_role("searchbox", name="Partition").fill(f"{topic}-0")
    page.get_by_role("searchbox", name="Partition").press("Enter")
    expect(page.locator(".reign text").first).to_contain_text("· e0")
    page.get_by_role("slider", name="Moment").focus()
    page.keyboard.press("Home")
    said = page.locator(".moment-words strong")
    expect(said).to_contain_text(f"{topic}-0")
    first = said.inner_text()
    assert "at=" in page.url
    page.keyboard.press("End")
    expect(said).not_to_have_text(first)
    page.keyboard.press("Home")
    expect(said).to_have_text(first)
    page.get_by_role("checkbox", name="elections").uncheck()
    expect(page.locator(".moment.elections")).to_have_count(0)
    page.reload()
    expect(said).to_have_text(first)
