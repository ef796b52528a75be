"""Kills drivers, workers, executors and leaders while Spark writes, and counts what arrived.

    make exactly-once
    python benchmarks/exactly_once.py --runs 20 --seed 7

Every run has a topic of its own on one cluster of three brokers. The control does not read the
marker of its sink; it must be caught writing rows twice, or the proof proves nothing.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

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
from tidelog.testing import Cluster

POINTS = (*COMMIT_POINTS, faults.IN_TASK, AT_RANDOM)
KINDS = (DRIVER, WORKER, LEADER, DRIVER)
WIDTHS = (5, 9, 15, 6, 6, 9, 6, 6, 8, 6)


def plans(runs, chance):
    """Every point for the driver, then the others in turn; one run in ten loses an executor."""
    points = {kind: chance.sample(POINTS, len(POINTS)) for kind in (DRIVER, WORKER, LEADER)}
    for index in range(runs):
        number = chance.randrange(BATCHES)
        if index % 10 == 9:
            yield Plan(f"run-{index}", EXECUTOR, faults.IN_TASK, number)
            continue
        kind = KINDS[index % len(KINDS)]
        mine = points[kind]
        mine.append(mine.pop(0))
        yield Plan(f"run-{index}", kind, mine[-1], number)


def row(*cells):
    line = "".join(str(cell).ljust(width) for cell, width in zip(cells, WIDTHS, strict=True))
    print(line, flush=True)


def show(outcome):
    plan = outcome.plan
    row(
        plan.name.removeprefix("run-"),
        plan.victim,
        plan.point,
        plan.number,
        outcome.kills,
        outcome.restarts,
        outcome.rows,
        outcome.duplicates,
        outcome.missing,
        f"{outcome.seconds:.0f} s",
    )
    for words in outcome.failures:
        print(f"    started again after: {' '.join(words.split())[:160]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    chance = random.Random(given.seed)
    directory = Path(tempfile.mkdtemp(prefix="tidelog-exactly-once-"))
    drivers = Drivers(directory)
    print(f"seed {given.seed}, {ROWS} rows in {BATCHES} batches per run")
    row("run", "victim", "point", "batch", "kills", "restarts", "rows", "twice", "missing", "took")
    began = time.monotonic()
    try:
        with Cluster(brokers=3) as cluster:
            outcomes = []
            for plan in plans(given.runs, chance):
                outcomes.append(Run(cluster, drivers, directory, plan, chance).run())
                show(outcomes[-1])
                if plan.spark_url == WITH_EXECUTORS:
                    drivers.drop(WITH_EXECUTORS)
            control = Plan("ctrl", DRIVER, faults.AFTER_END, 2, markers=False)
            caught = Run(cluster, drivers, directory, control, chance).run()
            show(caught)
    finally:
        drivers.close()
        shutil.rmtree(directory, ignore_errors=True)
    wrong = [each.plan.name for each in outcomes if not each.exact]
    kills = sum(each.kills for each in outcomes)
    print(
        f"{len(outcomes)} runs, {kills} kills, {len(wrong)} wrong {wrong or ''},"
        f" control {'caught' if caught.duplicates else 'NOT CAUGHT'},"
        f" {time.monotonic() - began:.0f} s"
    )
    return 1 if wrong or not caught.duplicates else 0


if __name__ == "__main__":
    sys.exit(main())
