"""The controller: one event in, effects out (kraft.md §4).

Every node of the quorum keeps the committed image. The one that leads the quorum claims the
controller and then also keeps the current image: committed records and, on top, those it has
written and that are not committed yet. For every request it

1. decides on records by looking at the current image,
2. replays them into the current image at once, so that the next decision builds on them,
3. hands them to the quorum as atomic batches at offsets it has counted itself,
4. answers when they are committed.

A decision that needs no records may still have looked at pending ones, so its answer waits
for the newest of them. When leadership is lost nobody knows what will become of the pending
records: the current image is thrown away, and what the log finally holds arrives as committed
entries like on any other node. Requests of brokers fail; those of administrators that wrote
records are answered when it is known (`held_answers`).
"""

from collections import deque
from collections.abc import Callable
from typing import cast

from tidelog.core import events
from tidelog.core.errors import Error
from tidelog.core.metadata import (
    access_rules,
    alter_partition,
    announcements,
    bootstrap,
    client_quotas,
    configs,
    elect_leaders,
    features,
    heartbeats,
    membership,
    producer_ids,
    reassign_partitions,
    registration,
    scram_users,
    topics,
)
from tidelog.core.metadata.decision import Decision, View, refuse, sender
from tidelog.core.metadata.effects import Answer, AppendRecords, Effect
from tidelog.core.metadata.held_answers import HeldAnswers, Waiting
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.records import MetadataRecord, NoOp, RegisterBroker
from tidelog.core.metadata.replay import image_records, replay
from tidelog.core.metadata.sessions import Sessions
from tidelog.core.metadata.settings import ControllerSettings
from tidelog.core.metadata.timers import Timers
from tidelog.core.requests import (
    AllocateProducerIdsRequest,
    AlterConfigRequest,
    AlterPartitionRequest,
    AlterQuotaRequest,
    AlterReassignmentRequest,
    AlterScramRequest,
    ControllerRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicRequest,
    DeleteAclsRequest,
    DeleteTopicRequest,
    ElectLeadersRequest,
    HeartbeatRequest,
    RegisterBrokerRequest,
    UpdateFeaturesRequest,
)
from tidelog.core.types import NO_EPOCH, NO_OFFSET, LogEntry


