"""Stalled replication: restarted where we can, reported where we cannot.

A leader reports followers that make no progress, a follower reports leaders that give it no sound
answer. Both look at every partition now and then, a few at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.errors import NO_ERROR
from tidelog.core.replication.follower import PATIENCE_IN_LAG_TIMES, FollowerReplica
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.stalls import Stalls

if TYPE_CHECKING:
    from tidelog.broker.replication.fetchers import Fetchers
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.host.node_host import NodeHost

LOOKS_AT_ONCE = 200
"""Partitions looked at in one turn of the event loop."""
NAMED_MAX = 20
"""So many partitions get a finding of their own; when a whole broker stands still, the others
are only counted."""

FOLLOWER_STALLED = "follower-stalled"
CANNOT_FETCH = "replica-cannot-fetch"
OTHERS = "other partitions"


class StalledReplicas:
    """Looks for them. One per broker."""

    __slots__ = (
        "_failing",
        "_fetchers",
        "_host",
        "_replicas",
        "_reported",
        "_rest",
        "_stalled",
        "_stalls",
    )

    def __init__(self, replicas: Replicas, fetchers: Fetchers, host: NodeHost) -> None:
        self._replicas = replicas
        self._fetchers = fetchers
        self._host = host
        self._stalls = Stalls()
        self._rest: list[Hosted] = []
        """Partitions that this pass has not looked at yet."""
        self._stalled: dict[str, tuple[str, str]] = {}
        """Subject → text and advice, as far as this pass has come."""
        self._failing: dict[str, tuple[str, str]] = {}
        self._reported: dict[str, list[str]] = {FOLLOWER_STALLED: [], CANNOT_FETCH: []}

    def look_on(self) -> bool:
        """Look at the next few partitions, or begin a new pass. False at the end of one."""
        replicas, now_ms = self._replicas, self._host.now_ms()
        if not self._rest:
            self._fetchers.revive(now_ms)
            self._rest = list(replicas.hosted.values())
        for _ in range(min(LOOKS_AT_ONCE, len(self._rest))):
            hosted = self._rest.pop()
            if replicas.hosted.get(hosted.partition) is hosted:
                self._look(hosted, now_ms)
            else:
                self._stalls.forget(hosted.partition)
        if self._rest:
            return True
        stalled, self._stalled = self._stalled, {}
        failing, self._failing = self._failing, {}
        self._report(FOLLOWER_STALLED, stalled)
        self._report(CANNOT_FETCH, failing)
        return False

    def _look(self, hosted: Hosted, now_ms: int) -> None:
        role = hosted.replica.role
        if isinstance(role, LeaderReplica):
            self._look_at_followers(hosted, role, now_ms)
            return
        self._stalls.forget(hosted.partition)
        if isinstance(role, FollowerReplica):
            self._look_at_own_fetching(hosted, role, now_ms)

    def _look_at_followers(self, hosted: Hosted, leader: LeaderReplica, now_ms: int) -> None:
        log_end_offset = hosted.log.log_end_offset
        for stall in self._stalls.look(leader, now_ms):
            seconds = (now_ms - stall.since_ms) // 1000
            place = (
                "has never fetched"
                if stall.log_end_offset < 0
                else f"stands at offset {stall.log_end_offset} of {log_end_offset}"
            )
            self._stalled[f"{hosted.topic}-{hosted.index} on broker {stall.replica_id}"] = (
                f"The follower {place}, for {seconds} s; its broker is registered and unfenced, "
                f"the ISR is {list(leader.isr)}.",
                f"Look at the findings and the journal of broker {stall.replica_id}. If they say "
                "nothing, restart it.",
            )

    def _look_at_own_fetching(self, hosted: Hosted, role: FollowerReplica, now_ms: int) -> None:
        effects = role.retry_lost_phase(now_ms)
        if effects is not None:
            self._replicas.perform(hosted, effects)
            self._fetchers.wake(hosted.partition)
        since_ms = role.failing_since_ms
        patience_ms = PATIENCE_IN_LAG_TIMES * hosted.settings.replica_lag_time_max_ms
        if since_ms is None or now_ms - since_ms < patience_ms:
            return
        last = "no answer that could be used" if role.failure is NO_ERROR else role.failure.name
        self._failing[f"{hosted.topic}-{hosted.index}"] = (
            f"Nothing could be fetched from its leader, broker {role.leader}, for "
            f"{(now_ms - since_ms) // 1000} s (leader epoch {role.leader_epoch}, last: {last}).",
            f"It is tried again all the time. Look at the findings and the journal of broker "
            f"{role.leader}.",
        )

    def _report(self, kind: str, found: dict[str, tuple[str, str]]) -> None:
        findings = self._host.findings
        named = dict(list(found.items())[:NAMED_MAX])
        if len(found) > NAMED_MAX:
            named[OTHERS] = (f"So it is with {len(found) - NAMED_MAX} more.", "")
        for subject in self._reported[kind]:
            if subject not in named:
                findings.clear(kind, subject)
        for subject, (text, advice) in named.items():
            findings.report(kind, subject, text, advice=advice)
        self._reported[kind] = list(named)
