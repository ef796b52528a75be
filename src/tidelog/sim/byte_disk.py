"""A node's disks at byte depth: real log directories on virtual disks.

The replicas live in a `storage.LogDirectory` on one disk, `quorum-state` lives on another, so
that the data disk can be replaced. The metadata log itself stays a list of objects, and so does
the mark by which an incarnation with synced acknowledgements is known to be intact; everything
else that a restart finds is read from files: records, indexes, epochs, producers, the
checkpoints and the clean-shutdown marker.

A process crash opens the same disk again, with whatever was in the page cache. A loss of power
leaves one of the disks that `sim.disk` allows. After each, what is found is told to the judge.
"""

import errno
from collections.abc import Callable

from tidelog.core.quorum.messages import VoterKey
from tidelog.core.quorum.state import QuorumState
from tidelog.core.types import NO_EPOCH, PartitionId
from tidelog.sim.byte_log import ByteLog
from tidelog.sim.disk import CrashKind, SimDisk
from tidelog.sim.log_check import log_faults
from tidelog.sim.node_disk import NodeDisk
from tidelog.sim.recovery_facts import POWER_LOSS, RESTART, Found, Recovery, Written
from tidelog.storage import checkpoints
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.config import LogConfig
from tidelog.storage.directory_names import parse_directory
from tidelog.storage.errors import CorruptSegment, NoSpace
from tidelog.storage.log import Log
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.meta_properties import MetaProperties, format_directory
from tidelog.storage.quorum_state_file import FILE_NAME, read_quorum_state, write_quorum_state

CLUSTER_ID = "sim"
_ID_BYTES = 16

Hear = Callable[[Recovery], None]


