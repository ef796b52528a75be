"""One run of the proof: rows go from topic to topic while somebody dies, then they are counted."""

import collections
import random
import signal
import time
from pathlib import Path
from typing import NamedTuple

from support.exactly_once import faults
from support.exactly_once.drivers import DEAD, LOCAL, WITH_EXECUTORS
from support.exactly_once.targets import PARTITIONS, TopicTarget
from tidelog.client import NewRecord, Producer

BATCHES = 4
ROWS_PER_BATCH = 300
ROWS = BATCHES * ROWS_PER_BATCH
TRIES = 8
DONE_WITHIN_S = 240
DRIVER, WORKER, EXECUTOR, LEADER = "driver", "worker", "executor", "leader"
AT_RANDOM = "at random"
LATEST_SHARE = 0.7
"""Of a commit, before the kill within it: who kills takes a while to start, too."""
COMMIT_POINTS = (faults.BEFORE_COMMIT, faults.WITHIN, faults.BEFORE_END, faults.AFTER_END)


class Plan(NamedTuple):
    """What happens in a run."""

    name: str
    victim: str
    point: str
    number: int = 1
    markers: bool = True

    @property
    def batch(self):
        """In which it happens. For a kill within a commit, those before it tell how long one takes,
        and the first takes longer than the others."""
        return max(self.number, 2) if self.point == faults.WITHIN else self.number

    @property
    def spark_url(self):
        return WITH_EXECUTORS if self.victim == EXECUTOR else LOCAL


class Outcome(NamedTuple):
    plan: Plan
    kills: int
    hits: int
    """Kills that found a commit under way."""
    restarts: int
    rows: int
    """Of the reader that has nothing to do with Spark."""
    duplicates: int
    missing: int
    by_spark: dict
    seconds: float
    failures: tuple[str, ...]
    """What queries said that failed and were started again."""

    @property
    def exact(self):
        expected = {"rows": ROWS, "distinct": ROWS, "least": 0, "most": ROWS - 1}
        return not self.duplicates and not self.missing and self.by_spark == expected


