"""Entries whose records are texts, as batches: enough to test a metadata log without metadata."""

from tidelog.core.quorum.messages import SnapshotId
from tidelog.core.types import LogEntry
from tidelog.wire.records import (
    InvalidRecord,
    Record,
    decode,
    encode,
    iter_batches,
    read_header,
)

_HEADER, _FOOTER = "snapshot begins", "snapshot ends"


class TextCodec:
    """An `EntryCodec`."""

    def encode_entry(self, entry: LogEntry, timestamp_ms: int) -> bytes:
        texts = [f"{'control' if entry.control else 'plain'} {text}" for text in entry.records]
        return _batch(texts, entry.offset, entry.epoch, timestamp_ms)

    def decode_entry(self, batch: memoryview) -> LogEntry:
        header = read_header(batch)
        kinds, texts = zip(*(text.split(" ", 1) for text in _texts(batch, 0)), strict=True)
        return LogEntry(
            header.base_offset, header.leader_epoch, tuple(texts), kinds[0] == "control"
        )

    def encode_snapshot(
        self,
        snapshot: SnapshotId,
        records: tuple[object, ...],
        control: tuple[object, ...],
        timestamp_ms: int,
    ) -> bytes:
        parts = ([_HEADER, *map(str, control)], list(map(str, records)), [_FOOTER])
        return b"".join(_batch(part, 0, snapshot.epoch, timestamp_ms) for part in parts if part)

    def decode_snapshot(self, content: bytes) -> tuple[tuple[object, ...], tuple[object, ...]]:
        parts = [_texts(content, position) for position, _ in iter_batches(content)]
        if len(parts) < 2 or parts[0][0] != _HEADER or parts[-1] != [_FOOTER]:
            raise InvalidRecord("not a whole snapshot")
        records = tuple(text for part in parts[1:-1] for text in part)
        return records, tuple(parts[0][1:])


def _batch(texts: list[str], offset: int, epoch: int, timestamp_ms: int) -> bytes:
    records = [
        Record(at, timestamp_ms, None, text.encode()) for at, text in enumerate(texts, offset)
    ]
    return bytes(encode(records, base_offset=offset, leader_epoch=epoch))


def _texts(batch: bytes | memoryview, position: int) -> list[str]:
    return [bytes(each.value or b"").decode() for each in decode(batch, position=position)]
