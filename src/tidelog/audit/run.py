"""One audited run: load, faults, healing, a last read of everything, and the verdict."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from tidelog.audit.disturbance import Disturbance
from tidelog.audit.history.checks import check
from tidelog.audit.history.findings import Findings
from tidelog.audit.history.read_back import bounds_of, read_back
from tidelog.audit.history.rows import Row
from tidelog.audit.workload import Reached, Work, Workload
from tidelog.client import Admin, Client, NewTopic

TELL_EVERY_SECONDS = 0.5
CALM_SECONDS = 1.0
"""Writing goes on for so long after everything was healed: it must work by itself."""
DRAIN_WITHIN_MS = 60_000
DEFAULT_FACTOR = -1


class Audited(NamedTuple):
    findings: Findings
    rows: list[Row]
    faults: int


OnProgress = Callable[[int], None]
"""How many records are acknowledged so far."""


async def run(
    cluster: Reached,
    work: Work,
    *,
    seconds: float,
    disturbance: Disturbance | None,
    on_progress: OnProgress = lambda _: None,
) -> Audited:
    """Against a cluster that runs, on a topic that is made for it."""
    async with Client(cluster.bootstrap, properties=cluster.properties) as client:
        await Admin(client).create_topic(NewTopic(work.topic, work.partitions, DEFAULT_FACTOR, {}))
        workload = Workload(cluster, work)
        workload.start()
        try:
            await _live(workload, seconds, disturbance, on_progress)
            await _drain(workload, client, work)
        finally:
            await workload.cancel()
        rows = workload.recorder.rows
        rows += await read_back(client, [work.topic], stall_ms=DRAIN_WITHIN_MS)
    findings = await asyncio.to_thread(check, rows)
    return Audited(findings, rows, disturbance.count if disturbance is not None else 0)


async def _live(
    workload: Workload,
    seconds: float,
    disturbance: Disturbance | None,
    on_progress: OnProgress,
) -> None:
    """The load, with whatever disturbs it, and a little calm at the end."""
    deadline = time.monotonic() + seconds
    breaking = None
    if disturbance is not None:
        breaking = asyncio.create_task(disturbance.run(seconds - CALM_SECONDS))
    healed = False
    try:
        while not healed or time.monotonic() < deadline:
            if not healed and (breaking is None or breaking.done()):
                if breaking is not None:
                    breaking.result()
                healed = True
                deadline = max(deadline, time.monotonic() + CALM_SECONDS)
                workload.recorder.healed()
            await asyncio.sleep(min(TELL_EVERY_SECONDS, max(0.01, deadline - time.monotonic())))
            workload.check()
            on_progress(workload.recorder.acknowledged)
    finally:
        if breaking is not None and not breaking.done():
            breaking.cancel()
            await asyncio.gather(breaking, return_exceptions=True)


async def _drain(workload: Workload, client: Client, work: Work) -> None:
    """Readers come to the end of everything that was written; TimeoutError if they do not."""
    async with asyncio.timeout(DRAIN_WITHIN_MS / 1000):
        await workload.stop_writing()
    bounds = await bounds_of(client, [work.topic])
    async with asyncio.timeout(DRAIN_WITHIN_MS / 1000):
        await workload.read_until({where: span.end for where, span in bounds.items()})
