"""Many seeds: the same sum however many processes, and a clean end when interrupted."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import pytest

from support.toy_runs import strict_toy, toy
from tidelog.sim.fleet import FleetError, FleetReport, Orders, run_fleet


def comparable(report):
    report.busy_ns = 0
    return report, report.digest()


def test_the_report_does_not_depend_on_the_number_of_processes():
    alone = run_fleet(Orders(first=5, seeds=24, jobs=1), strict_toy)
    together = run_fleet(Orders(first=5, seeds=24, jobs=3), strict_toy)
    assert alone.seeds == 24
    assert alone.steps_per_second > 0
    assert comparable(alone) == comparable(together)


def test_the_sum_is_that_of_its_seeds():
    report = run_fleet(Orders(seeds=6, jobs=2), toy)
    results = [toy(seed) for seed in range(6)]
    assert report.steps == sum(result.steps for result in results)
    assert report.simulated_ms == sum(result.simulated_ms for result in results)
    assert report.faults.total() == sum(sum(result.faults.values()) for result in results)
    assert report.digests == {result.seed: result.digest for result in results}


def test_another_first_seed_is_another_digest():
    assert (
        run_fleet(Orders(seeds=3), toy).digest()
        != run_fleet(Orders(first=1, seeds=3), toy).digest()
    )


@pytest.mark.parametrize("jobs", [1, 3])
def test_stopping_at_the_first_violation_names_the_lowest_seed(jobs):
    lowest = next(seed for seed in range(500) if strict_toy(seed).violations)
    report = run_fleet(Orders(seeds=500, jobs=jobs, stop_at_first=True), strict_toy)
    assert report.failures[0].seed == lowest
    assert report.seeds < 500


def test_progress_is_told_and_only_grows():
    told = []
    run_fleet(Orders(seeds=20, jobs=2), toy, lambda report: told.append(report.seeds))
    assert told == sorted(told)
    assert told[-1] == 20


def test_no_new_seeds_are_begun_when_the_time_is_over():
    report = run_fleet(Orders(seconds=0.0, jobs=2), toy)
    assert report.seeds == 0
    assert not report.interrupted


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_ends_the_fleet_with_what_was_finished(jobs):
    done = threading.Event()

    def interrupt(report):
        if report.seeds >= 2 and not done.is_set():
            done.set()
            os.kill(os.getpid(), signal.SIGINT)

    report = run_fleet(Orders(seeds=100_000, jobs=jobs), toy, interrupt)
    assert report.interrupted
    assert 2 <= report.seeds < 100_000
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("jobs", [1, 3])
def test_seeds_that_are_done_are_left_out_and_not_counted(jobs):
    heard = []
    report = FleetReport(on_finished=lambda finished: heard.append(finished.result.seed))
    orders = Orders(first=2, seeds=5, jobs=jobs, done={0, 3, 5, 6})
    assert run_fleet(orders, toy, None, report) is report
    assert sorted(heard) == sorted(report.digests) == [2, 4, 7, 8, 9]


def test_a_worker_that_cannot_run_its_seed_says_which_and_why():
    def broken(seed):
        raise LookupError("no world")

    with pytest.raises(FleetError, match=r"at seed \d: LookupError: no world"):
        run_fleet(Orders(seeds=4, jobs=2), broken)
    assert multiprocessing.active_children() == []


ENDLESS = """
import os
from support.toy_runs import toy
from tidelog.sim.fleet import Orders, run_fleet

def noted(seed):
    print(os.getpid(), flush=True)
    return toy(seed)

run_fleet(Orders(seeds=1_000_000, jobs=3), noted)
"""


def test_workers_end_when_their_parent_is_killed():
    """They used to wait for their next seed for ever, and kept the lock of a campaign."""
    path = os.pathsep.join(each for each in sys.path if each)
    command = [sys.executable, "-c", ENDLESS]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    ) as parent:
        assert parent.stdout is not None
        seen = {int(parent.stdout.readline())}
        while len(seen) < 3:
            seen.add(int(parent.stdout.readline()))
        guard = threading.Timer(60, lambda: [os.kill(pid, signal.SIGKILL) for pid in seen])
        guard.start()
        parent.kill()
        parent.stdout.read()  # until nobody can write any more
        assert guard.is_alive(), "a worker outlived its parent"
        guard.cancel()


def test_a_worker_that_dies_is_noticed():
    def dying(seed):
        os._exit(9)

    with pytest.raises(FleetError, match="ended with exit code 9"):
        run_fleet(Orders(seeds=4, jobs=2), dying)
    assert multiprocessing.active_children() == []
