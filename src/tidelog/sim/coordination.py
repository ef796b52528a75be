"""The coordinators of a simulated node: the very shards and machines of production.

What a broker does with files, timers and connections is done here with the simulated log, the
kernel and the network. Nothing about groups or transactions is decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.coordinators.shard import AppendFailed, Shard
from tidelog.core.coordination import CoordinatorMachine, Instant, Marker, ProducerStamp, Write
from tidelog.core.errors import Error
from tidelog.core.events import Event, MemberLeft
from tidelog.core.groups.requests import (
    ConsumerHeartbeat,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    SyncGroup,
)
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.transactions.machine import TransactionMachine
from tidelog.core.transactions.requests import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    SendMarkers,
)
from tidelog.core.types import NEVER_MS, PartitionId
from tidelog.sim import messages as m
from tidelog.sim.coordination_plan import OFFSETS, TRANSACTIONS, CoordinationPlan
from tidelog.sim.markers import MarkerSender
from tidelog.sim.sim_log import client_batch, marker_of
from tidelog.sim.sim_machines import make_machine
from tidelog.sim.transaction_checks import TransactionChecks
from tidelog.storage.errors import NoSpace

if TYPE_CHECKING:
    from tidelog.core.replication.replica import Replica
    from tidelog.sim.broker import SimBroker

LOAD_AGAIN_MS = 50


class Caller:
    """Who asked a coordinator. A `core.coordination.Token`."""

    __slots__ = ("_asked_ms", "_broker", "_call", "_client", "_floor")

    def __init__(self, broker: SimBroker, client: int, call: m.CoordinatorCall) -> None:
        self._broker = broker
        self._client = client
        self._call = call
        self._asked_ms = broker.node.now_ms()
        chronicle = broker.node.judge.chronicle
        assert chronicle is not None, "asked before there is a judge"
        if isinstance(call.request, JoinGroup | SyncGroup):
            broker.node.judge.member_joining(broker.node.id, call.request)
        # What was committed when it asked: an answer must not know less. A leader that does not
        # know of its successor may be late with what it tells, never with what it accepts.
        self._floor = (
            call.committed_end
            if isinstance(call.request, FetchOffsets)
            else chronicle.facts(call.partition).committed_end
        )

    def answer(self, response: object) -> None:
        node, call = self._broker.node, self._call
        node.judge.coordinator_answered(call.partition, call.request, response, self._floor)
        if isinstance(call.request, JoinGroup | SyncGroup | Heartbeat | ConsumerHeartbeat):
            node.judge.member_heard(node.id, call.request, response, self._asked_ms)
        node.send(self._client, m.CoordinatorReply(call.request_id, Error.NONE, response))

    def refuse(self, error: Error) -> None:
        self._broker.node.send(self._client, m.CoordinatorReply(self._call.request_id, error))


class Coordination:
    """Owner of the shards of one node, by the partition they live on."""

    __slots__ = ("_broker", "_seats", "checks", "markers", "plan")

    def __init__(self, broker: SimBroker, plan: CoordinationPlan) -> None:
        self._broker = broker
        self.plan = plan
        self._seats: dict[PartitionId, Seat] = {}
        self.markers = MarkerSender(broker, self)
        self.checks = TransactionChecks(broker, self)

    # -- leadership

    def follow(self, replica: Replica) -> None:
        """Metadata was applied to a partition: take office, stay, or leave."""
        topic = self._topic(replica.partition)
        if topic not in (OFFSETS, TRANSACTIONS):
            return
        seat = self._seats.get(replica.partition)
        role = replica.role
        if not isinstance(role, LeaderReplica):
            self.resigned(replica.partition)
        elif seat is None or seat.log.leader_epoch != replica.leader_epoch:
            self.resigned(replica.partition)
            self._elect(replica, role, topic)
        else:
            self.moved(replica.partition)

    def _topic(self, partition: PartitionId) -> str:
        topic = self._broker.image.topics.get(partition.topic_id)
        return topic.name if topic is not None else ""

    def _elect(self, replica: Replica, role: LeaderReplica, topic: str) -> None:
        log = InternalLog(self._broker, replica, role)
        seat = Seat(self, make_machine(self._broker, topic, log.leader_epoch), log)
        self._seats[replica.partition] = seat
        seat.begin_loading(None)

    def resigned(self, partition: PartitionId) -> None:
        seat = self._seats.pop(partition, None)
        if seat is not None:
            self._broker.node.coordination_marks.resigning(partition)
            seat.leave()

    def moved(self, partition: PartitionId) -> None:
        """The high watermark or the in-sync set changed."""
        seat = self._seats.get(partition)
        if seat is not None:
            seat.shard.on_committed()
            seat.schedule()

    def start_over(self, failed: Seat) -> None:
        """The log refused a batch, so the machine is ahead of it."""
        partition = failed.log.partition
        if self._seats.get(partition) is failed:
            self._broker.node.marks.add("coordinator_started_over")
            topic = self._topic(partition)
            machine = make_machine(self._broker, topic, failed.log.leader_epoch)
            self._seats[partition] = seat = Seat(self, machine, failed.log)
            self._broker.node.after_ms(LOAD_AGAIN_MS, seat.begin_loading, None)

    # -- work

    def on_call(self, client: int, call: m.CoordinatorCall) -> None:
        if call.connection is None or call.connection.delivers():
            self.ask(client, call)

    def on_connection_closed(self, _client: int, message: m.ConnectionClosed) -> None:
        self.tell(message.partition, message.hint)

    def ask(self, client: int, call: m.CoordinatorCall) -> None:
        caller = Caller(self._broker, client, call)
        seat = self._seats.get(call.partition)
        if seat is None:
            caller.refuse(Error.NOT_COORDINATOR)
            return
        if isinstance(call.request, AddPartitions) and self._unknown(call.request):
            # Or its end could be taken for that of a deleted partition: nobody would write it.
            caller.refuse(Error.UNKNOWN_TOPIC_OR_PARTITION)
            return
        seat.shard.request(self._with_ids(seat, call.request), caller)
        seat.schedule()

    def _unknown(self, request: AddPartitions) -> bool:
        image = self._broker.image
        return any(
            (topic_id := image.topic_ids.get(topic)) is None
            or image.partition(PartitionId(topic_id, index)) is None
            for topic, index in request.partitions
        )

    def _with_ids(self, seat: Seat, request: object) -> object:
        """Ids that have to be unique are made by the shell."""
        world, machine = self._broker.node.world, seat.shard.machine
        if isinstance(request, JoinGroup | ConsumerHeartbeat):
            return request._replace(fresh_member_id=world.books.new_member_id())
        if isinstance(request, InitProducer | EndTransaction):
            assert isinstance(machine, TransactionMachine), machine
            ending = isinstance(request, EndTransaction)
            if machine.needs_producer_id(request.transactional_id, ending=ending):
                return request._replace(fresh_producer_id=world.new_producer_id())
        return request

    def tell(self, partition: PartitionId, request: object) -> None:
        seat = self._seats.get(partition)
        if seat is not None:
            seat.shard.tell(request)
            seat.schedule()

    def order(self, log: InternalLog, order: object) -> None:
        assert isinstance(order, SendMarkers), order
        self.markers.send(log, order)

    def in_office(self, partition: PartitionId, leader_epoch: int) -> bool:
        seat = self._seats.get(partition)
        return seat is not None and seat.log.leader_epoch == leader_epoch

    def marker_appended(self, partition: PartitionId, marker: Marker) -> None:
        """A transaction ended in this partition. A shard that still loads will read of it."""
        seat = self._seats.get(partition)
        if seat is not None and seat.shard.loaded:
            seat.shard.replay_marker(marker)
            seat.schedule()

    # -- what seats need

    @property
    def broker(self) -> SimBroker:
        return self._broker


class InternalLog:
    """The log of an internal partition during one leadership: a `coordinators.shard.ShardLog`."""

    __slots__ = ("_broker", "_role", "leader_epoch", "partition", "replica")

    def __init__(self, broker: SimBroker, replica: Replica, role: LeaderReplica) -> None:
        self._broker = broker
        self._role = role
        self.replica = replica
        self.partition = replica.partition
        self.leader_epoch = replica.leader_epoch

    def end_offset(self) -> int:
        return self.replica.log.log_end_offset

    def committed_offset(self) -> int:
        return self.replica.high_watermark

    def may_append(self) -> bool:
        return (
            self._role.leads()
            and self.replica.leader_epoch == self.leader_epoch
            and self._role.enough_replicas_to_append()
        )

    def append(self, write: Write) -> int:
        """The records of a batch become one number: all of them or none."""
        broker = self._broker
        assert self._role.leads(), f"{self.partition} is led by somebody else"
        stamp = write.stamp
        batch = client_batch(
            (broker.node.world.books.intern(write.records),),
            timestamp=broker.node.wall_ms(),
            producer_id=-1 if stamp is None else stamp.producer_id,
            producer_epoch=-1 if stamp is None else stamp.producer_epoch,
        )._replace(is_transactional=stamp is not None)
        try:
            broker.append(self.replica, self._role, batch)
        except NoSpace as error:
            raise AppendFailed(str(error)) from error
        broker.reads.wake(self.partition)
        return self.replica.log.log_end_offset


class Seat:
    """One shard with its log, its timer and its loading. The shard's `ShardPort`."""

    __slots__ = ("_armed_ms", "_coordination", "_left", "_position", "log", "shard")

    def __init__(
        self, coordination: Coordination, machine: CoordinatorMachine, log: InternalLog
    ) -> None:
        self._coordination = coordination
        self._armed_ms = NEVER_MS
        self._left = False
        self._position = 0
        self.log = log
        self.shard = Shard(machine, log, self)

    # -- ShardPort

    def now(self) -> Instant:
        node = self._coordination.broker.node
        return Instant(node.now_ms(), node.wall_ms())

    def order(self, order: object) -> None:
        self._coordination.order(self.log, order)

    def emit(self, event: Event) -> None:
        node = self._coordination.broker.node
        if isinstance(event, MemberLeft):
            node.judge.member_left(node.id, event, node.now_ms())
        node.emit(event)

    def failed(self, shard: Shard, reason: AppendFailed) -> None:
        self._coordination.start_over(self)

    # -- loading

    def begin_loading(self, _: None) -> None:
        node = self._coordination.broker.node
        node.judge.coordinator_began(node.id, self.log.partition)
        log = node.disk.logs[self.log.partition]
        self._position = log.log_start_offset
        self._load(None)

    def leave(self) -> None:
        self._left = True
        self.shard.resign()

    def _load(self, _: None) -> None:
        """At once, or a few batches at a time: others may ask or write meanwhile."""
        if self._left or self.shard.resigned:
            return
        node, plan = self._coordination.broker.node, self._coordination.plan
        log = node.disk.logs[self.log.partition]
        most = plan.loading_batches or (1 << 30)
        while batches := log.read(self._position, log.log_end_offset, most):
            for batch in batches:
                if batch.is_control:
                    self.shard.replay_marker(marker_of(batch))
                else:
                    stamp = (
                        ProducerStamp(batch.producer_id, batch.producer_epoch)
                        if batch.is_transactional
                        else None
                    )
                    self.shard.replay(node.world.books.interned(batch.values[0]), stamp)
            self._position = batches[-1].last_offset + 1
            if plan.loading_batches and self._position < log.log_end_offset:
                node.after_us(plan.loading_delay_us, self._load, None)
                return
        node.coordination_marks.took_office(self.log.partition, self.shard.machine)
        self.shard.finish_loading()
        self.schedule()

    # -- time

    def schedule(self) -> None:
        """One timer at or before the machine's next deadline; one that is too early re-arms."""
        deadline_ms = self.shard.next_deadline_ms()
        if deadline_ms < self._armed_ms:
            self._armed_ms = deadline_ms
            self._coordination.broker.node.at_ms(deadline_ms, self._on_time, deadline_ms)

    def _on_time(self, armed_ms: int) -> None:
        if armed_ms != self._armed_ms or self._left:
            return
        self._armed_ms = NEVER_MS
        if self._coordination.broker.node.now_ms() >= self.shard.next_deadline_ms():
            self.shard.on_time()
        self.schedule()
