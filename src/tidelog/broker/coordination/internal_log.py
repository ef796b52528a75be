"""The log of an internal partition that this broker leads, as its coordinator uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.coordinators.shard import AppendFailed
from tidelog.core.coordination import Write
from tidelog.storage.errors import StorageError
from tidelog.wire.records import Record, encode

if TYPE_CHECKING:
    from tidelog.broker.logs.mending import Mending
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.coordinators.shards import RecordCodec
    from tidelog.core.replication.leader import LeaderReplica
    from tidelog.host.ports import Clock


class InternalLog:
    """A `coordinators.shards.LedLog`. It works for one leader epoch and then refuses."""

    __slots__ = (
        "_clock",
        "_codec",
        "_hosted",
        "_mending",
        "_replicas",
        "_role",
        "leader_epoch",
    )

    def __init__(
        self,
        hosted: Hosted,
        role: LeaderReplica,
        codec: RecordCodec,
        replicas: Replicas,
        mending: Mending,
        *,
        clock: Clock,
    ) -> None:
        self._replicas = replicas
        self._mending = mending
        self._clock = clock
        self._hosted = hosted
        self._role = role
        self._codec = codec
        self.leader_epoch = hosted.replica.leader_epoch

    @property
    def start_offset(self) -> int:
        return self._hosted.log.log_start_offset

    def end_offset(self) -> int:
        return self._hosted.log.log_end_offset

    def committed_offset(self) -> int:
        return self._hosted.replica.high_watermark

    def may_append(self) -> bool:
        return (
            self._role.leads()
            and self._hosted.replica.leader_epoch == self.leader_epoch
            and self._role.enough_replicas_to_append()
        )

    def read(self, from_offset: int, max_bytes: int) -> list[memoryview]:
        log = self._hosted.log
        # Retention does not touch compacted logs, but somebody may have deleted records.
        start = max(from_offset, log.log_start_offset)
        try:
            return log.read(start, log.log_end_offset, max_bytes)
        except StorageError as error:
            self._mending.found(self._hosted, error)
            raise

    def append(self, write: Write) -> int:
        hosted, role = self._hosted, self._role
        assert role.leads(), f"{hosted} is led by somebody else"
        try:
            appended = hosted.log.append_as_leader(self._batch(write), self.leader_epoch)
        except StorageError as error:
            self._replicas.directories.on_error(hosted.directory, error)
            raise AppendFailed(str(error)) from error
        self._replicas.appended_by_leader(hosted, role, appended.base_offset)
        return hosted.log.log_end_offset

    def _batch(self, write: Write) -> bytearray:
        wall_ms = self._clock.wall_ms()
        records = [
            Record(offset, wall_ms, *self._codec.encode(record))
            for offset, record in enumerate(write.records)
        ]
        if write.stamp is None:
            return encode(records)
        return encode(
            records,
            transactional=True,
            producer_id=write.stamp.producer_id,
            producer_epoch=write.stamp.producer_epoch,
        )
