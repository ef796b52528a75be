"""Processes are killed while Spark writes, and every row is there once.

`make exactly-once` does the same at length, with executors and at random moments.
"""

import signal
import subprocess

import pytest
from pyspark import cloudpickle

from support.exactly_once import faults
from support.exactly_once.drivers import Drivers, InSession
from support.exactly_once.story import DRIVER, LEADER, WORKER, Plan, Run


@pytest.fixture(scope="module")
def session(spark):
    cloudpickle.register_pickle_by_value(faults)  # workers of this session do not see tests
    yield InSession(spark)
    cloudpickle.unregister_pickle_by_value(faults)


def test_a_kill_is_a_hit_only_if_it_found_a_commit_under_way(tmp_path):
    with subprocess.Popen(["sleep", "60"]) as first, subprocess.Popen(["sleep", "60"]) as second:
        outside = faults.Fault(faults.WITHIN, 1, (first.pid,))
        with faults.strike_later(tmp_path, outside, "outside", 0) as killer:
            killer.stdin.close()
        assert first.wait() == -signal.SIGKILL
        assert faults.hits(tmp_path) == 0
        faults.arm(tmp_path, faults.Fault(faults.WITHIN, 1, (second.pid,)))
        with faults.commit_under_way(tmp_path, 0) as killers:
            assert not killers, "the fault is for the batch after this one"
        with faults.commit_under_way(tmp_path, 1) as killers:
            assert [each.wait() for each in killers] == [0]
        assert second.wait() == -signal.SIGKILL
    assert (faults.struck(tmp_path), faults.hits(tmp_path)) == (1, 1)


@pytest.mark.parametrize(
    ("victim", "point"),
    [
        (WORKER, faults.BEFORE_END),
        (LEADER, faults.BEFORE_END),
    ],
)
def test_every_row_is_written_once_though_a_process_is_killed(
    session, cluster, tmp_path, victim, point
):
    plan = Plan(f"killed-{victim}-{point}".replace(" ", "-"), victim, point)
    outcome = Run(cluster, session, tmp_path, plan).run()
    assert (outcome.kills, outcome.hits) == (1, 1)
    assert outcome.exact, outcome


def test_without_its_marker_a_sink_is_caught_writing_twice(session, cluster, tmp_path):
    plan = Plan("killed-control", WORKER, faults.AFTER_END, markers=False)
    outcome = Run(cluster, session, tmp_path, plan).run()
    assert outcome.restarts == 1
    assert outcome.duplicates > 0
    assert outcome.missing == 0


@pytest.mark.long
def test_every_row_is_written_once_though_the_driver_is_killed(cluster, tmp_path):
    drivers = Drivers(tmp_path)
    try:
        outcome = Run(cluster, drivers, tmp_path, Plan("killed", DRIVER, faults.AFTER_END)).run()
    finally:
        drivers.close()
    assert (outcome.kills, outcome.restarts) == (1, 1)
    assert outcome.exact, outcome


@pytest.mark.long
@pytest.mark.parametrize("point", [faults.BEFORE_COMMIT, faults.BEFORE_END])
def test_a_driver_that_was_given_up_writes_nothing_when_it_wakes(cluster, tmp_path, point):
    drivers = Drivers(tmp_path)
    plan = Plan(f"woken-{point}".replace(" ", "-"), DRIVER, point)
    try:
        outcome, said = Run(cluster, drivers, tmp_path, plan).run_with_two_drivers()
    finally:
        drivers.close()
    assert outcome.kills == 1
    assert outcome.exact, outcome
    assert "failed" in said, said
