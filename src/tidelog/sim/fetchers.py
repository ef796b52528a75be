"""Follower side: one fetch loop per leader broker.

One request is under way on each, or two: as in production, a partition that joins does not wait
for the answer to a request that knows nothing of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.replication.follower import FollowerReplica
from tidelog.core.replication.inputs import FollowerFetch
from tidelog.core.replication.replica import Replica
from tidelog.core.replication.sent_positions import SentFetch, SentPositions
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.sim import messages as m
from tidelog.sim.kernel import WORLD

if TYPE_CHECKING:
    from tidelog.sim.broker import SimBroker

IN_FLIGHT_MAX = 2


class Fetcher:
    """Carries every partition that this broker follows on one leader."""

    __slots__ = (
        "_broker",
        "_hurried",
        "_in_flight",
        "_sent",
        "_timer_ms",
        "leader",
        "partitions",
    )

    def __init__(self, broker: SimBroker, leader: int) -> None:
        self._broker = broker
        self.leader = leader
        self.partitions: dict[PartitionId, Replica] = {}
        self._sent = SentPositions()
        self._in_flight: dict[int, SentFetch] = {}
        self._hurried = False
        self._timer_ms = 0

    def add(self, partition: PartitionId, replica: Replica) -> None:
        self.partitions[partition] = replica
        self._hurried = True

    def wake(self) -> None:
        """Send the next fetch, unless enough are under way or nothing may be fetched yet."""
        lifecycle = self._broker.node.link.lifecycle
        assert lifecycle.registered, "a fetch names our incarnation (KIP-903)"
        in_flight = len(self._in_flight)
        if in_flight and not (self._hurried and in_flight < IN_FLIGHT_MAX):
            return
        now = self._broker.node.now_ms()
        fetches: list[tuple[PartitionId, FollowerFetch]] = []
        wake_at_ms = 0
        for partition, replica in self.partitions.items():
            log = replica.log
            if log.durable_offset < log.log_end_offset:
                # The next fetch acknowledges what we hold. It waits for the sync of all: sent
                # without this partition it could be parked while the acknowledgement is due.
                return
            role = replica.role
            assert isinstance(role, FollowerReplica), role
            fetch = role.next_fetch(now)
            if fetch is not None:
                fetch = fetch._replace(replica_epoch=lifecycle.broker_epoch)
                fetches.append((partition, fetch))
            elif role.delay_until_ms > now:
                wake_at_ms = min(wake_at_ms or role.delay_until_ms, role.delay_until_ms)
        if fetches and (not in_flight or self._has_moved(fetches)):
            self._hurried = False
            self._send(fetches)
        elif wake_at_ms:
            self._arm(wake_at_ms)

    def _has_moved(self, fetches: list[tuple[PartitionId, FollowerFetch]]) -> bool:
        newest = self._sent.newest
        return any(newest.get(partition) != fetch for partition, fetch in fetches)

    def _send(self, fetches: list[tuple[PartitionId, FollowerFetch]]) -> None:
        node, sent = self._broker.node, self._sent
        named = dict(fetches)
        for partition in [each for each in sent.newest if each not in named]:
            sent.drop(partition)
        for partition, fetch in fetches:
            sent.put(partition, fetch)
        request_id = node.next_request_id()
        self._in_flight[request_id] = sent.send()
        request = m.ReplicaFetch(request_id, tuple(fetches))
        node.send(self.leader, request)
        if node.fetches_late_ms:
            # Out of a connection that broke, read by the leader when it gets round to it.
            late_us = node.fetches_late_ms * 1000
            node.kernel.call_in(late_us, WORLD, self._arrives_late, request)
        timings = node.plan.timings
        wait_ms = timings.replica_fetch_wait_ms + timings.request_timeout_ms
        node.after_ms(wait_ms, self._timed_out, request_id)

    def _arrives_late(self, request: m.ReplicaFetch) -> None:
        self._broker.node.send(self.leader, request)

    def _arm(self, at_ms: int) -> None:
        if at_ms != self._timer_ms:
            self._timer_ms = at_ms
            self._broker.node.at_ms(at_ms, self._timer, at_ms)

    def _timer(self, at_ms: int) -> None:
        if self._timer_ms == at_ms:
            self._timer_ms = 0
        self.wake()

    def _timed_out(self, request_id: int) -> None:
        if request_id not in self._in_flight:
            return
        self._in_flight.clear()
        self._sent = SentPositions()
        now = self._broker.node.now_ms()
        for replica in self.partitions.values():
            if isinstance(replica.role, FollowerReplica):
                replica.role.on_fetch_failed(now)
        self.wake()

    def on_reply(self, reply: m.ReplicaFetchReply) -> None:
        node = self._broker.node
        sent = self._in_flight.pop(reply.request_id, None)
        if sent is None:
            node.marks.add("fetch_answer_late")
            return
        sent.answered()
        now = node.now_ms()
        for partition, asked, answer in reply.answers:
            fetch = sent.position(partition)
            node.judge.answer_heard(partition, asked, fetch)
            replica = self.partitions.get(partition)
            if fetch is None or replica is None or not isinstance(replica.role, FollowerReplica):
                continue
            if asked != self._sent.newest.get(partition):
                node.marks.add("fetch_answer_overtaken")
            effects = replica.role.on_fetch_answer(fetch, answer, now)
            if effects:
                self._broker.perform(replica, effects)
            elif answer.batches:
                node.marks.add("fetch_answer_ignored")
        self.wake()


class Fetchers:
    """Which partition is fetched from whom."""

    __slots__ = ("_broker", "_by_leader", "_leader_of")

    def __init__(self, broker: SimBroker) -> None:
        self._broker = broker
        self._by_leader: dict[int, Fetcher] = {}
        self._leader_of: dict[PartitionId, int] = {}

    def follow(self, partition: PartitionId, replica: Replica) -> None:
        """Fetch from the replica's present leader; from nobody if there is none."""
        self.drop(partition)
        if replica.leader == NO_LEADER:
            return
        fetcher = self._by_leader.get(replica.leader)
        if fetcher is None:
            fetcher = self._by_leader[replica.leader] = Fetcher(self._broker, replica.leader)
        fetcher.add(partition, replica)
        self._leader_of[partition] = replica.leader

    def drop(self, partition: PartitionId) -> None:
        leader = self._leader_of.pop(partition, None)
        if leader is not None:
            del self._by_leader[leader].partitions[partition]

    def wake(self, partition: PartitionId) -> None:
        leader = self._leader_of.get(partition)
        if leader is not None:
            self._by_leader[leader].wake()

    def wake_all(self) -> None:
        for fetcher in list(self._by_leader.values()):
            fetcher.wake()

    def on_reply(self, source: int, reply: m.ReplicaFetchReply) -> None:
        fetcher = self._by_leader.get(source)
        if fetcher is not None:
            fetcher.on_reply(reply)

    def on_offsets(self, reply: m.OffsetsReply) -> None:
        """Out of range: the leader's start and end decide where to go on."""
        partition = reply.partition
        replica = self._broker.replicas.get(partition)
        if replica is None or not isinstance(replica.role, FollowerReplica):
            return
        if reply.error or reply.leader_epoch != replica.leader_epoch:
            return
        effects = replica.role.on_leader_offsets(
            reply.log_start_offset, reply.log_end_offset, self._broker.node.now_ms()
        )
        self._broker.perform(replica, effects)
        self.wake(partition)
