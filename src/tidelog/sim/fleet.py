"""Many seeds over the cores of this machine, added up into one report.

Processes are forked, one per core, and ask for the next seed when they have finished one; no
threads, so a fork is safe. Seeds are handed out in order, and the report does not depend on how
many processes there were.

This is the one place of the package that reads a real clock: to say how fast it went.
"""

import hashlib
import multiprocessing
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, NamedTuple

from tidelog.sim.results import SeedResult

RunOne = Callable[[int], SeedResult]

TICK_SECONDS: Final = 0.5


class Finished(NamedTuple):
    """A seed that has run, and the processor time it took."""

    result: SeedResult
    busy_ns: int


class Stumbled(NamedTuple):
    """A worker could not run its seed at all: not a finding, but a fault of the machinery."""

    traceback: str


class FleetError(Exception):
    """A process of the fleet could not go on; the text names the seed it was running."""


@dataclass(slots=True)
class FleetReport:
    """The sum of many seeds."""

    seeds: int = 0
    steps: int = 0
    simulated_ms: int = 0
    busy_ns: int = 0
    acknowledged: int = 0
    refused: int = 0
    timed_out: int = 0
    lost: int = 0
    forfeited: int = 0
    failures: list[SeedResult] = field(default_factory=list)
    """In the order of their seeds."""
    marks: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    declined: Counter[str] = field(default_factory=Counter)
    interrupted: bool = False
    digests: dict[int, str] = field(default_factory=dict)
    on_finished: Callable[[Finished], None] | None = field(default=None, compare=False)
    """Hears of every seed as it is added."""

    @property
    def steps_per_second(self) -> float:
        """Per core, with every check on."""
        return self.steps * 1e9 / self.busy_ns if self.busy_ns else 0.0

    @property
    def violations(self) -> int:
        return sum(len(result.violations) for result in self.failures)

    def digest(self) -> str:
        """Of all digests in the order of their seeds."""
        whole = hashlib.blake2b(digest_size=16)
        for seed in sorted(self.digests):
            whole.update(f"{seed} {self.digests[seed]}\n".encode())
        return whole.hexdigest()

    def add(self, finished: Finished) -> None:
        result = finished.result
        assert result.seed not in self.digests, f"seed {result.seed} ran twice"
        self.seeds += 1
        self.steps += result.steps
        self.simulated_ms += result.simulated_ms
        self.busy_ns += finished.busy_ns
        self.acknowledged += result.acknowledged
        self.refused += result.refused
        self.timed_out += result.timed_out
        self.lost += result.lost
        self.forfeited += result.forfeited
        self.marks.update(result.marks)
        self.faults.update(result.faults)
        self.declined.update(result.declined)
        self.digests[result.seed] = result.digest
        if result.violations:
            self.failures.append(result)
            self.failures.sort(key=lambda failure: failure.seed)
        if self.on_finished is not None:
            self.on_finished(finished)


Progress = Callable[[FleetReport], None]
"""Called after every seed and at least twice a second."""


@dataclass(slots=True)
class Orders:
    """What a fleet is to do."""

    first: int = 0
    seeds: int | None = None
    """None: until the time is up."""
    jobs: int = 1
    seconds: float | None = None
    """No new seeds after this time."""
    stop_at_first: bool = False
    """No new seeds after a violation; lower seeds are finished, so the first one is known."""
    done: Collection[int] = ()
    """Seeds that are left out. `seeds` counts the others."""

    def upcoming(self) -> Iterator[int]:
        """The seeds to run, in order."""
        unrun = (seed for seed in count(self.first) if seed not in self.done)
        return islice(unrun, self.seeds)


def run_fleet(
    orders: Orders,
    run_one: RunOne,
    progress: Progress | None = None,
    report: FleetReport | None = None,
) -> FleetReport:
    """Run the seeds; on Ctrl-C, what has been finished, marked as interrupted."""
    assert orders.seeds is not None or orders.seconds is not None, "a fleet without an end"
    assert orders.jobs >= 1, f"{orders.jobs} jobs"
    report = FleetReport() if report is None else report
    tell = progress or (lambda _: None)
    try:
        if orders.jobs == 1 or orders.seeds == 1:
            _run_here(orders, run_one, report, tell)
        else:
            _run_forked(orders, run_one, report, tell)
    except KeyboardInterrupt:
        report.interrupted = True
    return report


