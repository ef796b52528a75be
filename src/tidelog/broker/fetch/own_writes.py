"""A client reads what was acknowledged to it (ADR 0006).

acks=1 is answered when the batch is written. In Kafka, a leader that is alone in the ISR has then
committed it. Ours commits it a sync later, so that nothing is reported as committed that a crash
could take away. A request whose answer would change with that sync waits for it: the write stays
quick, and a later request does not miss it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tidelog.core.errors import Error

if TYPE_CHECKING:
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.core.replication.leader import LeaderReplica
    from tidelog.host.timers import Timer, TimerWheel

PATIENCE_MS = 1_000
"""After that the answer is what is committed by then: requests behind it wait too."""


def when_readable(
    replicas: Replicas, timers: TimerWheel, asked: Iterable[Hosted], then: Callable[[], None]
) -> None:
    """Call `then` when all that these logs hold now can be read, if only a sync of our own is
    missing for that; at once as a rule."""
    waiting = {
        hosted: role
        for hosted in asked
        if (role := hosted.leader) is not None and role.awaits_only_its_own_sync()
    }
    if waiting:
        OwnSyncs(replicas, timers, waiting, then).begin()
    else:
        then()


class OwnSyncs:
    """A question that waits. It stands among the parked produces of its partitions."""

    __slots__ = ("_open", "_replicas", "_roles", "_then", "_timer", "_timers")

    def __init__(
        self,
        replicas: Replicas,
        timers: TimerWheel,
        roles: dict[Hosted, LeaderReplica],
        then: Callable[[], None],
    ) -> None:
        self._replicas = replicas
        self._timers = timers
        self._roles = roles
        self._open = len(roles)
        self._then = then
        self._timer: Timer | None = None

    def begin(self) -> None:
        now_ms = self._timers.now_ms()
        self._timer = self._timers.after(PATIENCE_MS, self._give_up)
        for hosted, role in self._roles.items():
            effects = role.await_commit(self, hosted.log.log_end_offset, now_ms)
            self._replicas.perform(hosted, effects)

    def answered(self, _: Error) -> None:
        """It is committed, or will not be under this leader: the question is asked either way."""
        self._open -= 1
        if not self._open:
            assert self._timer is not None, "answered before it began"
            self._timer.cancel()
            self._then()

    def _give_up(self) -> None:
        now_ms = self._timers.now_ms()
        for hosted, role in self._roles.items():
            self._replicas.perform(hosted, role.on_produce_timeout(self, now_ms))
