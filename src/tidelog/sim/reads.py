"""Leader side of every read: follower fetches, consumer reads, offset questions.

A read that finds nothing is parked until its partition moves or its wait ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.errors import Error
from tidelog.core.replication.inputs import (
    EARLIEST,
    LATEST,
    NO_REPLICA,
    FetchAnswer,
    FetchDecision,
    FollowerFetch,
)
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.replica import Replica
from tidelog.core.types import NO_LEADER, NO_OFFSET, PartitionId
from tidelog.sim import messages as m
from tidelog.sim.sim_log import Aborted, SimBatch

if TYPE_CHECKING:
    from tidelog.sim.broker import SimBroker

_NOT_LEADER = FetchAnswer(Error.NOT_LEADER_OR_FOLLOWER, None, NO_OFFSET, NO_OFFSET)


class ParkedFetch:
    __slots__ = ("done", "request", "source")

    def __init__(self, source: int, request: m.ReplicaFetch) -> None:
        self.source = source
        self.request = request
        self.done = False


class ParkedRead:
    __slots__ = ("client", "done", "request")

    def __init__(self, client: int, request: m.ConsumerRead) -> None:
        self.client = client
        self.request = request
        self.done = False


class Reads:
    __slots__ = ("_broker", "_parked_by", "_parked_fetches", "_parked_reads")

    def __init__(self, broker: SimBroker) -> None:
        self._broker = broker
        self._parked_fetches: dict[PartitionId, list[ParkedFetch]] = {}
        self._parked_by: dict[int, ParkedFetch] = {}
        """The fetch of each follower that waits."""
        self._parked_reads: dict[PartitionId, list[ParkedRead]] = {}

    # -- followers

    def on_replica_fetch(self, source: int, request: m.ReplicaFetch) -> None:
        broker = self._broker
        overtaken = self._parked_by.get(source)
        if overtaken is not None:
            self._finish_fetch(overtaken)  # its follower has more to say
        now = broker.node.now_ms()
        answers = []
        ready = False
        for partition, fetch in request.fetches:
            replica = broker.replicas.get(partition)
            role = replica.role if replica is not None else None
            if replica is None or not isinstance(role, LeaderReplica):
                answers.append((partition, fetch, _NOT_LEADER))
                ready = True
                continue
            decision, effects = role.on_follower_fetch(fetch, now)
            broker.node.judge.follower_fetched(replica, fetch, decision)
            if effects:
                broker.perform(replica, effects)
            answer = self._answer(replica, decision)
            answers.append((partition, fetch, answer))
            if answer.batches or answer.error or answer.diverging is not None:
                ready = True
        if ready:
            broker.node.send(source, m.ReplicaFetchReply(request.request_id, tuple(answers)))
        else:
            self._park_fetch(source, request)

    def _answer(self, replica: Replica, decision: FetchDecision) -> FetchAnswer:
        batches: tuple[SimBatch, ...] = ()
        if decision.error == Error.NONE and decision.diverging is None:
            node = self._broker.node
            log = node.disk.logs[replica.partition]
            batches = log.read(decision.read_from, decision.read_to, node.fetch_max_batches)
        elif decision.diverging is None:
            self._broker.node.data_marks.refused_fetch(decision.error)
        return FetchAnswer(
            decision.error,
            decision.diverging,
            decision.high_watermark,
            decision.log_start_offset,
            batches,
        )

    def _park_fetch(self, source: int, request: m.ReplicaFetch) -> None:
        self._parked_by[source] = parked = ParkedFetch(source, request)
        for partition, _ in request.fetches:
            self._parked_fetches.setdefault(partition, []).append(parked)
        node = self._broker.node
        node.after_ms(node.plan.timings.replica_fetch_wait_ms, self._fetch_wait_over, parked)

    def _fetch_wait_over(self, parked: ParkedFetch) -> None:
        if not parked.done:
            self._finish_fetch(parked)

    def _finish_fetch(self, parked: ParkedFetch) -> None:
        """Answer with what there is now. The fetch was counted when it arrived."""
        parked.done = True
        if self._parked_by.get(parked.source) is parked:
            del self._parked_by[parked.source]
        answers = []
        for partition, fetch in parked.request.fetches:
            waiting = self._parked_fetches.get(partition)
            if waiting is not None and parked in waiting:
                waiting.remove(parked)
            answers.append((partition, fetch, self._serve_parked(partition, fetch)))
        reply = m.ReplicaFetchReply(parked.request.request_id, tuple(answers))
        self._broker.node.send(parked.source, reply)

    def _serve_parked(self, partition: PartitionId, fetch: FollowerFetch) -> FetchAnswer:
        replica = self._broker.replicas.get(partition)
        if replica is None or not isinstance(replica.role, LeaderReplica):
            return _NOT_LEADER
        return self._answer(replica, replica.role.serve_parked(fetch))

    # -- consumers

    def on_consumer_read(self, client: int, request: m.ConsumerRead) -> None:
        if not self._try_read(client, request):
            parked = ParkedRead(client, request)
            self._parked_reads.setdefault(request.partition, []).append(parked)
            self._broker.node.after_ms(request.max_wait_ms, self._read_wait_over, parked)

    def _try_read(self, client: int, request: m.ConsumerRead, *, last: bool = False) -> bool:
        """Answer now if there is something to say; `last` answers in any case."""
        node = self._broker.node
        replica = self._broker.replicas.get(request.partition)
        if replica is None or replica.role is None:
            self._reply_error(client, request, Error.NOT_LEADER_OR_FOLLOWER)
            return True
        decision = replica.consumer_fetch(request.fetch, node.now_ms())
        batches: tuple[SimBatch, ...] = ()
        aborted: tuple[Aborted, ...] = ()
        decided = (
            decision.error != Error.NONE
            or decision.diverging is not None
            or decision.preferred_replica != NO_REPLICA
        )
        if not decided:
            log = node.disk.logs[request.partition]
            batches = log.read(decision.read_from, decision.read_to, request.max_batches)
            if not batches and not last:
                return False
            if batches:
                node.judge.consumer_read(client, replica, batches, request.fetch.fetch_offset)
            if batches and request.fetch.read_committed:
                aborted = log.aborted(decision.read_from, batches[-1].last_offset + 1)
        elif decision.diverging is not None:
            node.marks.add("consumer_told_diverging")
        elif decision.error != Error.NONE:
            node.data_marks.refused_read(decision.error)
        node.send(
            client,
            m.ConsumerReadReply(
                request.request_id,
                decision.error,
                batches,
                decision.log_start_offset,
                decision.diverging,
                decision.preferred_replica,
                aborted,
            ),
        )
        return True

    def _reply_error(self, client: int, request: m.ConsumerRead, error: Error) -> None:
        reply = m.ConsumerReadReply(request.request_id, error, (), NO_OFFSET, None, NO_REPLICA)
        self._broker.node.send(client, reply)

    def _read_wait_over(self, parked: ParkedRead) -> None:
        if not parked.done:
            parked.done = True
            self._parked_reads[parked.request.partition].remove(parked)
            self._try_read(parked.client, parked.request, last=True)

    # -- waking

    def wake(self, partition: PartitionId) -> None:
        """The log or the leadership of this partition changed."""
        waiting = self._parked_fetches.get(partition)
        if waiting:
            for parked in list(waiting):
                self._finish_fetch(parked)
        self.wake_consumers(partition)

    def wake_consumers(self, partition: PartitionId) -> None:
        waiting = self._parked_reads.get(partition)
        if not waiting:
            return
        self._parked_reads[partition] = still_waiting = []
        for parked in waiting:
            if self._try_read(parked.client, parked.request):
                parked.done = True
            else:
                still_waiting.append(parked)

    # -- questions about offsets

    def on_offsets_ask(self, source: int, ask: m.OffsetsAsk) -> None:
        """A follower out of range: where does our log start and end?"""
        replica = self._broker.replicas.get(ask.partition)
        if replica is None:
            return
        start = replica.list_offset(EARLIEST, ask.leader_epoch, read_committed=False, client=False)
        end = replica.list_offset(LATEST, ask.leader_epoch, read_committed=False, client=False)
        error = start.error or end.error
        self._broker.node.send(
            source,
            m.OffsetsReply(ask.partition, ask.leader_epoch, Error(error), start.offset, end.offset),
        )

    def on_latest_ask(self, client: int, ask: m.LatestAsk) -> None:
        node = self._broker.node
        replica = self._broker.replicas.get(ask.partition)
        if replica is None:
            node.send(
                client, m.LatestReply(ask.request_id, Error.NOT_LEADER_OR_FOLLOWER, NO_OFFSET)
            )
            return
        answer = replica.list_offset(LATEST, ask.leader_epoch, read_committed=False, client=True)
        if answer.error == Error.NONE:
            node.judge.latest_answered(replica, answer.offset)
        elif answer.error == Error.OFFSET_NOT_AVAILABLE:
            node.marks.add("latest_told_offset_not_available")
        node.send(client, m.LatestReply(ask.request_id, answer.error, answer.offset))

    def on_who_leads(self, client: int, ask: m.WhoLeads) -> None:
        state = self._broker.image.partition(ask.partition)
        leader = state.leader if state is not None else NO_LEADER
        epoch = state.leader_epoch if state is not None else -1
        self._broker.node.send(client, m.WhoLeadsReply(ask.request_id, leader, epoch))
