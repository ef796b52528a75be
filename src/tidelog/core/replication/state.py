"""What a hosted partition keeps while its role changes."""

from collections.abc import Mapping

from tidelog.core.metadata.records import RECOVERED
from tidelog.core.replication.inputs import BrokerStatus, ReplicaSettings
from tidelog.core.replication.log_view import LogView
from tidelog.core.types import NO_EPOCH, NO_LEADER, PartitionId


class ReplicaState:
    """Owned by the `Replica`; the role in charge reads it and moves the high watermark."""

    __slots__ = (
        "adding_replicas",
        "broker_id",
        "brokers",
        "high_watermark",
        "leader",
        "leader_epoch",
        "leader_recovery_state",
        "log",
        "partition",
        "partition_epoch",
        "replicas",
        "settings",
        "tenure",
    )

    def __init__(
        self,
        partition: PartitionId,
        broker_id: int,
        log: LogView,
        settings: ReplicaSettings,
        *,
        high_watermark: int,
    ) -> None:
        self.partition = partition
        self.broker_id = broker_id
        self.log = log
        self.settings = settings
        self.leader = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.leader_recovery_state = RECOVERED
        self.replicas: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        self.brokers: Mapping[int, BrokerStatus] = {}
        # Counts every become-follower and stop. A produce belongs to the tenure it was appended
        # in: leader → follower → leader may have truncated it, so it must not be acknowledged.
        self.tenure = 0
        # The checkpoint is only a hint. The log is never cut to it (replication.md §2.4, KIP-101).
        self.high_watermark = self.within_log(high_watermark)
        log.producers.on_high_watermark(self.high_watermark)

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided: the limit of `read_committed`."""
        high_watermark = self.high_watermark
        unstable = self.log.producers.first_unstable_offset(high_watermark)
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        return max(unstable, self.log.log_start_offset)

    @property
    def broker_epoch(self) -> int:
        """Our own registration, as far as local metadata knows it."""
        status = self.brokers.get(self.broker_id)
        return status.broker_epoch if status is not None else NO_EPOCH

    def within_log(self, offset: int) -> int:
        """The nearest offset this log can have as its high watermark."""
        start, end = self.log.log_start_offset, self.log.log_end_offset
        assert start <= end, f"log from {start} to {end}"
        if offset > end:
            return end
        return offset if offset > start else start

    def move_to(self, log: LogView) -> None:
        """The same log, in another directory: nothing that was said of the old one becomes
        untrue of this one."""
        before = self.log
        assert log.log_start_offset == before.log_start_offset, (log, before)
        assert log.log_end_offset == before.log_end_offset, (log, before)
        assert log.durable_offset >= before.durable_offset, (log, before)
        assert log.epochs.entries == before.epochs.entries, (log.epochs, before.epochs)
        self.log = log

    def move_high_watermark(self, high_watermark: int) -> None:
        assert self.log.log_start_offset <= high_watermark <= self.log.log_end_offset, (
            f"high watermark {high_watermark} outside "
            f"{self.log.log_start_offset}..{self.log.log_end_offset}"
        )
        self.high_watermark = high_watermark
        self.log.producers.on_high_watermark(high_watermark)
