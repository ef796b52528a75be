"""The lab behind the console: plays run beside the event loop, seeds in processes of their own.

Python runs one thread at a time, so one thread plays everything on the simulator: plays wait for
each other, and none is ever touched by two. A real cluster takes its time, on a thread of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tidelog.console import lab_seeds
from tidelog.console.lab_seeds import Document, Seed
from tidelog.console.refusal import Refused, bad_input

if TYPE_CHECKING:
    from tidelog.console.lab_work import LabWork

Result = TypeVar("Result")

MOST_WAITING = 32
"""Requests that may wait for the thread that plays."""
MOST_SEEDS = 8
"""Runs that are remembered."""
MOST_SEEDS_UNDER_WAY = 2
PATIENCE_SECONDS = 20
"""Whoever asks for a seed is told so if it still runs then."""
SEED_LIMIT_SECONDS = 900
MOST_WORDS = 500
VIOLATION_CODE = 5
"""The exit code of a run that broke a rule."""


class LabThread:
    """A thread, and what it owns."""

    def __init__(self, make: Callable[[], LabWork]) -> None:
        self._make = make
        self._thread = ThreadPoolExecutor(1, "lab")
        self._work: LabWork | None = None
        """Made by the first who needs it: it brings the whole simulator along."""
        self._waiting = 0

    async def perform(self, act: Callable[[LabWork], Result]) -> Result:
        if self._waiting >= MOST_WAITING:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "the lab is busy", "try again")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, act)
        finally:
            self._waiting -= 1

    def _do(self, act: Callable[[LabWork], Result]) -> Result:
        if self._work is None:
            self._work = self._make()
        return act(self._work)

    async def close(self) -> None:
        if self._work is not None:
            self._work.leaving.set()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._end)
        self._thread.shutdown()

    def _end(self) -> None:
        if self._work is not None:
            self._work.close()


class LabDesk:
    """Made inside the running loop."""

    def __init__(
        self, told: Iterable[tuple[Seed, Document]] = (), cluster: Path | None = None
    ) -> None:
        """`told` are runs that somebody has made already; `cluster` is the directory of one that
        can be stepped through."""
        self.simulator = LabThread(partial(_make_work, has_cluster=cluster is not None))
        self._cluster = None if cluster is None else LabThread(partial(_make_work, cluster))
        self._told = dict(told)
        self._under_way: dict[Seed, asyncio.Task[Document]] = {}

    async def close(self) -> None:
        for run in list(self._under_way.values()):
            run.cancel()
            with suppress(asyncio.CancelledError, Refused):
                await run
        await self.simulator.close()
        if self._cluster is not None:
            await self._cluster.close()

    def thread_on(self, on: object) -> LabThread:
        """Where somebody wants to play."""
        if on == "sim":
            return self.simulator
        if on != "cluster" or self._cluster is None:
            error = f"there is no {on} to play on" if on != "cluster" else "this cluster is no lab"
            raise Refused(HTTPStatus.BAD_REQUEST, error, '"on": "sim", or tidelog up --lab')
        return self._cluster

    def thread_of(self, play: str) -> LabThread:
        """Where this play is played."""
        is_live = play.startswith("cluster-") and self._cluster is not None
        return self.thread_on("cluster" if is_live else "sim")

    async def seed(self, seed: Seed) -> Document:
        """What came of it, or that it still runs."""
        if seed in self._told:
            return self._told[seed]
        run = self._under_way.get(seed)
        if run is None:
            if len(self._under_way) >= MOST_SEEDS_UNDER_WAY:
                error = f"{MOST_SEEDS_UNDER_WAY} seeds run already"
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, error, "try again")
            run = self._under_way[seed] = asyncio.ensure_future(self._run(seed))
        with suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(run), PATIENCE_SECONDS)
        return lab_seeds.running(seed)

    async def _run(self, seed: Seed) -> Document:
        try:
            document = lab_seeds.finished(seed, await _report_of(seed))
            self._told[seed] = document
            while len(self._told) > MOST_SEEDS:
                del self._told[next(iter(self._told))]
            return document
        finally:
            del self._under_way[seed]


def _make_work(cluster: Path | None = None, *, has_cluster: bool = False) -> LabWork:
    from tidelog.console.lab_work import LabWork  # noqa: PLC0415 - with the simulator

    return LabWork(cluster, has_cluster=has_cluster)


async def _report_of(seed: Seed) -> Document:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *seed.command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    try:
        printed, problems = await asyncio.wait_for(process.communicate(), SEED_LIMIT_SECONDS)
    except TimeoutError:
        error = f"seed {seed.number} takes longer than {SEED_LIMIT_SECONDS // 60} minutes"
        raise Refused(HTTPStatus.GATEWAY_TIMEOUT, error, " ".join(seed.command[1:])) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode not in (0, VIOLATION_CODE):
        raise _failure(problems.decode(errors="replace"), f"exit code {process.returncode}")
    report: Document = json.loads(printed)
    return report


def _failure(problems: str, otherwise: str) -> Refused:
    """In the words of the command, which are JSON if it could still say them."""
    try:
        told = json.loads(problems)
        return bad_input(f"{told['error']}: {told['why']}", told["try"])
    except (ValueError, KeyError, TypeError):
        words = problems.strip()[-MOST_WORDS:] or otherwise
        return Refused(HTTPStatus.INTERNAL_SERVER_ERROR, f"the seed cannot be run: {words}")
