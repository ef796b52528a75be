"""Many seeds over the cores of this machine, added up into one report.

Processes are forked, one per core, and ask for the next few seeds when they have finished;
no threads, so a fork is safe. Seeds are handed out in order, and results are put back into
order before they are added up: the report does not depend on how many processes there were.

This is the one place of the package that reads a real clock: to say how fast it went.
"""

import hashlib
import multiprocessing
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final, NamedTuple

from tidelog.sim.results import SeedResult

RunOne = Callable[[int], SeedResult]

CHUNK_MAX: Final = 16
TICK_SECONDS: Final = 0.5


class Finished(NamedTuple):
    """A seed that has run, and the processor time it took."""

    result: SeedResult
    busy_ns: int


class Stumbled(NamedTuple):
    """A worker could not run its seeds at all: not a finding, but a fault of the machinery."""

    traceback: str


class FleetError(Exception):
    """A process of the fleet could not go on; the text names the seeds it was running."""


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


Progress = Callable[[FleetReport], None]
"""Called after every few seeds and at least twice a second."""


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


def run_fleet(orders: Orders, run_one: RunOne, progress: Progress | None = None) -> FleetReport:
    """Run the seeds; on Ctrl-C, what has been finished, marked as interrupted."""
    assert orders.seeds is not None or orders.seconds is not None, "a fleet without an end"
    assert orders.jobs >= 1, f"{orders.jobs} jobs"
    report = FleetReport()
    tell = progress or (lambda _: None)
    try:
        if orders.jobs == 1 or orders.seeds == 1:
            _run_here(orders, run_one, report, tell)
        else:
            _run_forked(orders, run_one, report, tell)
    except KeyboardInterrupt:
        report.interrupted = True
    return report


def _chunks(orders: Orders, report: FleetReport) -> Iterator[range]:
    """The next seeds to run, for as long as there should be any."""
    deadline = None if orders.seconds is None else time.monotonic() + orders.seconds
    size = 1
    if orders.seeds is not None:
        size = max(1, min(CHUNK_MAX, orders.seeds // (8 * orders.jobs)))
    seed = orders.first
    while orders.seeds is None or seed < orders.first + orders.seeds:
        if deadline is not None and time.monotonic() >= deadline:
            return
        if orders.stop_at_first and report.failures:
            return
        end = seed + size
        if orders.seeds is not None:
            end = min(end, orders.first + orders.seeds)
        yield range(seed, end)
        seed = end


def run_seeds(
    seeds: Iterable[int], run_one: RunOne, *, stop_at_first: bool = False
) -> Iterator[Finished]:
    """One after the other, each with the time it took."""
    for seed in seeds:
        begin_ns = time.process_time_ns()
        result = run_one(seed)
        yield Finished(result, time.process_time_ns() - begin_ns)
        if stop_at_first and result.violations:
            return


def _run_here(orders: Orders, run_one: RunOne, report: FleetReport, tell: Progress) -> None:
    for chunk in _chunks(orders, report):
        for finished in run_seeds(chunk, run_one, stop_at_first=orders.stop_at_first):
            report.add(finished)
            tell(report)


def _run_forked(orders: Orders, run_one: RunOne, report: FleetReport, tell: Progress) -> None:
    workers = [_Worker(run_one, orders) for _ in range(orders.jobs)]
    chunks = _chunks(orders, report)
    try:
        for worker in workers:
            worker.give(next(chunks, None))
        while busy := [worker for worker in workers if worker.chunk is not None]:
            ready = wait([worker.connection for worker in busy], TICK_SECONDS)
            for worker in busy:
                if worker.connection in ready:
                    for finished in worker.take():
                        report.add(finished)
                    worker.give(next(chunks, None))
            tell(report)
        for worker in workers:
            worker.process.join()
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """One forked process and the seeds it is running."""

    __slots__ = ("chunk", "connection", "process")

    def __init__(self, run_one: RunOne, orders: Orders) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_serve, args=(theirs, run_one, orders.stop_at_first), daemon=True
        )
        self.process.start()
        theirs.close()
        self.chunk: range | None = None

    def give(self, chunk: range | None) -> None:
        self.chunk = chunk
        self.connection.send(chunk)

    def take(self) -> list[Finished]:
        assert self.chunk is not None, "results of no seeds"
        try:
            answer: list[Finished] | Stumbled = self.connection.recv()
        except EOFError:
            self.process.join()
            raise FleetError(
                f"the process running seeds {self.chunk.start} to {self.chunk.stop - 1} "
                f"ended with exit code {self.process.exitcode}"
            ) from None
        if isinstance(answer, Stumbled):
            raise FleetError(
                f"at seeds {self.chunk.start} to {self.chunk.stop - 1}: "
                f"{answer.traceback.splitlines()[-1]}"
            )
        return answer

    def end(self) -> None:
        if self.process.is_alive():
            self.process.terminate()
            self.process.join()
        self.connection.close()


def _serve(
    connection: "Connection[list[Finished] | Stumbled, range | None]",
    run_one: RunOne,
    stop_at_first: bool,
) -> None:
    """A worker's life: take seeds, run them, answer, until None comes."""
    # Ctrl-C goes to the whole process group; only the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while (chunk := connection.recv()) is not None:
            connection.send(_answer(chunk, run_one, stop_at_first=stop_at_first))
    except (EOFError, BrokenPipeError):
        return  # the parent is gone: nobody wants the rest


def _answer(chunk: range, run_one: RunOne, *, stop_at_first: bool) -> list[Finished] | Stumbled:
    try:
        return list(run_seeds(chunk, run_one, stop_at_first=stop_at_first))
    except Exception:
        return Stumbled(traceback.format_exc())
