"""Kills drivers, workers, executors and leaders while Spark writes, and counts what arrived.

    make exactly-once
    python benchmarks/exactly_once.py --runs 20 --seed 7
    python benchmarks/exactly_once.py --runs 20 --table delta --store s3
    python benchmarks/exactly_once.py --runs 20 --seed 7 --only 4-6
    python benchmarks/exactly_once.py --runs 9 --point within --table delta --store s3

Every run has a topic of its own on one cluster of three brokers. The control does not read the
marker of its sink; it must be caught writing rows twice, or the proof proves nothing.

`open` counts the kills that found a commit under way: an open transaction or, of a table, a PUT of
Delta's log or a change of Iceberg's catalog that was not answered yet.

With `--table` rows go into a table instead of a topic; with `--store s3` the table lies on an S3
server of its own process; Iceberg is then in a SQL catalog. Leaders of a table are not killed:
those of the source have nothing to do with it. `--only` does some of the runs, each as it would be
among all of them. `--point` has all kills at one point, but those of executors, which are in tasks.
"""

import argparse
import contextlib
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support import object_store
from support.exactly_once import faults
from support.exactly_once.drivers import WITH_EXECUTORS, Drivers
from support.exactly_once.story import (
    AT_RANDOM,
    BATCHES,
    COMMIT_POINTS,
    DRIVER,
    EXECUTOR,
    LEADER,
    ROWS,
    WORKER,
    Plan,
    Run,
)
from support.exactly_once.targets import TableTarget
from tidelog.testing import Cluster

POINTS = (*COMMIT_POINTS, faults.WITHIN, faults.IN_TASK, AT_RANDOM)
"""Within a commit twice: it is where most can go wrong, in many ways."""
KINDS = (DRIVER, WORKER, LEADER, DRIVER)
TABLE_KINDS = (DRIVER, WORKER, DRIVER)
WIDTHS = {
    "run": 5,
    "victim": 9,
    "point": 15,
    "batch": 6,
    "kills": 6,
    "open": 5,
    "restarts": 9,
    "rows": 6,
    "twice": 6,
    "missing": 8,
    "took": 6,
}


def plans(runs, chance, kinds, some=POINTS):
    """Every point for the driver, then the others in turn; one run in ten loses an executor."""
    points = {kind: chance.sample(some, len(some)) for kind in kinds}
    for index in range(runs):
        number = chance.randrange(BATCHES)
        if index % 10 == 9:
            yield Plan(f"run-{index}", EXECUTOR, faults.IN_TASK, number)
            continue
        kind = kinds[index % len(kinds)]
        mine = points[kind]
        mine.append(mine.pop(0))
        yield Plan(f"run-{index}", kind, mine[-1], number)


def store_of(given, directory):
    return object_store.running(directory) if given.store else contextlib.nullcontext()


def row(*cells):
    line = "".join(
        str(cell).ljust(width) for cell, width in zip(cells, WIDTHS.values(), strict=True)
    )
    print(line, flush=True)


def show(outcome):
    plan = outcome.plan
    row(
        plan.name.removeprefix("run-"),
        plan.victim,
        plan.point,
        "" if plan.point == AT_RANDOM else plan.batch,
        outcome.kills,
        outcome.hits,
        outcome.restarts,
        outcome.rows,
        outcome.duplicates,
        outcome.missing,
        f"{outcome.seconds:.0f} s",
    )
    for words in outcome.failures:
        print(f"    started again after: {' '.join(words.split())[:160]}", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", type=numbers, metavar="A-B", help="of those runs")
    parser.add_argument("--point", choices=sorted(set(POINTS)), help="where all kills are")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--table", choices=["delta", "iceberg"])
    parser.add_argument("--store", choices=["s3"], help="where the table lies; else in a directory")
    given = parser.parse_args()
    if given.store and not given.table:
        parser.error("--store is for a --table")
    return given


def numbers(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def planned(given):
    chance = random.Random(given.seed)
    points = POINTS if given.point is None else [given.point]
    made = list(plans(given.runs, chance, TABLE_KINDS if given.table else KINDS, points))
    return made if given.only is None else [made[number] for number in given.only]


def main():
    given = arguments()
    directory = Path(tempfile.mkdtemp(prefix="tidelog-exactly-once-"))
    drivers = Drivers(directory)
    print(f"seed {given.seed}, {ROWS} rows in {BATCHES} batches per run")
    row(*WIDTHS)
    began = time.monotonic()

    def run(plan):
        target = None
        if given.table:
            (directory / "tables" / plan.name).mkdir(parents=True)
            target = TableTarget(given.table, directory / "tables" / plan.name, store)
        chance = random.Random(f"{given.seed} {plan.name}")
        return Run(cluster, drivers, directory, plan, chance, target=target).run()

    try:
        with Cluster(brokers=3) as cluster, store_of(given, directory) as store:
            outcomes = []
            for plan in planned(given):
                outcomes.append(run(plan))
                show(outcomes[-1])
                if plan.spark_url == WITH_EXECUTORS:
                    drivers.drop(WITH_EXECUTORS)
            control = Plan("ctrl", DRIVER, faults.AFTER_END, 2, markers=False)
            caught = run(control)
            show(caught)
    finally:
        drivers.close()
        shutil.rmtree(directory, ignore_errors=True)
    wrong = [each.plan.name for each in outcomes if not each.exact]
    kills, hits = sum(each.kills for each in outcomes), sum(each.hits for each in outcomes)
    print(
        f"{len(outcomes)} runs, {kills} kills, {hits} of them in an open commit,"
        f" {len(wrong)} wrong {wrong or ''},"
        f" control {'caught' if caught.duplicates else 'NOT CAUGHT'},"
        f" {time.monotonic() - began:.0f} s"
    )
    return 1 if wrong or not caught.duplicates else 0


if __name__ == "__main__":
    sys.exit(main())
