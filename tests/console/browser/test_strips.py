"""Log strips in a browser, fed with what brokers may tell; no cluster is needed."""

from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from support.console_pages import Complaints, open_page

BEGIN = """async (partition) => {
  const { Strips } = await import("/static/views/strip.js");
  document.body.innerHTML = "<div id=strips></div>";
  window.strips = new Strips(document.getElementById("strips"));
  window.strips.update(partition);
}"""
CELLS = """(broker) => {
  const row = document.querySelector(`.replica-row[data-broker="${broker}"]`);
  return [...row.querySelectorAll(".cell:not(.falls)")].map((cell) => [
    cell.querySelector(".cell-offset").textContent,
    cell.querySelector(".cell-epoch").textContent,
    cell.classList[1],
  ]);
}"""
MOVING = """() => [...document.querySelectorAll(".strips *")].filter((node) => {
  const { transitionDuration, animationDuration } = getComputedStyle(node);
  return parseFloat(transitionDuration) > 0.001 || parseFloat(animationDuration) > 0.001;
}).length"""
UPDATE = "(partition) => window.strips.update(partition)"


def replica(broker: int, end: int, **more: Any) -> dict[str, Any]:
    return {
        "broker": broker,
        "role": "follower",
        "in_isr": True,
        "state": "alive",
        "last_seen_ms": None,
        "log_start": 0,
        "high_watermark": end,
        "log_end": end,
        "epochs": [[0, 0]],
        "diverges_at": None,
        "lag": 0,
        **more,
    }


def partition(*logs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "name": "orders-0",
        "leader": 1,
        "preferred": 1,
        "replicas": [log["broker"] for log in logs],
        "isr": [1],
        "parked_produces": 0,
        "consumers": [],
        "messages": [],
        "replica_logs": list(logs),
        **more,
    }


@pytest.fixture
def strips(page: Page, simulator: str, complaints: Complaints) -> Page:
    open_page(page, f"{simulator}/lab")
    return page


def cells(page: Page, broker: int) -> list[tuple[str, str, str]]:
    """(offset, epoch, look) of every cell that has not fallen."""
    return [tuple(cell) for cell in page.evaluate(CELLS, broker)]


def test_committed_uncommitted_and_differing_records_look_different(strips: Page) -> None:
    leader = replica(1, 4, high_watermark=3, epochs=[[0, 0], [1, 3]])
    down = {"state": "down", "in_isr": False, "last_seen_ms": 1}
    follower = replica(2, 5, high_watermark=3, diverges_at=3, **down)
    strips.evaluate(BEGIN, partition(leader, follower, preferred=2))
    committed = [(str(offset), "e0", "committed") for offset in range(3)]
    assert cells(strips, 1) == [*committed, ("3", "e1", "uncommitted")]
    assert cells(strips, 2) == [*committed, ("3", "e0", "differs"), ("4", "e0", "differs")]
    rows = strips.locator(".replica-row")
    assert rows.nth(0).locator(".strip-crown.now").count() == 1
    assert rows.nth(1).locator(".strip-crown.preferred").count() == 1
    assert "last seen" in str(rows.nth(1).locator(".standing").text_content())
    label = str(rows.nth(1).get_attribute("aria-label"))
    assert label.startswith("Broker 2 is a follower, the preferred leader, not in the ISR, down")
    assert label.endswith(
        "it has records 0–4 (0–4 of epoch 0); high watermark 3, log end 5."
        " From offset 3 it differs from the leader and will be truncated."
    )


def test_what_is_truncated_falls_and_then_is_gone(strips: Page) -> None:
    strips.evaluate(BEGIN, partition(replica(1, 4), replica(2, 6, diverges_at=4)))
    strips.evaluate(UPDATE, partition(replica(1, 4), replica(2, 4)))
    assert len(cells(strips, 2)) == 4
    expect(strips.locator(".cell.falls")).to_have_count(0)
    assert strips.locator(".replica-row[data-broker='2'] .cell").count() == 4


def test_nothing_moves_for_those_who_want_it_still(browser: Browser, simulator: str) -> None:
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    open_page(page, f"{simulator}/lab")
    page.evaluate(BEGIN, partition(replica(1, 4), replica(2, 6, diverges_at=4)))
    page.evaluate(UPDATE, partition(replica(1, 5), replica(2, 4)))
    assert page.locator(".cell.falls").count() == 0
    assert page.locator(".replica-row[data-broker='2'] .cell").count() == 4
    assert page.evaluate(MOVING) == 0
    context.close()


def test_a_window_has_at_most_60_cells_and_can_be_moved(strips: Page) -> None:
    strips.set_viewport_size({"width": 3840, "height": 600})
    strips.evaluate(BEGIN, partition(replica(1, 500), replica(2, 480), messages=[]))
    shown = cells(strips, 1)
    assert [shown[0][0], shown[-1][0], len(shown)] == ["440", "499", 60]
    assert cells(strips, 2)[-1][0] == "479"
    slider = strips.get_by_role("slider")
    assert slider.get_attribute("aria-valuetext") == "offsets 440 to 499 of 0 to 499"
    slider.focus()
    strips.keyboard.press("Home")
    assert cells(strips, 1)[0][0] == "0"
    strips.keyboard.press("PageDown")
    assert cells(strips, 1)[0][0] == "60"
    strips.get_by_role("button", name="follow the end").click()
    assert cells(strips, 1)[-1][0] == "499"


def test_a_busy_partition_shows_batches_with_the_offsets_that_were_told(strips: Page) -> None:
    strips.evaluate(BEGIN, partition(replica(1, 41), replica(2, 41)))
    for frame in range(1, 30):
        end = 41 + 250 * frame
        logs = replica(1, end, high_watermark=end - 40), replica(2, end - 25)
        strips.evaluate(UPDATE, partition(*logs))
        last = cells(strips, 1)[-1][0]
        row = str(strips.locator(".replica-row[data-broker='1']").text_content())
        assert f"LEO {end}" in row
        assert f"HW {end - 40}" in row
        assert last in ("", f"{end - 40}–{end - 1}"), "a range that nobody told"
    assert len(cells(strips, 1)) < 30
    batches = [offset for offset, _, _ in cells(strips, 1) if "–" in offset]
    assert batches, "batches carry their offsets"


def test_offsets_of_a_log_that_has_run_for_years_are_placed_exactly(strips: Page) -> None:
    end = 9_007_199_254_740_000
    strips.evaluate(BEGIN, partition(replica(1, end, log_start=end - 5)))
    assert [offset for offset, _, _ in cells(strips, 1)] == [
        str(end - 5 + place) for place in range(5)
    ]
    places = strips.evaluate(
        "[...document.querySelectorAll('.cell rect')].map((rect) => rect.getBoundingClientRect().x)"
    )
    widths = {round(right - left) for left, right in pairwise(places)}
    assert len(widths) == 1


def test_consumers_that_are_close_to_each_other_can_both_be_read(strips: Page) -> None:
    pins = [{"group": "billing", "offset": 3}, {"group": "audit", "offset": 4}]
    strips.evaluate(BEGIN, partition(replica(1, 6), consumers=pins))
    boxes = [pin.bounding_box() for pin in strips.locator(".pin text").all()]
    assert strips.locator(".pin text").all_text_contents() == ["billing 3", "audit 4"]
    first, second = boxes
    assert first is not None
    assert second is not None
    apart = second["x"] >= first["x"] + first["width"] or abs(second["y"] - first["y"]) > 10
    assert apart