class ByteNodeDisk(NodeDisk):
    """Survives the process. Owner of the virtual disks and of what is open on them."""

    __slots__ = (
        "_condemned",
        "_config",
        "_directory",
        "_hear",
        "_metadata_disk",
        "_names",
        "_node_id",
        "disk",
        "full",
        "sync_fails",
    )

    logs: dict[PartitionId, ByteLog]  # type: ignore[assignment]  # narrower: all are bytes here

    def __init__(
        self, node_id: int, config: LogConfig, hear: Hear, *, quorum_state: QuorumState
    ) -> None:
        self._metadata_disk = SimDisk()
        super().__init__(fsync=config.durability == "fsync", quorum_state=quorum_state)
        self._node_id = node_id
        self._config = config
        self._hear = hear
        self._names: dict[PartitionId, PartitionName] = {}
        self._condemned: dict[PartitionId, int] = {}
        self.full = False
        self.sync_fails = False
        self._format()

    def _format(self) -> None:
        self.disk = SimDisk()
        directory_id = b"data-%d" % self._node_id
        format_directory(
            self.disk, MetaProperties(CLUSTER_ID, self._node_id, directory_id.ljust(_ID_BYTES))
        )
        self._directory = self._open_directory()

    def _open_directory(self) -> LogDirectory:
        return LogDirectory.open(
            self.disk, self._config_of, cluster_id=CLUSTER_ID, node_id=self._node_id
        )

    def _config_of(self, _: str) -> LogConfig:
        return self._config

    # -- logs

    def log(self, partition: PartitionId, topic: str) -> ByteLog:
        found = self.logs.get(partition)
        if found is None:
            name = (topic, partition.partition)
            self._set_aside_namesake(name)
            found = ByteLog(self._directory.create_log(name, partition.topic_id))
            self.logs[partition] = found
            self._names[partition] = name
        return found

    def _set_aside_namesake(self, name: PartitionName) -> None:
        """A topic of the same name was deleted while this node was away: its records must
        neither be served nor be continued (rule 20)."""
        if name in self._directory.topic_ids:
            old = PartitionId(self._directory.topic_ids[name], name[1])
            self._forget(old)
            self._directory.set_aside_stray(name)

    def remove_log(self, partition: PartitionId) -> None:
        name = self._forget(partition)
        if name is not None:
            self._directory.delete_log(name)

    def _forget(self, partition: PartitionId) -> PartitionName | None:
        """Nothing of it is owed any more, whatever a crash leaves of it."""
        super().remove_log(partition)
        self._condemned.pop(partition, None)
        return self._names.pop(partition, None)

    def bytes_of(self, partition: PartitionId) -> Log:
        return self._directory.logs[self._names[partition]]

    # -- what is written beside the records

    @property
    def quorum_state(self) -> QuorumState:
        stored = read_quorum_state(self._metadata_disk, FILE_NAME)
        assert stored is not None, f"node {self._node_id} lost its quorum state"
        voted = stored.voted
        if voted is not None:
            voted = VoterKey(voted.node_id, voted.directory_id.rstrip(b"\0"))
        return QuorumState(stored.epoch, stored.leader_id, voted)

    @quorum_state.setter
    def quorum_state(self, state: QuorumState) -> None:
        voted = state.voted
        if voted is not None:
            voted = VoterKey(voted.node_id, voted.directory_id.ljust(_ID_BYTES, b"\0"))
        stored = (state.epoch, state.leader_id, voted)
        write_quorum_state(self._metadata_disk, FILE_NAME, stored)

    def store_checkpoints(self) -> None:
        """On a full disk the old ones stay; they are still true."""
        try:
            self._directory.checkpoint_high_watermarks(self._named_high_watermarks())
            self._directory.unstored.store_all()
            self._directory.checkpoint_recovery_points()
            self._directory.checkpoint_log_starts()
        except NoSpace:
            return

    def _named_high_watermarks(self) -> dict[PartitionName, int]:
        marks = self.high_watermarks
        return {name: marks[p] for p, name in self._names.items() if p in marks}

    def on_clean_stop(self, broker_epoch: int) -> None:
        self._directory.close(
            broker_epoch=broker_epoch, high_watermarks=self._named_high_watermarks()
        )
        if self.fsync:
            self.intact_since_epoch = broker_epoch

    # -- starting again

    def reload(self) -> None:
        """A new process opens the directory. Raises what the storage raises: then it does not
        start, and nothing is changed that a later attempt would miss."""
        self._open(RESTART, {p: log.written(power_loss=False) for p, log in self.logs.items()})
        self.raft_log.sync()

    def cut_power(self, kept_permille: int, draw: Callable[[int], int]) -> int:
        """Any of the disks that may be left, drawn effect by effect. It is recovered at once:
        what is on the disk of a stopped node can be looked at."""
        ends = {partition: log.log_end_offset for partition, log in self.logs.items()}
        written = {p: log.written(power_loss=True) for p, log in self.logs.items()}
        self.disk = self.disk.crash(CrashKind.POWER_LOSS, draw)
        self._metadata_disk = self._metadata_disk.crash(CrashKind.POWER_LOSS, draw)
        self.sync_fails = False
        self._open(POWER_LOSS, written)
        self._lose_metadata_tail(kept_permille)
        if self.full:
            self.fill(0)
        return sum(
            max(0, ends[p] - log.log_end_offset) for p, log in self.logs.items() if p in ends
        )

    def _open(self, cause: str, written: dict[PartitionId, Written]) -> None:
        self._directory = directory = self._open_directory()
        if not self.fsync:
            stopped = directory.broker_epoch_at_stop
            self.intact_since_epoch = NO_EPOCH if stopped is None else stopped
        refused = self._repair(directory)
        # What a former process left in the page cache counts only once it is on the disk.
        directory.sync_dirty()
        for partition, error in self._take_up(directory).items():
            refused[partition] = (f"cannot be read: {error}",)
        for partition, before in written.items():
            self._hear(self._recovery(cause, partition, before, refused.get(partition, ())))
        self._condemned.clear()

    def _repair(self, directory: LogDirectory) -> dict[PartitionId, tuple[str, ...]]:
        """Cut before every flipped bit or lost file that was found: the ledger lets one happen
        only where others have the records. Whoever cuts has lost records, so it may not claim to
        be intact. A log that is refused without such a fault stays refused, and is told about."""
        refused: dict[PartitionId, tuple[str, ...]] = {}
        for name, error in list(directory.refused.items()):
            partition = PartitionId(directory.topic_ids[name], name[1])
            known = self.logs.get(partition)
            if known is None or known.rotten_from is None:
                refused[partition] = (f"refused: {error}",)
                continue
            directory.repair(name)
            self._condemned.setdefault(partition, error.offset)
        for partition, offset in self._condemned.items():
            directory.logs[self._names[partition]].truncate_to(offset)
        if self._condemned:
            self.intact_since_epoch = NO_EPOCH
        return refused

    def _take_up(self, directory: LogDirectory) -> dict[PartitionId, CorruptSegment]:
        """Go on with the logs that were opened; those that cannot be read to their end."""
        logs: dict[PartitionId, ByteLog] = {}
        unreadable: dict[PartitionId, CorruptSegment] = {}
        self._names = {}
        for name, log in directory.logs.items():
            partition = PartitionId(directory.topic_ids[name], name[1])
            known = self.logs.get(partition)
            try:
                if known is None:
                    known = ByteLog(log)
                else:
                    known.reopened(log)
            except CorruptSegment as error:
                unreadable[partition] = error
                continue
            logs[partition] = known
            self._names[partition] = name
            self.high_watermarks[partition] = directory.initial_high_watermark(name)
        self.logs = logs
        return unreadable

    def _recovery(
        self, cause: str, partition: PartitionId, before: Written, faults: tuple[str, ...]
    ) -> Recovery:
        log = self.logs.get(partition)
        if log is None:
            nothing = Found([], 0, 0)
            faults = faults or ("the log is gone",)
            return Recovery(self._node_id, partition, cause, before, nothing, faults)
        stored = self.bytes_of(partition)
        if log.rotten_from is None:
            faults = (*faults, *log_faults(self.disk, stored))
        return Recovery(
            self._node_id,
            partition,
            cause,
            before,
            Found(log.batches, log.log_start_offset, log.log_end_offset),
            faults,
            repaired=partition in self._condemned,
            torn=any(
                isinstance(repair.fault, CorruptSegment)
                and repair.fault.path.startswith(f"{stored.directory}/")
                for repair in self._directory.repairs
            ),
        )

    # -- faults

    def condemn(self, error: CorruptSegment) -> bool:
        """A batch that was served to nobody is bad: the next process cuts before it. False if
        no flipped bit explains it."""
        name = parse_directory(error.path.partition("/")[0])
        assert name is not None, error.path
        partition = PartitionId(self._directory.topic_ids[name], name[1])
        self._condemned[partition] = error.offset
        return self.logs[partition].rotten_from is not None

    def flip_bit(self, partition: PartitionId, *, permille: int, bit: int) -> bool:
        """In a batch below the recovery point on disk: behind it damage looks like a torn tail,
        and no storage can tell the two apart. False if there is no such batch."""
        log, stored = self.logs[partition], self.bytes_of(partition)
        points = checkpoints.read_offsets(self.disk, checkpoints.RECOVERY_POINTS)
        safe_end = points.get(self._names[partition], 0)
        safe = [batch.base_offset for batch in log.batches if batch.last_offset < safe_end]
        if not safe or log.rotten_from is not None:
            return False
        offset = safe[permille * len(safe) // 1000]
        segment = [each for each in stored.segments if each.base_offset <= offset][-1]
        found = segment.locate(offset)
        assert found is not None, f"{stored} has no batch at {offset}"
        size_bytes = found.header.size_bytes
        self.disk.flip_bit(segment.path, found.position + permille * 31 % size_bytes, bit)
        log.rotten_from = offset
        return True

    def lose_segment(self, partition: PartitionId) -> bool:
        """The first file of a log vanishes: the process goes on with it, the next one misses it.
        False where the disk does not tell where the log starts, or has no other segment."""
        log, stored = self.logs[partition], self.bytes_of(partition)
        starts = checkpoints.read_offsets(self.disk, checkpoints.LOG_STARTS)
        if log.rotten_from is not None or len(stored.segments) < 2 or self.full:
            return False
        first, second = stored.segments[:2]
        if starts.get(self._names[partition], second.base_offset) >= second.base_offset:
            return False
        self.disk.remove(first.path)
        self.disk.sync_dir(stored.directory)
        log.rotten_from = first.base_offset
        return True

    def fill(self, partial_bytes: int) -> None:
        """No space for new files or more bytes, but for a part of the next write."""
        self.full = True
        no_space = errno.ENOSPC
        self.disk.inject("write", error=no_space, lasting=True, partial_bytes=partial_bytes)
        self.disk.inject("create", error=no_space, lasting=True)

    def fail_sync(self, after: int) -> None:
        """One sync, after so many good ones, does not get its data to the disk."""
        self.sync_fails = True
        self.disk.inject("sync", after=after)

    def heal(self) -> None:
        self.full = self.sync_fails = False
        self.disk.heal()

    def complaints(self) -> list[str]:
        """At the end of a run, while the logs are open: everything that a slow reader of the
        files finds wrong, or other than the shadows say."""
        found: list[str] = []
        for partition, log in self.logs.items():
            if log.rotten_from is None:
                stored = self.bytes_of(partition)
                faults = log_faults(self.disk, stored, leftovers=True)
                if not faults and not log.is_as_stored():
                    faults = [f"{stored} does not hold what was appended"]
                found += faults
        return found

    def replace_data(self) -> None:
        super().replace_data()
        self._names = {}
        self._condemned = {}
        self.sync_fails = False
        self._format()
        if self.full:
            self.fill(0)