class Controller:
    __slots__ = (
        "_draw",
        "_held",
        "_make_uuid",
        "_newest_offset",
        "_next_offset",
        "_registered_at",
        "_sessions",
        "_timers",
        "_unfences_from",
        "_waiting",
        "committed",
        "committed_end",
        "current",
        "epoch",
        "node_id",
        "settings",
    )

    def __init__(
        self,
        node_id: int,
        settings: ControllerSettings,
        draw: Callable[[int], int],
        make_uuid: Callable[[], bytes],
    ) -> None:
        self.node_id = node_id
        self.settings = settings
        self._draw = draw
        self._make_uuid = make_uuid
        self.committed = MetadataImage()
        self.committed_end = 0
        """Every record below this offset is part of `committed`."""
        self.current: MetadataImage | None = None
        self.epoch = NO_EPOCH
        self._sessions = Sessions(settings.session_timeout_ms)
        self._timers = Timers(settings)
        self._waiting: deque[Waiting] = deque()
        self._held = HeldAnswers()
        self._next_offset = NO_OFFSET
        self._newest_offset = NO_OFFSET
        self._registered_at: dict[int, int] = {}
        self._unfences_from: dict[int, int] = {}
        """What a broker must have applied before it is unfenced: its own registration, or a
        record that was written after its process had been found gone."""

    @property
    def active(self) -> bool:
        return self.current is not None

    @property
    def pending_answers(self) -> int:
        return len(self._waiting)

    @property
    def held_answers(self) -> int:
        """How many answers of a claim that is over wait for the fate of their records."""
        return len(self._held)

    @property
    def next_deadline_ms(self) -> int:
        """When `tick` has something to do; a time that never comes unless active."""
        return min(self._sessions.next_expiry_ms, self._timers.next_deadline_ms)

    # -- the metadata log -------------------------------------------------------------------

    def on_committed(self, entry: LogEntry, now_ms: int) -> list[Effect]:
        """An entry is committed. Every node hears of every entry, in order, exactly once."""
        assert entry.offset >= self.committed_end, (entry.offset, self.committed_end)
        effects: list[Effect] = [*self._held.on_committed(entry)]
        if not entry.control:
            # After a claim only what this claim wrote is left to be committed (rule 12).
            assert self.current is None or entry.epoch == self.epoch, (entry.epoch, self.epoch)
            # The quorum does not know what is in its entries; all but control ones are ours.
            records = cast("tuple[MetadataRecord, ...]", entry.records)
            for offset, record in enumerate(records, entry.offset):
                if self.current is not None:
                    effects.extend(announcements.announce(self.committed, record))
                replay(self.committed, record)
                if type(record) is RegisterBroker:
                    self._registered_at[record.broker_id] = offset
        self.committed_end = entry.next_offset
        while self._waiting and self._waiting[0].offset < self.committed_end:
            waiting = self._waiting.popleft()
            effects.append(Answer(waiting.token, waiting.response))
        return effects

    def load_snapshot(
        self, records: tuple[MetadataRecord, ...], end_offset: int, now_ms: int
    ) -> None:
        """Start again from an image that replaces every entry below `end_offset`."""
        assert not self.active, f"node {self.node_id} loads a snapshot while it is the controller"
        assert end_offset >= self.committed_end, (end_offset, self.committed_end)
        self.committed = MetadataImage()
        for record in records:
            replay(self.committed, record)
        self.committed_end = end_offset
        self._held.on_snapshot(end_offset)
        # The offsets of the registrations are gone with the log; they are before the end.
        self._registered_at = dict.fromkeys(self.committed.brokers, end_offset - 1)

    def snapshot_records(self) -> tuple[MetadataRecord, ...]:
        """The committed image as records; never anything that is not committed."""
        return image_records(self.committed)

    # -- claim and renounce -----------------------------------------------------------------

    def claim(self, epoch: int, next_offset: int, now_ms: int) -> list[Effect]:
        """This node leads the quorum and has heard of every committed entry."""
        assert not self.active, f"claims epoch {epoch} on top of {self.epoch}"
        assert epoch > self.epoch, (epoch, self.epoch)
        assert next_offset >= self.committed_end, (next_offset, self.committed_end)
        assert not self._held, f"{len(self._held)} answers of epoch {self.epoch} are undecided"
        self.epoch = epoch
        self.current = self.committed.copy()
        self._next_offset = next_offset
        self._newest_offset = NO_OFFSET
        self._unfences_from = dict(self._registered_at)
        self._sessions.begin(self.current.brokers.values(), next_offset - 1, now_ms)
        self._timers.start(self.current, now_ms)
        effects: list[Effect] = [events.ControllerClaimed(self.node_id, epoch)]
        effects += self._append(bootstrap.missing_records(self._view()), now_ms)
        return effects

    def renounce(self, now_ms: int) -> list[Effect]:
        """Leadership is lost: forget everything that is not committed."""
        if not self.active:
            return []
        self.current = None
        self._sessions.clear()
        self._timers.stop()
        self._unfences_from = {}
        effects: list[Effect] = [*self._held.hold(self.epoch, self._waiting)]
        self._waiting.clear()
        effects.append(events.ControllerRenounced(self.node_id, self.epoch))
        return effects

    def refuse_held(self) -> list[Effect]:
        """This node stops: it will not hear what became of the records of its last claim."""
        return [*self._held.refuse_all()]

    def forget_held(self, is_gone: Callable[[object], bool]) -> list[object]:
        """Nobody waits for the held answers to such tokens any more; which ones there were."""
        return self._held.forget(is_gone)

    def on_control_appended(self, next_offset: int) -> None:
        """The quorum wrote something of its own (a voter set): our next record comes later."""
        if self.active:
            assert next_offset >= self._next_offset, (next_offset, self._next_offset)
            self._next_offset = next_offset

    # -- requests ---------------------------------------------------------------------------

    def on_arrival(self, request: ControllerRequest, now_ms: int) -> None:
        """A request has arrived and may have to queue: a busy controller must not take the
        silence it causes itself for the death of a broker."""
        if isinstance(request, HeartbeatRequest):
            self._sessions.on_heartbeat(request, now_ms)

    def handle(
        self, token: object, request: ControllerRequest, now_ms: int, *, part_of: object = None
    ) -> list[Effect]:
        """`part_of` is the same for all decisions that are answered together, if there are."""
        if self.current is None:
            return [Answer(token, refuse(request, Error.NOT_CONTROLLER))]
        self.on_arrival(request, now_ms)
        decision = self._decide(request, now_ms)
        effects = self._append(decision.records, now_ms)
        if isinstance(request, HeartbeatRequest):
            self._after_heartbeat(request, decision)
        if self._newest_offset < self.committed_end:
            effects.append(Answer(token, decision.response))
        else:
            wrote = bool(decision.records)
            part_of = object() if part_of is None else part_of  # a copy has the same token
            self._waiting.append(
                Waiting(self._newest_offset, token, request, decision.response, wrote, part_of)
            )
        return effects

    def tick(self, now_ms: int) -> list[Effect]:
        """Do what is due; at most one broker is fenced, further ones by further ticks."""
        if self.current is None:
            return []
        effects: list[Effect] = []
        stale = self._sessions.stale_broker(now_ms)
        if stale is not None:
            effects += self._append(
                membership.fence(self._view(), self.current.brokers[stale]), now_ms
            )
        if self._timers.balance_due(now_ms):
            step = elect_leaders.balance_leaders(self._view())
            effects += self._append(step.records, now_ms)
            self._timers.balanced(self.current, full=step.full, now_ms=now_ms)
        if self._timers.unclean_due(now_ms):
            effects += self._append(elect_leaders.elect_waiting(self._view()), now_ms)
            self._timers.unclean_checked(self.current, now_ms)
        if self._timers.idle_due(now_ms):
            effects += self._append((NoOp(),), now_ms)
        return effects

    def on_broker_gone(self, broker_id: int, broker_epoch: int, now_ms: int) -> list[Effect]:
        """The process of exactly this incarnation is known to be gone (ADR 0017).

        It is fenced without waiting for its lease, and its successor may register at once. A
        heartbeat of it may still be on its way; it cannot know any record written from now on,
        so it does not unfence. Whoever does know one is alive, and is unfenced as ever.
        """
        if self.current is None:
            return []
        broker = sender(self.current, broker_id, broker_epoch)
        if broker is None:
            return []
        unfences_from = self._next_offset
        effects: list[Effect] = []
        if not broker.fenced:
            effects += self._append(membership.fence(self._view(), broker), now_ms)
        self._unfences_from[broker_id] = unfences_from
        self._sessions.end(broker_id)
        return effects

    def on_disconnected(self, broker_id: int, broker_epoch: int) -> None:
        """The connection that brought this incarnation's heartbeats has closed. It keeps its
        lease, but no longer against its own next life (`registration.keeps_its_seat`)."""
        self._sessions.disconnected(broker_id, broker_epoch)

    def registered_epoch(self, broker_id: int) -> int:
        """Broker epoch under which the active controller knows this broker, else -1."""
        broker = self.current.brokers.get(broker_id) if self.current is not None else None
        return broker.broker_epoch if broker is not None else NO_EPOCH

    def _decide(self, request: ControllerRequest, now_ms: int) -> Decision:
        view = self._view()
        if isinstance(request, HeartbeatRequest):
            unfences_from = self._unfences_from.get(request.broker_id, NO_OFFSET)
            return heartbeats.decide_heartbeat(view, request, self._sessions, unfences_from)
        if isinstance(request, AlterPartitionRequest):
            return alter_partition.decide_alter_partition(view, request)
        if isinstance(request, RegisterBrokerRequest):
            lease = self._sessions.lease(request.broker_id, now_ms)
            return registration.decide_registration(view, request, lease, self._next_offset)
        if isinstance(request, AllocateProducerIdsRequest):
            return producer_ids.decide_producer_ids(view, request)
        if isinstance(request, CreateTopicRequest):
            return topics.decide_create_topic(view, request, self._draw, self._make_uuid)
        if isinstance(request, CreatePartitionsRequest):
            return topics.decide_create_partitions(view, request, self._draw)
        if isinstance(request, DeleteTopicRequest):
            return topics.decide_delete_topic(view, request)
        if isinstance(request, AlterConfigRequest):
            return configs.decide_alter_config(view, request)
        if isinstance(request, ElectLeadersRequest):
            return elect_leaders.decide_elect_leaders(view, request)
        if isinstance(request, AlterReassignmentRequest):
            return reassign_partitions.decide_reassignment(view, request)
        if isinstance(request, UpdateFeaturesRequest):
            return features.decide_update_features(view, request)
        if isinstance(request, AlterScramRequest):
            return scram_users.decide_alter_scram(view, request)
        if isinstance(request, CreateAclsRequest):
            return access_rules.decide_create_acls(view, request, self._make_uuid)
        if isinstance(request, DeleteAclsRequest):
            return access_rules.decide_delete_acls(view, request)
        if isinstance(request, AlterQuotaRequest):
            return client_quotas.decide_alter_quota(view, request)
        return registration.decide_unregistration(view, request)

    def _after_heartbeat(self, request: HeartbeatRequest, decision: Decision) -> None:
        """A broker that is told to stop has ended its session itself."""
        if heartbeats.tells_to_stop(decision):
            self._sessions.end(request.broker_id)

    # -- records ----------------------------------------------------------------------------

    def _view(self) -> View:
        assert self.current is not None, f"node {self.node_id} is not the controller"
        return View(self.current, self.settings)

    def _append(self, records: tuple[MetadataRecord, ...], now_ms: int) -> list[Effect]:
        """Replay, then hand over in batches. Decisions that must be atomic are never longer
        than a batch; the others are in an order of which every prefix is safe."""
        if not records:
            return []
        assert self.current is not None, f"node {self.node_id} is not the controller"
        limit = self.settings.max_records_per_batch
        effects: list[Effect] = []
        for start in range(0, len(records), limit):
            batch = records[start : start + limit]
            effects.append(AppendRecords(batch, self._next_offset))
            for record in batch:
                replay(self.current, record)
                self._sessions.follow(record, self._next_offset, now_ms)
                if type(record) is RegisterBroker:
                    self._unfences_from[record.broker_id] = self._next_offset
                self._next_offset += 1
        self._newest_offset = self._next_offset - 1
        self._timers.appended(self.current, now_ms)
        return effects
