"""The control plane of a story: the real controller on a metadata log that commits at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.events import LeaderElected
from tidelog.core.metadata import records as r
from tidelog.core.metadata.controller import Controller
from tidelog.core.metadata.effects import Answer, AppendRecords, Effect
from tidelog.core.metadata.image import PartitionState
from tidelog.core.metadata.settings import ControllerSettings
from tidelog.core.requests import ControllerRequest, ControllerResponse
from tidelog.core.types import LogEntry, PartitionId

if TYPE_CHECKING:
    from tidelog.sim.scenario.stage import Stage

CLUSTER_ID = "story"
CONTROLLER_NODE = 9000
SPEAKER = "controller"


class Call:
    """One request to the controller; its identity is the token of the answer."""

    __slots__ = ("broker", "request", "response")

    def __init__(self, broker: int | None, request: ControllerRequest) -> None:
        self.broker = broker
        self.request = request
        self.response: ControllerResponse | None = None


class Control:
    def __init__(self, stage: Stage, *, elr_enabled: bool) -> None:
        self._stage = stage
        self._uuids = 0
        self.entries: list[LogEntry] = []
        self.next_offset = 0
        # No idle records: offsets, and with them broker epochs, change only when something does.
        settings = ControllerSettings(CLUSTER_ID, elr_enabled=elr_enabled, max_idle_interval_ms=0)
        self.controller = Controller(CONTROLLER_NODE, settings, lambda limit: 0, self.make_uuid)
        self.perform(self.controller.claim(0, 0, stage.now_ms))

    def make_uuid(self) -> bytes:
        """Never random, never the same, and above the reserved ids."""
        self._uuids += 1
        return (1000 + self._uuids).to_bytes(16, "big")

    def install(self, records: tuple[r.MetadataRecord, ...]) -> None:
        """History: what an earlier controller has written, followed by a new claim."""
        controller, now_ms = self.controller, self._stage.now_ms
        controller.renounce(now_ms)
        entry = LogEntry(self.next_offset, controller.epoch, records)
        self._append(entry)
        controller.on_committed(entry, now_ms)
        self.perform(controller.claim(controller.epoch + 1, self.next_offset, now_ms))

    def fill(self, next_offset: int) -> None:
        """Other things happen in the cluster until the metadata log ends at `next_offset`."""
        self.controller.on_control_appended(next_offset)
        self.next_offset = next_offset

    def fail_over(self) -> None:
        """The active controller is gone; the next one knows what is committed, no more."""
        controller, now_ms = self.controller, self._stage.now_ms
        self.perform(controller.renounce(now_ms))
        self.perform(controller.claim(controller.epoch + 1, self.next_offset, now_ms))
        self._stage.narrator.line(f"{SPEAKER}: claims controller-epoch={controller.epoch}")

    # -- requests

    def handle(self, call: Call) -> None:
        self.perform(self.controller.handle(call, call.request, self._stage.now_ms))

    def ask(self, request: ControllerRequest) -> ControllerResponse:
        """An operator's request; the metadata log commits at once, so the answer is there."""
        call = Call(None, request)
        self.handle(call)
        assert call.response is not None, f"{request} was not answered"
        return call.response

    def tick(self) -> None:
        self.perform(self.controller.tick(self._stage.now_ms))

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, AppendRecords):
                assert effect.base_offset == self.next_offset, (effect, self.next_offset)
                entry = LogEntry(effect.base_offset, self.controller.epoch, effect.records)
                self._append(entry)
                self._commit(entry)
            elif isinstance(effect, Answer):
                assert isinstance(effect.token, Call), effect
                self._answer(effect.token, effect.response)

    def _append(self, entry: LogEntry) -> None:
        self.entries.append(entry)
        self.next_offset = entry.next_offset

    def _commit(self, entry: LogEntry) -> None:
        image = self.controller.committed
        before = {state.id: state.copy() for state in image.partitions()}
        effects = self.controller.on_committed(entry, self._stage.now_ms)
        unclean = [e.partition for e in effects if isinstance(e, LeaderElected) and e.unclean]
        self._tell(entry, before, unclean)
        self.perform(effects)
        self._stage.later(self._stage.publish_metadata)

    def _answer(self, call: Call, response: ControllerResponse) -> None:
        call.response = response
        if call.broker is not None:
            broker = self._stage.brokers[call.broker]
            self._stage.later(lambda: broker.link.on_response(call))

    # -- telling

    def _tell(
        self, entry: LogEntry, before: dict[PartitionId, PartitionState], unclean: list[PartitionId]
    ) -> None:
        touched: dict[PartitionId, None] = {}
        for record in entry.records:
            if isinstance(record, (r.Partition, r.PartitionChange)):
                touched[PartitionId(record.topic_id, record.partition)] = None
        for record in entry.records:
            text = self._record_text(record, changes_partitions=bool(touched))
            if text:
                self._stage.narrator.line(f"{SPEAKER}: {text}")
        for partition in touched:
            after = self.controller.committed.partition(partition)
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
