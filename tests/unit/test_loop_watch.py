"""Who held the event loop: beats, looks at the stack, and the line in the journal."""

import asyncio
import logging
import signal
import sys
import time

import pytest

from tidelog.host.work import Work
from tidelog.observe.counts import LoopDelay
from tidelog.observe.loop_watch import HELD_S, LoopWatch


class Watched:
    """A watch whose clock we set. We stand in for the loop, and for the alarm."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.work = Work()
        self.delay = LoopDelay()
        self.watch = LoopWatch(self.work, self.delay, clock=lambda: self.now_s)

    def pass_and_look(self, seconds: float) -> None:
        self.now_s += seconds
        self.watch.look(sys._getframe())


@pytest.fixture
def watched() -> Watched:
    return Watched()


def lines(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_loop_that_beats_in_time_is_not_spoken_of(watched, caplog):
    for _ in range(5):
        watched.pass_and_look(0.2)
        watched.watch.beat()
    assert lines(caplog) == []
    assert watched.delay.holds == 0


def test_a_request_that_holds_the_loop_is_named_with_its_size(watched, caplog):
    watched.work.begin("MetadataRequest", 2_000_123, "bytes")
    watched.pass_and_look(1.5)
    watched.work.end()
    watched.watch.beat()
    (line,) = lines(caplog)
    assert "MetadataRequest (2,000,123 bytes)" in line
    assert "held the event loop for 1.50 s" in line
    assert caplog.records[0].levelno == logging.WARNING
    assert (watched.delay.holds, watched.delay.longest_hold_seconds) == (1, 1.5)


def test_what_has_no_name_is_found_by_its_place_in_the_code(watched, caplog, monkeypatch):
    monkeypatch.setattr("tidelog.observe.loop_watch.OWN_CODE", "/tests/")
    watched.pass_and_look(2 * HELD_S)
    watched.watch.beat()
    (line,) = lines(caplog)
    assert "unit.test_loop_watch.pass_and_look held the event loop" in line


def test_who_was_seen_most_often_is_named(watched, caplog):
    watched.work.begin("checkpoint_high_watermarks", 600, "partitions")
    watched.pass_and_look(0.3)
    watched.work.begin("FetchRequest", 145, "bytes")
    watched.pass_and_look(0.1)
    watched.pass_and_look(0.1)
    watched.watch.beat()
    (line,) = lines(caplog)
    assert line.startswith("FetchRequest (145 bytes)")


def test_a_machine_that_gave_us_no_processor_is_not_blamed_on_a_handler(
    watched, caplog, monkeypatch
):
    monkeypatch.setattr("tidelog.observe.loop_watch.place_of", lambda _: "")
    watched.pass_and_look(2.0)
    watched.watch.beat()
    (line,) = lines(caplog)
    assert line.startswith("nothing of this node")


def test_a_hold_is_told_once(watched, caplog):
    watched.pass_and_look(1.0)
    watched.watch.beat()
    watched.now_s += 0.1
    watched.watch.beat()
    assert len(lines(caplog)) == 1
    assert sum(watched.delay.over) == 2


def test_a_running_watch_sees_the_function_that_holds_the_loop(watched, caplog, monkeypatch):
    monkeypatch.setattr("tidelog.observe.loop_watch.OWN_CODE", "/tests/")
    watch = LoopWatch(watched.work, watched.delay)

    def hold_the_loop() -> None:
        while len(watch._seen) < 3:  # the alarm of the process goes off in here
            time.monotonic()

    async def life() -> None:
        watch.start()
        hold_the_loop()
        while not lines(caplog):
            await asyncio.sleep(0.01)
        watch.stop()

    asyncio.run(life())
    assert "hold_the_loop held the event loop" in lines(caplog)[0]


def test_a_stopped_watch_leaves_neither_an_alarm_nor_a_handler(watched):
    async def life() -> None:
        watched.watch.start()
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        watched.watch.stop()

    before = signal.getsignal(signal.SIGALRM)
    asyncio.run(life())
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) == before
