"""Seeds on the executors of Spark come to the same as seeds on this machine."""

from tidelog.cli.sim.on_spark import spread
from tidelog.cli.sim.report import fleet_json
from tidelog.sim.fleet import FleetReport, Orders, run_fleet
from tidelog.sim.nodes.run import run_node_seed

SPEED = "steps_per_second"


def test_seeds_on_spark_give_the_report_of_seeds_here(spark):
    orders = Orders(first=40, seeds=2, done=(41,))
    told: list[int] = []
    here = run_fleet(orders, run_node_seed)
    heard: list[int] = []
    there = spread(
        spark.sparkContext,
        orders,
        run_node_seed,
        lambda so_far: told.append(so_far.seeds),
        FleetReport(on_finished=lambda finished: heard.append(finished.result.seed)),
    )
    assert sorted(heard) == [40, 42]
    assert without_speed(there) == without_speed(here)
    assert there.seeds == 2
    assert told == sorted(told)


def without_speed(report: FleetReport) -> dict[str, object]:
    document = fleet_json(report, mutant=None)
    del document[SPEED]
    return document
