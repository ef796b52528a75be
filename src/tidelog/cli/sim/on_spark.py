"""Seeds spread over the executors of a Spark cluster: the same runs, the same report.

Tasks hand their results over as they end, so progress and what an interrupt leaves are as they
are with processes on this machine.
"""

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.cli.spark_options import spark_session
from tidelog.sim.fleet import TICK_SECONDS, Finished, FleetReport, Orders, RunOne, run_seeds

if TYPE_CHECKING:
    from pyspark import SparkContext

APPLICATION = "tidelog sim run"
TASKS_PER_CORE = 8
TASK_SEEDS_MAX = 4
"""A seed takes far longer than a task costs, and results come when tasks end."""

Tell = Callable[[FleetReport], None]


class Cluster(NamedTuple):
    """A Spark cluster, as the options of a command name it."""

    url: str
    conf: dict[str, str]


def run_on_spark(
    cluster: Cluster,
    orders: Orders,
    run_one: RunOne,
    tell: Tell,
    report: FleetReport | None = None,
) -> FleetReport:
    """Run the seeds; on Ctrl-C, what has been finished, marked as interrupted. `run_one` travels
    to the executors."""
    with spark_session(APPLICATION, cluster.url, cluster.conf) as spark:
        return spread(spark.sparkContext, orders, run_one, tell, report)


def spread(
    context: "SparkContext",
    orders: Orders,
    run_one: RunOne,
    tell: Tell,
    report: FleetReport | None = None,
) -> FleetReport:
    """The same on a Spark that is there."""
    from pyspark import AccumulatorParam

    class Gathered(AccumulatorParam[list[Finished]]):
        def zero(self, value: list[Finished]) -> list[Finished]:
            return []

        def addInPlace(  # noqa: N802 - Spark's name
            self, value1: list[Finished], value2: list[Finished]
        ) -> list[Finished]:
            value1 += value2
            return value1

    assert orders.seeds is not None, "seeds on Spark without an end"
    seeds = list(orders.upcoming())
    size = max(1, min(TASK_SEEDS_MAX, len(seeds) // (TASKS_PER_CORE * context.defaultParallelism)))
    results = context.accumulator([], Gathered())
    spread = context.parallelize(seeds, -(-len(seeds) // size))
    job = _Job(partial(spread.foreachPartition, partial(_run_task, run_one, results)))
    report = FleetReport() if report is None else report
    try:
        while not job.ended(TICK_SECONDS):
            _take(report, results.value)
            tell(report)
    except KeyboardInterrupt:
        report.interrupted = True
        context.cancelAllJobs()
    _take(report, list(results.value))
    if not report.interrupted:
        job.check()
        assert report.seeds == len(seeds), f"{report.seeds} of {len(seeds)} seeds came back"
    return report


def _run_task(run_one: RunOne, results: Any, seeds: Iterable[int]) -> None:
    """In a worker. A failed task runs again, and its results count once."""
    results.add(list(run_seeds(seeds, run_one)))


def _take(report: FleetReport, results: list[Finished]) -> None:
    """Those that have come since; the list only grows."""
    for finished in results[report.seeds :]:
        report.add(finished)


class _Job:
    """A job of Spark on a thread of its own: whoever waits for it can be interrupted."""

    __slots__ = ("_error", "_thread")

    def __init__(self, run: Callable[[], None]) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, args=(run,), daemon=True)
        self._thread.start()

    def ended(self, within_seconds: float) -> bool:
        self._thread.join(within_seconds)
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raises what ended the job, if it did not end well."""
        if self._error is not None:
            raise self._error

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:  # told to whoever waits
            self._error = error
