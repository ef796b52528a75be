"""The one timer of a process, on a clock that the test owns."""

import asyncio
import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.manual_clock import ManualClock
from tidelog.host.clock import SystemClock
from tidelog.host.timers import LoopDriver, TimerWheel


@given(
    st.lists(st.tuples(st.integers(0, 200), st.booleans()), max_size=50),
    st.lists(st.integers(1, 60), max_size=12),
)
def test_timers_fire_once_in_order_never_early_and_not_when_cancelled(plans, steps):
    clock = ManualClock(0)
    wheel = TimerWheel(clock, tick_ms=5)
    fired = []
    timers = [
        wheel.add(deadline_ms, lambda n=number: fired.append((n, clock.now_ms)))
        for number, (deadline_ms, _) in enumerate(plans)
    ]
    for timer, (_, cancelled) in zip(timers, plans, strict=True):
        if cancelled:
            timer.cancel()
    assert len(wheel) == sum(not cancelled for _, cancelled in plans)
    for step in [*steps, 300]:
        clock.advance(step)
        wheel.fire_due()
        due = {n for n, (ms, off) in enumerate(plans) if not off and ms <= clock.now_ms - 5}
        assert due <= {number for number, _ in fired}, "later than a tick"
    assert all(at >= plans[number][0] for number, at in fired)
    ticks = [-(-plans[number][0] // 5) for number, _ in fired]
    assert ticks == sorted(ticks)
    assert sorted(number for number, _ in fired) == [
        number for number, (_, cancelled) in enumerate(plans) if not cancelled
    ]
    assert not any(timer.pending for timer in timers)


def test_a_cancelled_timer_is_gone_at_once():
    wheel = TimerWheel(ManualClock())
    for _ in range(1_000):
        wheel.after(30_000, lambda: None).cancel()
    assert len(wheel) == 0


def test_a_timer_may_cancel_one_of_the_same_tick_and_add_one_that_is_due():
    clock = ManualClock(0)
    wheel = TimerWheel(clock, tick_ms=5)
    fired = []

    def first():
        fired.append("first")
        second.cancel()
        wheel.add(0, lambda: fired.append("third"))

    wheel.add(3, first)
    second = wheel.add(4, lambda: fired.append("second"))
    clock.advance(5)
    wheel.fire_due()
    assert fired == ["first"]
    wheel.fire_due()
    assert fired == ["first", "third"]


def test_a_failing_timer_does_not_keep_others_from_firing():
    clock = ManualClock(0)
    wheel = TimerWheel(clock)
    fired = []
    wheel.add(1, lambda: 1 // 0)
    wheel.add(1, lambda: fired.append("sound"))
    clock.advance(10)
    with pytest.raises(ExceptionGroup) as caught:
        wheel.fire_due()
    assert caught.group_contains(ZeroDivisionError)
    assert fired == ["sound"]


def test_a_loop_fires_a_wheel_on_real_time_also_when_an_earlier_timer_comes():
    async def story():
        wheel = TimerWheel(SystemClock())
        driver = LoopDriver(wheel, asyncio.get_running_loop())
        fired = asyncio.Queue()
        far = wheel.after(3_600_000, lambda: fired.put_nowait("far"))
        wheel.after(10, lambda: wheel.after(10, lambda: fired.put_nowait("second")))
        wheel.after(1, lambda: fired.put_nowait("first"))
        heard = [await fired.get(), await fired.get()]
        far.cancel()
        driver.close()
        return heard

    assert asyncio.run(asyncio.wait_for(story(), 30)) == ["first", "second"]


def test_nobody_wakes_up_for_a_tick_whose_timers_are_all_cancelled():
    clock = ManualClock(0)
    wheel = TimerWheel(clock, tick_ms=5)
    fired = []
    wheel.add(10, lambda: fired.append(10))
    for deadline_ms in (20, 30, 40):
        wheel.add(deadline_ms, lambda: fired.append(-1)).cancel()
    wheel.add(50, lambda: fired.append(50))
    clock.advance(10)
    wheel.fire_due()
    assert wheel.next_deadline_ms == 50
    wheel.add(20, lambda: fired.append(20))
    assert wheel.next_deadline_ms == 20, "a tick that was dropped may be used again"
    clock.advance(40)
    wheel.fire_due()
    assert fired == [10, 20, 50]
    assert wheel.next_deadline_ms is None


class Waiter:
    """Has its timer, and is what the timer calls: as parked requests are."""

    def __init__(self, wheel):
        self.timer = wheel.after(1_000, self.on_time)

    def on_time(self):
        pass


@pytest.mark.parametrize("fires", [False, True])
def test_whose_timer_has_ended_is_freed_without_a_collection(fires):
    clock = ManualClock()
    wheel = TimerWheel(clock)
    waiter = Waiter(wheel)
    if fires:
        clock.advance(2_000)
        wheel.fire_due()
    else:
        waiter.timer.cancel()
    seen = weakref.ref(waiter)
    gc.disable()
    try:
        del waiter
        assert seen() is None
    finally:
        gc.enable()
