"""One hosted partition: the only place where a replica changes its role.

    (none) ──metadata names us──→ leader ←──────────→ follower ←── metadata names another,
       ↑                             └──────stop─────────┘         or nobody
       └────────────────────────────────────────────────

Metadata comes in partition epochs; an older one is ignored. A new leader epoch always starts a
new follower role, even under the same leader: what happened in between is unknown
(KAFKA-7164). A leader that is elected again keeps its role, and the produces parked in it.
"""

from collections.abc import Mapping

from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.events import BecameFollower
from tidelog.core.replication import reads
from tidelog.core.replication.effects import Effect
from tidelog.core.replication.follower import FollowerReplica
from tidelog.core.replication.inputs import (
    EARLIEST,
    LATEST,
    BrokerStatus,
    ConsumerFetch,
    FetchDecision,
    OffsetAnswer,
    PartitionMetadata,
    ReplicaSettings,
)
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.log_view import LogView
from tidelog.core.replication.state import ReplicaState
from tidelog.core.types import (
    NO_EPOCH,
    NO_LEADER,
    NO_OFFSET,
    UNDEFINED_EPOCH_END,
    EpochEnd,
    PartitionId,
)


class Replica(ReplicaState):
    __slots__ = ("role",)

    def __init__(
        self,
        partition: PartitionId,
        broker_id: int,
        log: LogView,
        settings: ReplicaSettings,
        *,
        high_watermark: int,
    ) -> None:
        super().__init__(partition, broker_id, log, settings, high_watermark=high_watermark)
        self.role: LeaderReplica | FollowerReplica | None = None

    # ---- metadata ----

    def apply_metadata(
        self, metadata: PartitionMetadata, brokers: Mapping[int, BrokerStatus], now_ms: int
    ) -> list[Effect]:
        if metadata.partition_epoch < self.partition_epoch:
            return []
        assert metadata.leader_epoch >= self.leader_epoch, (
            f"leader epoch {metadata.leader_epoch} after {self.leader_epoch}"
        )
        is_newer = metadata.partition_epoch > self.partition_epoch
        is_new_epoch = (
            metadata.leader_epoch > self.leader_epoch
            or metadata.leader != self.leader
            or self.role is None
        )
        missed_epochs = metadata.leader_epoch > self.leader_epoch + 1
        self.brokers = brokers
        self.partition_epoch = metadata.partition_epoch
        self.leader = metadata.leader
        self.leader_epoch = metadata.leader_epoch
        self.leader_recovery_state = metadata.leader_recovery_state
        self.replicas = metadata.replicas
        self.adding_replicas = metadata.adding_replicas
        if metadata.leader != self.broker_id:
            return self._follow(now_ms, is_new_epoch=is_new_epoch)
        role = self.role
        if isinstance(role, LeaderReplica) and not missed_epochs:
            return role.on_metadata(
                metadata.isr, is_newer=is_newer, is_new_epoch=is_new_epoch, now_ms=now_ms
            )
        assert is_new_epoch, f"a follower leads in its own leader epoch {self.leader_epoch}"
        return self._lead(metadata.isr, now_ms)

    def _lead(self, isr: tuple[int, ...], now_ms: int) -> list[Effect]:
        """Begin a new tenure. Also for a leader whose next known epoch is not its next one: a
        snapshot can fold away that others led in between, and what followers held under us
        they may have truncated under them."""
        previous = self.role
        effects: list[Effect] = []
        if isinstance(previous, LeaderReplica):
            self.tenure += 1
            effects.extend(previous.retire())
        self.role = role = LeaderReplica(self, isr)
        return [*effects, *role.begin(now_ms)]

    def _follow(self, now_ms: int, *, is_new_epoch: bool) -> list[Effect]:
        previous = self.role
        if isinstance(previous, FollowerReplica) and not is_new_epoch:
            return []
        self.tenure += 1
        self.role = role = FollowerReplica(self)
        effects: list[Effect] = [
            BecameFollower(self.partition, self.broker_id, self.leader, self.leader_epoch),
            *role.begin(now_ms),
        ]
        if isinstance(previous, LeaderReplica):
            effects.extend(previous.retire())
        return effects

    def on_brokers_changed(self, brokers: Mapping[int, BrokerStatus], now_ms: int) -> list[Effect]:
        self.brokers = brokers
        role = self.role
        return role.on_brokers_changed(now_ms) if isinstance(role, LeaderReplica) else []

    def on_settings_changed(self, now_ms: int) -> list[Effect]:
        role = self.role
        return role.on_settings_changed(now_ms) if isinstance(role, LeaderReplica) else []

    def stop(self, now_ms: int) -> list[Effect]:
        """The partition is deleted or no longer hosted here."""
        previous, self.role = self.role, None
        self.tenure += 1
        self.leader = NO_LEADER
        return previous.retire() if isinstance(previous, LeaderReplica) else []

    # ---- reads that any role may be asked for ----

    def consumer_fetch(self, fetch: ConsumerFetch, now_ms: int) -> FetchDecision:
        """Up to the high watermark or, for `read_committed`, the last stable offset."""
        role = self.role
        error = self.check_reader(fetch.leader_epoch, leader_only=fetch.leader_only)
        if error is not NO_ERROR or role is None:
            return reads.refused(self, error)
        position = reads.check_position(self.log, fetch.fetch_offset, fetch.last_fetched_epoch)
        if position.error is not NO_ERROR:
            return reads.refused(self, position.error)
        if position.diverging is not None:
            return reads.told_to_truncate(self, position.diverging)
        if isinstance(role, LeaderReplica):
            preferred = role.preferred_replica(fetch, now_ms)
            if preferred != self.broker_id:
                nothing = reads.served(self, fetch.fetch_offset, fetch.fetch_offset)
                return nothing._replace(preferred_replica=preferred)
            if (
                role.is_awaiting_high_watermark(fetch.fetch_offset)
                and fetch.understands_offset_not_available
            ):
                return reads.refused(self, Error.OFFSET_NOT_AVAILABLE)
        return reads.served(self, fetch.fetch_offset, role.read_limit(fetch.read_committed))

    def check_reader(self, leader_epoch: int, *, leader_only: bool) -> Error:
        """Rows 2 to 4 of replication.md §6, for anyone who is not a replica."""
        if self.role is None:
            return Error.NOT_LEADER_OR_FOLLOWER
        error = reads.fence(leader_epoch, self.leader_epoch)
        if error is not NO_ERROR:
            return error
        if leader_only and not isinstance(self.role, LeaderReplica):
            return Error.NOT_LEADER_OR_FOLLOWER
        return NO_ERROR

    def list_offset(
        self,
        which: int,
        leader_epoch: int,
        *,
        read_committed: bool = False,
        client: bool = True,
        understands_offset_not_available: bool = True,
    ) -> OffsetAnswer:
        """LATEST or EARLIEST, on the leader. Followers (`client=False`) see the whole log."""
        assert which in (LATEST, EARLIEST), f"asked for offset {which}"
        error = self.check_reader(leader_epoch, leader_only=True)
        role = self.role
        if error is not NO_ERROR or not isinstance(role, LeaderReplica):
            return OffsetAnswer(error)
        log = self.log
        if which == EARLIEST:
            start = log.log_start_offset
            return OffsetAnswer(NO_ERROR, start, log.epochs.epoch_at(start))
        if not client:
            return OffsetAnswer(NO_ERROR, log.log_end_offset, self.leader_epoch)
        limit = role.read_limit(read_committed)
        return self._answer_offset(limit, limit, understands_offset_not_available)

    def timestamp_offset(
        self,
        found: int,
        *,
        read_committed: bool = False,
        understands_offset_not_available: bool = True,
    ) -> OffsetAnswer:
        """The shell found this offset for a timestamp; may a client be told? -1: there is none."""
        error = self.check_reader(NO_EPOCH, leader_only=True)
        role = self.role
        if error is not NO_ERROR or not isinstance(role, LeaderReplica):
            return OffsetAnswer(error)
        limit = role.read_limit(read_committed)
        if found < limit:
            return OffsetAnswer(NO_ERROR, found, self.log.epochs.epoch_at(found))
        return self._answer_offset(NO_OFFSET, limit, understands_offset_not_available)

    def _answer_offset(self, offset: int, limit: int, understands: bool) -> OffsetAnswer:
        """KIP-207: while a new leader does not know what is committed, an answer could be below
        one already given, and clients would go backwards."""
        role = self.role
        assert isinstance(role, LeaderReplica), f"{self.broker_id} does not lead"
        assert limit <= self.high_watermark, f"limit {limit} above {self.high_watermark}"
        if role.is_awaiting_high_watermark(role.leader_epoch_start_offset):
            return OffsetAnswer(
                Error.OFFSET_NOT_AVAILABLE if understands else Error.LEADER_NOT_AVAILABLE
            )
        return OffsetAnswer(NO_ERROR, offset, self.leader_epoch)

    def offset_for_leader_epoch(
        self, epoch: int, current_leader_epoch: int
    ) -> tuple[Error, EpochEnd]:
        """KIP-320: where a client that read `epoch` has to stop trusting what it read."""
        error = self.check_reader(current_leader_epoch, leader_only=True)
        if error is not NO_ERROR:
            return error, UNDEFINED_EPOCH_END
        return error, self.log.epochs.end_offset_for(epoch, self.log.log_end_offset)