class Run:
    """Owner of everything in one run."""

    def __init__(self, cluster, drivers, directory, plan, chance=None, *, target=None):
        self.cluster = cluster
        self.drivers = drivers
        self.plan = plan
        self.chance = chance or random.Random(plan.name)
        self.directory = Path(directory) / plan.name
        self.faults = self.directory / "faults"
        self.faults.mkdir(parents=True)
        self.target = target or TopicTarget(cluster, plan.name)
        self.leader = None
        self.random_kills = 0
        self.random_hits = 0
        self.failures = []

    def run(self):
        began = time.monotonic()
        source = self.cluster.topic(f"{self.plan.name}-in", partitions=PARTITIONS)
        fill(self.cluster, source)
        driver, restarts = self._until_done(source)
        self._revive()
        return self._counted(driver, restarts, began)

    def _counted(self, driver, restarts, began):
        driver.ask(kind="count", bootstrap=self.cluster.bootstrap_servers, **self.target.job())
        by_spark = driver.answer(DONE_WITHIN_S)
        self.drivers.give_back(self.plan.spark_url, driver)
        values = collections.Counter(self.target.values())
        duplicates = sum(values.values()) - len(values)
        missing = len(set(range(ROWS)) - set(values))
        kills = faults.struck(self.faults) + self.random_kills
        hits = faults.hits(self.faults) + self.random_hits
        seconds = time.monotonic() - began
        counts = (kills, hits, restarts, sum(values.values()), duplicates, missing)
        return Outcome(self.plan, *counts, by_spark, seconds, tuple(self.failures))

    def run_with_two_drivers(self):
        """The first one stands still in the middle of a commit, is given up and replaced, and
        wakes up when the second one is done. Also gives what the first one said then."""
        began = time.monotonic()
        source = self.cluster.topic(f"{self.plan.name}-in", partitions=PARTITIONS)
        fill(self.cluster, source)
        first = self.drivers.take(self.plan.spark_url)
        fault = faults.Fault(self.plan.point, self.plan.number, itself=True, by=signal.SIGSTOP)
        faults.arm(self.faults, fault)
        self._ask(first, source)
        self.cluster.wait(lambda: faults.struck(self.faults), DONE_WITHIN_S)
        second = self.drivers.take(self.plan.spark_url)
        self._ask(second, source)
        done = second.answer(DONE_WITHIN_S)
        assert "failed" not in done, done
        for pid in below(first.jvm):
            faults.send(pid, signal.SIGCONT)
        said = first.answer(DONE_WITHIN_S)
        outcome = self._counted(second, 1, began)
        self.drivers.lose(first)
        return outcome, said

    def _until_done(self, source):
        driver = None
        for restarts in range(TRIES):
            if driver is None:
                driver = self.drivers.take(self.plan.spark_url)
            if restarts == 0:
                self._arm(driver)
            self._ask(driver, source)
            if restarts == 0 and self.plan.point == AT_RANDOM:
                self._kill_at_random(driver)
            answer = driver.answer(DONE_WITHIN_S)
            done = answer is not DEAD and "failed" not in answer
            if answer is DEAD or (restarts == 0 and self._killed_a_driver()):
                self.drivers.lose(driver)  # it may have been killed just after it answered
                driver = None
            if done:
                return driver or self.drivers.take(self.plan.spark_url), restarts
            if answer is not DEAD:
                self.failures.append(answer["failed"])
        raise AssertionError(f"{self.plan}: not done after {TRIES} tries: {answer}")

    def _ask(self, driver, source):
        driver.ask(
            kind="copy",
            bootstrap=self.cluster.bootstrap_servers,
            source=source,
            rows_per_batch=ROWS_PER_BATCH,
            tasks=self.chance.randint(2, 4),  # a replay is split otherwise
            checkpoint=str(self.directory / "checkpoint"),
            faults=str(self.faults),
            markers=self.plan.markers,
            **self.target.job(),
        )

    def _arm(self, driver):
        plan = self.plan
        if plan.victim == LEADER:
            self.leader = self.cluster.partition(self.target.topic, 0).leader
        if plan.victim == DRIVER:
            # The next one starts while this one works.
            self.drivers.prepare(plan.spark_url)
        if plan.point == AT_RANDOM:
            return
        share = self.chance.uniform(0, LATEST_SHARE)
        fault = faults.Fault(plan.point, plan.batch, itself=plan.victim != LEADER, share=share)
        if plan.victim == DRIVER:
            fault = fault._replace(victims=driver.pids)
        elif plan.victim == LEADER:
            fault = fault._replace(victims=(self.cluster.pid(self.leader),))
        elif plan.victim == EXECUTOR:
            fault = fault._replace(above=True)
        faults.arm(self.faults, fault)

    def _kill_at_random(self, driver):
        """At a moment that nobody has chosen, after the first rows were written."""
        self.cluster.wait(self.target.has_rows, 120)
        time.sleep(self.chance.uniform(0, 1.5))
        before = faults.open_commits(self.faults)
        if self.plan.victim == LEADER:
            self.cluster.kill(self.leader)
        elif self.plan.victim == WORKER:
            for pid in self.chance.sample(workers_of(driver.jvm), 1):
                faults.kill(pid)
        else:
            for pid in driver.pids:
                faults.kill(pid)
        self.random_kills += 1
        self.random_hits += bool(before & faults.open_commits(self.faults))

    def _killed_a_driver(self):
        return self.random_kills > 0 and self.plan.victim == DRIVER

    def _revive(self):
        if self.leader is not None and self.cluster.pid(self.leader) is None:
            self.cluster.restart(self.leader)
            self.cluster.wait_ready()


def fill(cluster, topic):
    records = [NewRecord(b"%d" % number, b"%d" % number) for number in range(ROWS)]

    async def produce(client):
        await Producer(client).write(topic, records)

    cluster.ask(produce)


def parents_of_all():
    """Process id → the id of its parent."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return parents


def below(ancestor):
    """Everything that this process started, and what those started."""
    parents = parents_of_all()
    found = {ancestor}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {ancestor})


def workers_of(jvm):
    """Python processes below a JVM that run tasks and commits, not the daemons that fork them."""
    parents = parents_of_all()
    daemons = {pid for pid, parent in parents.items() if parent == jvm}
    workers = [pid for pid, parent in parents.items() if parent in daemons]
    return sorted(workers) or sorted(daemons)
