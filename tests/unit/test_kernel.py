"""The timeline: order, crashes, pauses, limits and the digest."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.sim.kernel import WORLD, Kernel

FOREVER_US = 1 << 50
NO_LIMIT = 1 << 50


def run(kernel, until_us=FOREVER_US, step_limit=NO_LIMIT):
    return kernel.run(until_us, step_limit)


def test_events_happen_in_order_of_time_and_then_of_scheduling():
    kernel, seen = Kernel(), []
    kernel.call_at(20, 1, seen.append, "later")
    kernel.call_at(10, 1, seen.append, "first")
    kernel.call_at(10, 2, seen.append, "second, same microsecond")
    run(kernel)
    assert seen == ["first", "second, same microsecond", "later"]
    assert kernel.steps == 3


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 3)), max_size=60))
def test_any_schedule_equals_a_stable_sort(schedule):
    kernel, seen = Kernel(), []
    for number, (at_us, owner) in enumerate(schedule):
        kernel.call_at(at_us, owner, seen.append, (at_us, number))
    run(kernel)
    assert seen == sorted(seen)
    assert len(seen) == len(schedule)


def test_now_is_the_time_of_the_event_in_both_units():
    kernel, seen = Kernel(), []
    kernel.call_at(12_345, 1, lambda _: seen.append((kernel.now_us, kernel.now_ms)), None)
    run(kernel, until_us=20_999)
    assert seen == [(12_345, 12)]
    assert (kernel.now_us, kernel.now_ms) == (20_999, 20)


def test_an_event_at_the_very_end_of_a_run_still_happens_and_a_later_one_waits():
    kernel, seen = Kernel(), []
    kernel.call_at(100, 1, seen.append, "at the end")
    kernel.call_at(101, 1, seen.append, "after")
    assert run(kernel, until_us=100)
    assert seen == ["at the end"]
    assert run(kernel, until_us=101)
    assert seen == ["at the end", "after"]


def test_a_crash_takes_back_what_was_scheduled_but_not_what_comes_after_it():
    kernel, seen = Kernel(), []
    kernel.call_at(10, 1, seen.append, "old life")
    kernel.call_at(10, 2, seen.append, "somebody else")
    kernel.revoke(1)
    kernel.call_at(10, 1, seen.append, "new life")
    run(kernel)
    assert seen == ["somebody else", "new life"]
    assert kernel.steps == 2


def test_a_paused_owner_gets_everything_at_once_and_in_order_when_it_wakes():
    kernel, seen = Kernel(), []
    for at_us in (30, 10, 20):
        kernel.call_at(at_us, 1, lambda due: seen.append((due, kernel.now_us)), at_us)
    kernel.call_at(15, 2, seen.append, "awake")
    kernel.pause(1)
    kernel.call_at(500, WORLD, kernel.resume, 1)
    run(kernel)
    assert seen == ["awake", (10, 500), (20, 500), (30, 500)]


def test_a_crash_in_a_pause_ends_both():
    kernel, seen = Kernel(), []
    kernel.call_at(10, 1, seen.append, "held back")
    kernel.pause(1)
    run(kernel, until_us=50)
    kernel.revoke(1)
    assert not kernel.is_paused(1)
    kernel.call_at(60, 1, seen.append, "after the restart")
    kernel.resume(1)
    run(kernel)
    assert seen == ["after the restart"]


def test_stop_ends_the_run_after_the_step_in_progress_with_its_first_reason():
    kernel, seen = Kernel(), []

    def fail(_):
        kernel.stop("broken")
        kernel.stop("and again")
        seen.append("the step is finished")

    kernel.call_at(10, 1, fail, None)
    kernel.call_at(11, 1, seen.append, "never")
    assert not run(kernel)
    assert seen == ["the step is finished"]
    assert kernel.stop_reason == "broken"
    assert kernel.now_us == 10


def test_the_step_limit_leaves_the_rest_for_the_next_run():
    kernel, seen = Kernel(), []
    for number in range(5):
        kernel.call_at(number, 1, seen.append, number)
    assert not run(kernel, step_limit=3)
    assert seen == [0, 1, 2]
    assert run(kernel)
    assert seen == [0, 1, 2, 3, 4]


def test_the_interval_callback_comes_after_exactly_so_many_steps():
    kernel, at = Kernel(), []
    kernel.every_steps(10, lambda: at.append(kernel.steps))
    for number in range(35):
        kernel.call_at(number, 1, lambda _: None, None)
    run(kernel, until_us=17)
    run(kernel)
    assert at == [10, 20, 30]


def test_the_past_cannot_be_scheduled():
    kernel = Kernel()
    run(kernel, until_us=100)
    with pytest.raises(AssertionError, match="scheduled at 99 µs, now is 100 µs"):
        kernel.call_at(99, 1, print, None)


def ticking(period_us):
    kernel = Kernel()

    def tick(owner):
        kernel.call_in(period_us, owner, tick, owner)

    kernel.call_in(period_us, 1, tick, 1)
    kernel.call_in(period_us, 2, tick, 2)
    run(kernel, until_us=100_000)
    return kernel.digest.hexdigest()


def test_the_digest_is_the_same_for_the_same_run_and_another_for_another():
    assert ticking(10) == ticking(10)
    assert ticking(10) != ticking(11)


def test_the_digest_does_not_depend_on_how_a_run_is_cut_into_pieces():
    def digest_of(borders):
        kernel = Kernel()
        for number in range(3_000):
            kernel.call_at(number, 1, lambda _: None, None)
        for border in borders:
            run(kernel, until_us=border)
        return kernel.digest.hexdigest()

    assert digest_of([2_999]) == digest_of([100, 1_500, 2_999])


DIGEST_PROGRAM = """
from tidelog.sim.kernel import Kernel
from tidelog.core.events import BrokerFenced
kernel = Kernel()
def tick(name):
    kernel.digest.add_happening((name,))
    kernel.digest.add_happening((2, *BrokerFenced(2, kernel.steps)))
for number in range(50):
    kernel.call_at(number, 1, tick, f"tick {number}")
kernel.run(100, 1000)
print(kernel.digest.hexdigest())
"""


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_digest_is_the_same_under_any_hash_seed(seed):
    def digest(hash_seed):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        program = [sys.executable, "-c", DIGEST_PROGRAM]
        return subprocess.run(
            program, env=environment, capture_output=True, check=True, text=True
        ).stdout

    assert digest(seed) == digest("0")


def order_at(seed, instants):
    """Who came first at each instant, when two owners have two events each at all of them."""
    kernel, ran = Kernel(seed), []
    for instant in instants:
        for number in (1, 2):
            for owner in (7, 8):
                kernel.call_at(instant, owner, ran.append, (instant, owner, number))
    kernel.run(max(instants), step_limit=1_000)
    return ran


def test_the_seed_decides_which_owner_comes_first_at_an_instant():
    instants = range(1_000, 9_000, 137)
    ran = order_at(5, instants)
    first = [next(owner for at, owner, _ in ran if at == instant) for instant in instants]
    assert {7, 8} == set(first)
    assert order_at(5, instants) == ran
    assert order_at(6, instants) != ran


def test_events_of_one_owner_at_an_instant_keep_their_order():
    ran = order_at(5, range(1_000, 9_000, 137))
    for owner in (7, 8):
        mine = [(at, number) for at, who, number in ran if who == owner]
        assert mine == sorted(mine)
