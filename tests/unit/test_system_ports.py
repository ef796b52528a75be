"""The real clock, real chance, and the choice of a loop."""

import asyncio
import base64
import sys
import time

import pytest

from support.manual_clock import ManualClock
from tidelog.host import event_loop
from tidelog.host.clock import SystemClock
from tidelog.host.entropy import SystemEntropy
from tidelog.host.reports import FailureReports


def test_the_clock_goes_forward_and_knows_the_time_of_day():
    clock = SystemClock()
    readings = [clock.monotonic_ms() for _ in range(1_000)]
    assert readings == sorted(readings)
    before = int(time.time() * 1000)
    assert before - 1 <= clock.wall_ms() <= int(time.time() * 1000) + 1


def test_ids_are_random_uuids_that_do_not_look_like_options():
    drawn = [SystemEntropy().uuid() for _ in range(500)]
    assert len(set(drawn)) == 500
    for uuid in drawn:
        assert (len(uuid), uuid[6] >> 4, uuid[8] >> 6) == (16, 4, 2)
        assert not base64.urlsafe_b64encode(uuid).startswith(b"-")


def test_chance_stays_below_its_limit_and_reaches_everything():
    entropy = SystemEntropy()
    assert {entropy.below(3) for _ in range(300)} == {0, 1, 2}
    assert entropy.below(1) == 0


def test_without_uvloop_the_loop_of_asyncio_serves(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert event_loop.loop_factory() is asyncio.new_event_loop

    async def answer():
        return 42

    assert event_loop.run(answer()) == 42


def test_uvloop_is_taken_where_it_is_installed():
    uvloop = pytest.importorskip("uvloop")

    async def loop():
        return asyncio.get_running_loop()

    assert isinstance(event_loop.run(loop()), uvloop.Loop)


def raised(error):
    try:
        raise error
    except Exception as caught:
        return caught


def test_the_same_failure_is_reported_once_per_interval_and_its_repeats_are_counted():
    clock = ManualClock()
    heard = []
    reports = FailureReports(clock, heard.append)
    for _ in range(50):
        reports.report(raised(ValueError("again")), "a client")
    reports.report(raised(KeyError("another")), "a client")
    assert [(type(each.error), each.repeats) for each in heard] == [(ValueError, 0), (KeyError, 0)]
    clock.advance(60_000)
    reports.report(raised(ValueError("again")), "a client")
    assert (heard[-1].repeats, reports.total) == (49, 52)
