"""The controller of a story: a production node, and what it commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tidelog.broker.coordination.internal_topics import TRANSACTION_STATE
from tidelog.controller.controller import ActiveController
from tidelog.core.events import LeaderElected
from tidelog.core.metadata import announcements
from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.metadata.replay import replay
from tidelog.core.types import LogEntry, PartitionId
from tidelog.sim.scenario.process import StoryServer, controller_address
from tidelog.wire.protocol import Message

if TYPE_CHECKING:
    from tidelog.sim.scenario.stage import Stage

CONTROLLER_NODE = 9000
COORDINATOR_NODE = 9001
SPEAKER = "controller"
START_LIMIT_MS = 10_000


class Control:
    """Hears what is committed, as a `MetadataListener` of the controller's node."""

    def __init__(self, stage: Stage, server: StoryServer) -> None:
        self._stage = stage
        self._server = server
        self.node_id = server.node_id
        self._image = MetadataImage()

    @property
    def _controller(self) -> ActiveController:
        node = self._server.node
        controller = None if node is None else node.controller
        assert controller is not None, "the controller is gone"
        return controller

    @property
    def active(self) -> bool:
        node = self._server.node
        return node is not None and node.controller is not None and node.controller.active

    @property
    def committed(self) -> MetadataImage:
        return self._controller.core.committed

    @property
    def next_offset(self) -> int:
        assert self._server.node is not None, "the controller is gone"
        return self._server.node.quorum.log_end_offset

    def listen(self) -> None:
        """From now on what is committed is told."""
        assert self._server.node is not None, "the controller is gone"
        self._image = self.committed.copy()
        self._server.node.quorum.listeners.insert(0, self)

    def start(self) -> None:
        self._server.start()

    def fail_over(self) -> None:
        """The active controller is gone; the next one knows what is committed, no more."""
        self._server.kill()
        self.start()
        self._stage.run_until(lambda: self.active, START_LIMIT_MS)
        self.listen()
        epoch = self._controller.core.epoch
        self._stage.narrator.line(f"{SPEAKER}: claims controller-epoch={epoch}")

    # -- decisions

    def write(self, records: tuple[r.MetadataRecord, ...]) -> None:
        """The controller decides this, whatever made it do so."""
        controller, loop = self._controller, self._server.loop
        assert loop is not None, "the controller is gone"

        def decide() -> None:
            now_ms = self._stage.now_ms
            controller._perform(controller.core._append(records, now_ms))

        loop.perform(decide)
        self._stage.settle()

    def fill(self, next_offset: int) -> None:
        """Other things happen in the cluster until the metadata log ends at `next_offset`."""
        self.write((r.NoOp(),) * (next_offset - self.next_offset))

    def add_coordinator(self) -> None:
        """A broker that coordinates transactions, once. The gate answers for it, so it registers
        with an address at which somebody listens."""
        if COORDINATOR_NODE in self.committed.brokers:
            return
        address = controller_address(self.node_id)
        endpoint = r.Endpoint("PLAINTEXT", *address)
        epoch, topic_id = self.next_offset, COORDINATOR_NODE.to_bytes(16, "big")
        who = (COORDINATOR_NODE,)
        place = r.Partition(0, topic_id, who, who, leader=COORDINATOR_NODE)
        self.write(
            (
                r.RegisterBroker(COORDINATOR_NODE, topic_id, epoch, (endpoint,)),
                r.BrokerRegistrationChange(COORDINATOR_NODE, epoch, fenced=-1),
                r.Topic(TRANSACTION_STATE, topic_id),
                place,
            )
        )
        self._stage.narrator.take_lines()

    def ask(self, request: Message, version: int) -> Message:
        """An operator's request; the metadata log commits at once, so the answer is there."""
        return self._stage.ask_at(controller_address(self.node_id), request, version)

    # -- MetadataListener

    def on_committed(self, entry: LogEntry) -> None:
        if entry.control:
            return
        records = cast("tuple[r.MetadataRecord, ...]", entry.records)
        before = {state.id: state.copy() for state in self._image.partitions()}
        unclean: list[PartitionId] = []
        for record in records:
            for event in announcements.announce(self._image, record):
                if isinstance(event, LeaderElected) and event.unclean:
                    unclean.append(event.partition)
            replay(self._image, record)
        self._tell(records, before, unclean)

    def on_snapshot(self, records: tuple[r.MetadataRecord, ...], end_offset: int) -> None:
        """A controller that has listeners has no need of one."""

    def on_applied(self, offset: int) -> None: ...
    def on_claimable(self, epoch: int, next_offset: int) -> None: ...
    def on_lost(self, epoch: int) -> None: ...

    # -- telling

    def _tell(
        self,
        records: tuple[r.MetadataRecord, ...],
        before: dict[PartitionId, PartitionState],
        unclean: list[PartitionId],
    ) -> None:
        touched: dict[PartitionId, None] = {}
        for record in records:
            if isinstance(record, r.Partition | r.PartitionChange):
                touched[PartitionId(record.topic_id, record.partition)] = None
        for record in records:
            text = self._record_text(record, changes_partitions=bool(touched))
            if text:
                self._stage.narrator.line(f"{SPEAKER}: {text}")
        for partition in touched:
            after = self._image.partition(partition)
            assert after is not None, partition
            text = self._change_text(before.get(partition), after)
            suffix = " unclean" if partition in unclean else ""
            self._stage.narrator.line(f"{SPEAKER}: {text}{suffix}")

    def _record_text(self, record: object, *, changes_partitions: bool) -> str:
        name_of = self._stage.cast.name_of
        if isinstance(record, r.RegisterBroker):
            return f"{name_of(record.broker_id)} registered broker-epoch={record.broker_epoch}"
        if isinstance(record, r.BrokerRegistrationChange):
            if record.fenced < 0:
                return f"{name_of(record.broker_id)} unfenced"
            # That a leader went away is told by who leads now.
            if record.fenced > 0 and not changes_partitions:
                return f"{name_of(record.broker_id)} fenced"
        if isinstance(record, r.Topic):
            return f"topic {record.name} created"
        if isinstance(record, r.RemoveTopic):
            return "topic deleted"
        if isinstance(record, r.Config) and record.resource_type == r.RESOURCE_TOPIC:
            return f"{record.name}={record.value}"
        return ""

    def _change_text(self, before: PartitionState | None, after: PartitionState) -> str:
        names = self._stage.cast.names_of
        parts: list[str] = []
        if before is None or before.replicas != after.replicas:
            parts.append(f"replicas={names(after.replicas)}")
        if after.adding_replicas or (before is not None and before.adding_replicas):
            parts.append(f"adding={names(after.adding_replicas)}")
        if after.removing_replicas or (before is not None and before.removing_replicas):
            parts.append(f"removing={names(after.removing_replicas)}")
        if before is None or before.leader_epoch != after.leader_epoch:
            parts.append(f"leader={self._stage.cast.name_of(after.leader)}")
            parts.append(f"leader-epoch={after.leader_epoch}")
        parts.append(f"isr={names(after.isr)}")
        if after.elr or (before is not None and before.elr):
            parts.append(f"elr={names(after.elr)}")
        parts.append(f"partition-epoch={after.partition_epoch}")
        return " ".join(parts)
