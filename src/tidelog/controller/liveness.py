"""Finds out whether a broker is gone whose connection has closed (ADR 0017, `core.failover`)

The controller knows on which connection every broker sent its last heartbeat. When that one
closes, it connects to what the broker has registered as its endpoints. Only if every one of
them refuses is the process gone: the machine answers, and nobody listens. A process that stands
still is accepted for by its kernel, and is left to its lease like one that cannot be reached.

Accepted does not yet mean alive: the sockets of a dying process close one after the other, and
the listener may be last. So an accepted probe is repeated for about a second.
"""

import asyncio
from collections.abc import Callable

from tidelog.core.failover import ProbeOutcome, confirms_death
from tidelog.core.metadata.controller import Controller
from tidelog.core.metadata.image import BrokerRegistration
from tidelog.core.types import NO_EPOCH
from tidelog.host import tasks
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import (
    CloseReason,
    PeerConnection,
)
from tidelog.quorum.probing import probe

PROBE_TIMEOUT_MS = 500
RETRY_AFTER_MS = (20, 50, 130, 300, 500)
PROBES_AT_ONCE = 32
OUR_OWN_END = (CloseReason.STOPPED, CloseReason.STOPPED_LATE)

OnGone = Callable[[int, int], None]
"""Hears the id and the epoch of a broker whose process is gone."""


class Liveness:
    __slots__ = ("_controller", "_heard_on", "_host", "_on_gone", "_pauses", "_places", "_probes")

    def __init__(self, controller: Controller, host: NodeHost, on_gone: OnGone) -> None:
        self._controller = controller
        self._host = host
        self._on_gone = on_gone
        self._heard_on: dict[int, PeerConnection] = {}
        self._probes: dict[int, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(PROBES_AT_ONCE)
        self._pauses: dict[asyncio.Future[None], None] = {}

    @property
    def probing(self) -> int:
        """How many brokers are looked at in this moment."""
        return len(self._probes)

    @property
    def pausing(self) -> int:
        """How many of them have accepted and will be asked again."""
        return sum(not pause.done() for pause in self._pauses)

    def heard(self, broker_id: int, broker_epoch: int, connection: PeerConnection) -> None:
        """A heartbeat came in. Only the registered incarnation speaks for its id."""
        if broker_epoch != NO_EPOCH and self._epoch_of(broker_id) == broker_epoch:
            self._heard_on[broker_id] = connection

    def on_closed(self, connection: PeerConnection, reason: CloseReason) -> None:
        silent = [broker for broker, last in self._heard_on.items() if last is connection]
        for broker_id in silent:
            del self._heard_on[broker_id]
            self._controller.on_disconnected(broker_id, self._epoch_of(broker_id))
            if reason not in OUR_OWN_END:
                self._look_at(broker_id, RETRY_AFTER_MS)

    def look_at_all(self) -> None:
        """A new active controller has no connections that could close. What led it before may
        have led partitions too, and its end was told to nobody else."""
        self._heard_on.clear()
        image = self._controller.current
        for broker_id, broker in image.brokers.items() if image is not None else ():
            if not broker.fenced and broker_id != self._controller.node_id:
                self._look_at(broker_id, ())

    def stop(self) -> None:
        for task in list(self._probes.values()):
            task.cancel()

    def _look_at(self, broker_id: int, retry_after_ms: tuple[int, ...]) -> None:
        broker_epoch = self._epoch_of(broker_id)
        if broker_epoch == NO_EPOCH:
            return  # not ours to judge, or not registered
        earlier = self._probes.pop(broker_id, None)
        if earlier is not None:
            earlier.cancel()
        work = self._find_out(broker_id, broker_epoch, retry_after_ms)
        probe = tasks.begin(work)
        self._probes[broker_id] = probe
        probe.add_done_callback(lambda done: self._forget(broker_id, done))

    def _forget(self, broker_id: int, probe: asyncio.Task[None]) -> None:
        if self._probes.get(broker_id) is probe:
            del self._probes[broker_id]

    async def _find_out(
        self, broker_id: int, broker_epoch: int, retry_after_ms: tuple[int, ...]
    ) -> None:
        for pause_ms in (0, *retry_after_ms):
            await self._pause(pause_ms)
            broker = self._suspect(broker_id, broker_epoch)
            if broker is None:
                return
            async with self._places:
                outcome = await self._probe(broker)
            if confirms_death(outcome):
                # What it is about was read before the first packet left; the core compares.
                self._on_gone(broker_id, broker_epoch)
                return
            if outcome is ProbeOutcome.UNANSWERED:
                return

    def _suspect(self, broker_id: int, broker_epoch: int) -> BrokerRegistration | None:
        """None: nothing is left to find out. Another one registered, or it was heard again."""
        image = self._controller.current
        if image is None or self._epoch_of(broker_id) != broker_epoch:
            return None
        return None if broker_id in self._heard_on else image.brokers[broker_id]

    def _epoch_of(self, broker_id: int) -> int:
        return self._controller.registered_epoch(broker_id)

    async def _probe(self, broker: BrokerRegistration) -> ProbeOutcome:
        """One process has all these endpoints: refused at one and not at another is no proof."""
        outcome = ProbeOutcome.UNANSWERED
        for endpoint in broker.endpoints:
            address = (endpoint.host, endpoint.port)
            outcome = await probe(self._host.network, address, timeout_ms=PROBE_TIMEOUT_MS)
            if outcome is not ProbeOutcome.REFUSED:
                break
        return outcome

    async def _pause(self, delay_ms: int) -> None:
        if delay_ms == 0:
            return
        over: asyncio.Future[None] = tasks.promise()
        timer = self._host.timers.after(delay_ms, lambda: tasks.fulfil(over))
        self._pauses[over] = None
        try:
            await over
        finally:
            self._pauses.pop(over, None)
            timer.cancel()
