"""Entries of the metadata log as record batches, and snapshots as files of them (kraft.md §3, §9).

An entry is one batch, so whatever reads Kafka's log format reads our metadata log. Everything
that is wrong with bytes is an `InvalidBatch`.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.quorum.messages import SnapshotId
from tidelog.core.types import LogEntry
from tidelog.quorum.control_codec import (
    NOBODY,
    KRaftVersion,
    SnapshotFooter,
    SnapshotHeader,
    decode_control_record,
    encode_control_record,
    with_kraft_version,
)
from tidelog.quorum.membership import Address
from tidelog.quorum.record_codec import decode_metadata, encode_metadata
from tidelog.wire.records import (
    Buffer,
    CorruptBatch,
    InvalidRecord,
    Record,
    check_crc,
    control_type_of,
    decode,
    encode,
    encode_controls,
    iter_batches,
    iter_records,
    read_header,
)

SNAPSHOT_BATCH_RECORDS = 1_000
REMEMBERED_ENTRIES = 64


class KafkaEntryCodec:
    """Implements `storage.metadata_log.EntryCodec`.

    The batch of an entry is made once: a leader sends the bytes it stored, and a follower stores
    the bytes it got, timestamp included. So the newest entries are remembered with their bytes.
    """

    __slots__ = ("_addresses", "_remembered")

    def __init__(self, addresses: Mapping[int, Address] = NOBODY) -> None:
        """`addresses` of the voters: written down with them, if they are in the log."""
        self._addresses = addresses
        self._remembered: OrderedDict[int, tuple[LogEntry, bytes]] = OrderedDict()

    def encode_entry(self, entry: LogEntry, timestamp_ms: int) -> bytes:
        """One batch, with offset and epoch stamped; the one it came as, if it came as bytes."""
        remembered = self._remembered.get(entry.offset)
        if remembered is not None and remembered[0] is entry:
            return remembered[1]
        encode_any = self._control_batch if entry.control else _metadata_batch
        batch = bytes(encode_any(entry.records, entry.offset, entry.epoch, timestamp_ms))
        self._remember(entry, batch)
        return batch

    def decode_entry(self, batch: Buffer) -> LogEntry:
        """The entry in exactly one batch."""
        header = read_header(batch)
        if header.size_bytes != len(batch):
            raise InvalidRecord(f"{len(batch)} bytes are not one batch of {header.size_bytes}")
        records = decode(batch)
        if len(records) != header.last_offset_delta + 1 or not records:
            raise InvalidRecord(
                f"{len(records)} records at {header.base_offset} to {header.last_offset}: "
                "nothing is ever taken out of a metadata log"
            )
        decode_any = _decoded_control if header.is_control else _decoded_metadata
        entry = LogEntry(
            header.base_offset, header.leader_epoch, decode_any(records), header.is_control
        )
        self._remember(entry, bytes(batch))
        return entry

    def _remember(self, entry: LogEntry, batch: bytes) -> None:
        remembered = self._remembered
        remembered[entry.offset] = (entry, batch)
        remembered.move_to_end(entry.offset)
        while len(remembered) > REMEMBERED_ENTRIES:
            remembered.popitem(last=False)

    def decode_entries(self, batches: Buffer) -> tuple[LogEntry, ...]:
        """The entries in whole batches; a torn one at the end is left out."""
        view = memoryview(batches)
        return tuple(
            self.decode_entry(view[position : position + header.size_bytes])
            for position, header in iter_batches(view)
        )

    def encode_snapshot(
        self,
        snapshot: SnapshotId,
        records: Sequence[object],
        control: Sequence[object],
        timestamp_ms: int,
    ) -> bytes:
        """The content of a snapshot file. Its offsets are its own and begin at 0, as Kafka's."""
        epoch = snapshot.epoch
        opening = (SnapshotHeader(timestamp_ms), *with_kraft_version(tuple(control)))
        content = self._control_batch(opening, 0, epoch, timestamp_ms)
        offset = len(opening)
        for first in range(0, len(records), SNAPSHOT_BATCH_RECORDS):
            some = records[first : first + SNAPSHOT_BATCH_RECORDS]
            content += _metadata_batch(some, offset, epoch, timestamp_ms)
            offset += len(some)
        content += self._control_batch((SnapshotFooter(),), offset, epoch, timestamp_ms)
        return bytes(content)

    def _control_batch(
        self, records: Sequence[object], base_offset: int, epoch: int, timestamp_ms: int
    ) -> bytearray:
        return encode_controls(
            [encode_control_record(record, self._addresses) for record in records],
            timestamp_ms=timestamp_ms,
            base_offset=base_offset,
            leader_epoch=epoch,
        )

    def decode_snapshot(
        self, content: Buffer
    ) -> tuple[tuple[MetadataRecord, ...], tuple[object, ...]]:
        """Metadata records, and what the snapshot says of the quorum (its voters)."""
        records: list[MetadataRecord] = []
        control: list[object] = []
        end = 0
        for position, header in iter_batches(content):
            if not check_crc(content, position, header):
                raise CorruptBatch(f"the checksum of the batch at byte {position} is wrong")
            if control and isinstance(control[-1], SnapshotFooter):
                raise InvalidRecord(f"a batch at byte {position}, after the snapshot's footer")
            found = list(iter_records(content, position, header))
            if header.is_control:
                control += _decoded_control(found)
            else:
                records += _decoded_metadata(found)
            end = position + header.size_bytes
        if end != len(content) or not control or not isinstance(control[-1], SnapshotFooter):
            raise InvalidRecord(f"a snapshot of {len(content)} bytes without its footer")
        if not isinstance(control[0], SnapshotHeader):
            raise InvalidRecord("a snapshot that does not begin with its header")
        framing = (SnapshotHeader, SnapshotFooter, KRaftVersion)
        return tuple(records), tuple(each for each in control if not isinstance(each, framing))


def _metadata_batch(
    records: Sequence[object], base_offset: int, epoch: int, timestamp_ms: int
) -> bytearray:
    return encode(
        [
            Record(offset, timestamp_ms, None, encode_metadata(record))  # type: ignore[arg-type]
            # opaque to the quorum, metadata records to us
            for offset, record in enumerate(records, base_offset)
        ],
        base_offset=base_offset,
        leader_epoch=epoch,
    )


def _decoded_metadata(records: list[Record]) -> tuple[MetadataRecord, ...]:
    return tuple(decode_metadata(record.value or b"") for record in records)


def _decoded_control(records: list[Record]) -> tuple[object, ...]:
    return tuple(
        decode_control_record(control_type_of(record), record.value or b"") for record in records
    )
