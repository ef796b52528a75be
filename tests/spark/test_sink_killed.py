"""Processes are killed while Spark writes, and every row is there once.

`make exactly-once` does the same at length, with executors and at random moments.
"""

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
    assert outcome.kills == 1
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