def _next_seeds(orders: Orders, report: FleetReport) -> Iterator[int]:
    """For as long as there should be any."""
    deadline = None if orders.seconds is None else time.monotonic() + orders.seconds
    for seed in orders.upcoming():
        if deadline is not None and time.monotonic() >= deadline:
            return
        if orders.stop_at_first and report.failures:
            return
        yield seed


def run_seeds(seeds: Iterable[int], run_one: RunOne) -> Iterator[Finished]:
    """One after the other, each with the time it took."""
    for seed in seeds:
        begin_ns = time.process_time_ns()
        result = run_one(seed)
        yield Finished(result, time.process_time_ns() - begin_ns)


def _run_here(orders: Orders, run_one: RunOne, report: FleetReport, tell: Progress) -> None:
    for finished in run_seeds(_next_seeds(orders, report), run_one):
        report.add(finished)
        tell(report)


def _run_forked(orders: Orders, run_one: RunOne, report: FleetReport, tell: Progress) -> None:
    workers: list[_Worker] = []
    for _ in range(orders.jobs):
        workers.append(_Worker(run_one, [worker.connection for worker in workers]))
    seeds = _next_seeds(orders, report)
    try:
        for worker in workers:
            worker.give(next(seeds, None))
        while busy := [worker for worker in workers if worker.seed is not None]:
            ready = wait([worker.connection for worker in busy], TICK_SECONDS)
            for worker in busy:
                if worker.connection in ready:
                    report.add(worker.take())
                    worker.give(next(seeds, None))
            tell(report)
        for worker in workers:
            worker.process.join()
    except KeyboardInterrupt:
        for worker in workers:
            if worker.seed is not None and worker.connection.poll():
                report.add(worker.take())
        raise
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """One forked process and the seed it is running."""

    __slots__ = ("connection", "process", "seed")

    def __init__(self, run_one: RunOne, others: "list[Connection[Any, Any]]") -> None:
        """`others`: the connections of those that were forked before."""
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_serve, args=(theirs, [self.connection, *others], run_one), daemon=True
        )
        self.process.start()
        theirs.close()
        self.seed: int | None = None

    def give(self, seed: int | None) -> None:
        self.seed = seed
        self.connection.send(seed)

    def take(self) -> Finished:
        seed, self.seed = self.seed, None
        assert seed is not None, "a result of no seed"
        try:
            answer: Finished | Stumbled = self.connection.recv()
        except EOFError:
            self.process.join()
            raise FleetError(
                f"the process running seed {seed} ended with exit code {self.process.exitcode}"
            ) from None
        if isinstance(answer, Stumbled):
            raise FleetError(f"at seed {seed}: {answer.traceback.splitlines()[-1]}")
        return answer

    def end(self) -> None:
        if self.process.is_alive():
            self.process.terminate()
            self.process.join()
        self.connection.close()


def _serve(
    connection: "Connection[Finished | Stumbled, int | None]",
    inherited: "list[Connection[Any, Any]]",
    run_one: RunOne,
) -> None:
    """A worker's life: take a seed, run it, answer, until None comes or the parent is gone. That
    is seen only if no worker holds the parent's end of a connection."""
    for each in inherited:
        each.close()
    # Ctrl-C goes to the whole process group; only the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while (seed := connection.recv()) is not None:
            connection.send(_answer(seed, run_one))
    except (EOFError, BrokenPipeError):
        return  # the parent is gone: nobody wants the rest


def _answer(seed: int, run_one: RunOne) -> Finished | Stumbled:
    try:
        return next(run_seeds((seed,), run_one))
    except Exception:
        return Stumbled(traceback.format_exc())
