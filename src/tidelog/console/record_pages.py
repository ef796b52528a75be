"""Pages of records as they lie in a partition: also what consumers are never shown.

Batches are read whole. Markers and open or aborted transactions are shown for what they are.
"""

import asyncio
import json
from collections.abc import Iterator
from math import isfinite
from typing import Any, NamedTuple

from tidelog.client import Client
from tidelog.client.batch_fetch import FetchSettings, OutOfRange, Region, Span, fetch_region
from tidelog.client.offsets import EARLIEST, LATEST, find_offset
from tidelog.console.live import Document
from tidelog.wire.records import (
    ABORT,
    COMMIT,
    BatchHeader,
    InvalidBatch,
    Record,
    control_type_of,
    iter_batches,
    iter_records,
)

VALUE_SHOWN_BYTES = 4 * 1024
FETCH_BYTES = 512 * 1024
SCANNED_MOST = 20_000
SCAN_SECONDS = 4.0
NESTED_MOST = 64
OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"
_ALL = FetchSettings(committed=False, max_bytes=FETCH_BYTES, max_wait_ms=0, timeout_ms=5_000)
_DECIDED = _ALL._replace(committed=True)


class Page(NamedTuple):
    records: list[Document]
    next_offset: int
    start: int
    end: int


class Fates(NamedTuple):
    """How transactions ended, as far as it is known."""

    markers: dict[int, list[tuple[int, bool]]]
    """By producer: offsets of its markers, and whether they commit."""
    aborted: tuple[tuple[int, int, int], ...]
    """(producer, first offset, last offset)"""
    last_stable_offset: int

    def of(self, producer: int, offset: int) -> str:
        for at, commits in self.markers.get(producer, ()):
            if at > offset:
                return COMMITTED if commits else ABORTED
        if any(p == producer and first <= offset <= last for p, first, last in self.aborted):
            return ABORTED
        return COMMITTED if offset < self.last_stable_offset else OPEN


async def read_page(
    client: Client, topic: str, index: int, start: int, *, limit: int, key: bytes | None = None
) -> Page:
    """From an offset on; with a key only those that have it, as far as it was looked."""
    first = (await find_offset(client, topic, index, EARLIEST)).offset
    end = (await find_offset(client, topic, index, LATEST)).offset
    position = min(max(start, first), max(end, first))
    found: list[Document] = []
    scanned, clock = 0, asyncio.get_running_loop().time
    deadline = clock() + SCAN_SECONDS
    while position < end and len(found) < limit and scanned < SCANNED_MOST and clock() < deadline:
        span = Span(topic, index, position, end)
        try:
            region = await fetch_region(client, span, _ALL)
        except OutOfRange:
            break
        fates = await fates_of(client, span, region)
        shown = await asyncio.to_thread(list, documents(index, region, fates))
        scanned += len(shown)
        for each in shown:
            if len(found) < limit:
                position = each["offset"] + 1
                if key is None or each["key"]["hex"] == key[:VALUE_SHOWN_BYTES].hex():
                    found.append(each)
        if len(found) < limit:
            position = max(position, region.next_offset)
    return Page(found, position, first, end)


async def fates_of(client: Client, span: Span, region: Region) -> Fates:
    attributes = region.table.column("attributes") if region.table.rows else ()
    if not any(each & 0x10 for each in attributes):
        return Fates({}, (), region.high_watermark)
    markers = await asyncio.to_thread(markers_in, region)
    aborted: tuple[tuple[int, int, int], ...] = ()
    if region.last_stable_offset > span.start:
        decided = span._replace(end=min(span.end, region.last_stable_offset))
        told = await fetch_region(client, decided, _DECIDED)
        aborted = tuple((each[0], each[1], each[2]) for each in told.aborted)
    return Fates(markers, aborted, region.last_stable_offset)


def markers_in(region: Region) -> dict[int, list[tuple[int, bool]]]:
    found: dict[int, list[tuple[int, bool]]] = {}
    for at, header in iter_batches(region.records):
        if header.is_control:
            for record in iter_records(region.records, at, header):
                kind = control_type_of(record)
                if kind in (ABORT, COMMIT):
                    place = (record.offset, kind == COMMIT)
                    found.setdefault(header.producer_id, []).append(place)
    return found


def documents(index: int, region: Region, fates: Fates) -> Iterator[Document]:
    for at, header in iter_batches(region.records):
        if header.last_offset < region.from_offset:
            continue
        try:
            for record in iter_records(region.records, at, header):
                if record.offset >= region.from_offset:
                    yield document_of(index, header, record, fates)
        except InvalidBatch as reason:
            yield damaged(index, header, str(reason))


def document_of(index: int, header: BatchHeader, record: Record, fates: Fates) -> Document:
    control = None
    if header.is_control:
        kind = control_type_of(record)
        control = {ABORT: "abort", COMMIT: "commit"}.get(kind, f"type {kind}")
    transaction = None
    if header.is_transactional:
        state = fates.of(header.producer_id, record.offset)
        if control is not None:
            state = COMMITTED if control == "commit" else ABORTED
        transaction = {
            "producer_id": header.producer_id,
            "epoch": header.producer_epoch,
            "state": state,
        }
    return {
        "partition": index,
        "offset": record.offset,
        "epoch": header.leader_epoch,
        "timestamp_ms": record.timestamp,
        "key": value_of(record.key),
        "value": value_of(record.value),
        "headers": [[name, value_of(value)] for name, value in record.headers],
        "size": len(record.key or b"") + len(record.value or b""),
        "transaction": transaction,
        "control": control,
    }


def damaged(index: int, header: BatchHeader, reason: str) -> Document:
    """A batch that cannot be read is told, not hidden."""
    return {
        "partition": index,
        "offset": header.base_offset,
        "epoch": header.leader_epoch,
        "timestamp_ms": header.max_timestamp,
        "key": value_of(None),
        "value": value_of(None),
        "headers": [],
        "size": header.size_bytes,
        "transaction": None,
        "control": None,
        "problem": reason,
    }


def value_of(data: bytes | None) -> Document:
    """Bytes in every form that they have. `length` -1: null."""
    if data is None:
        return {"text": None, "hex": "", "json": None, "length": -1, "truncated": False}
    shown = bytes(data[:VALUE_SHOWN_BYTES])
    truncated = len(data) > VALUE_SHOWN_BYTES
    try:
        text: str | None = shown.decode("utf-8", "ignore" if truncated else "strict")
    except UnicodeDecodeError:
        text = None
    return {
        "text": text,
        "hex": shown.hex(),
        "json": None if truncated or text is None else parsed(text),
        "length": len(data),
        "truncated": truncated,
    }


def parsed(text: str) -> Any:
    """None unless it is an object or a list: a lone number or word is better read as it stands."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    if depth_of(text) > NESTED_MOST:
        return None
    try:
        return json.loads(text, parse_constant=str, parse_float=finite)
    except (ValueError, RecursionError):
        return None


def depth_of(text: str) -> int:
    """How deep brackets are nested; those in texts count too, which does no harm."""
    depth = deepest = 0
    for letter in text:
        if letter in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in "]}":
            depth -= 1
    return deepest


def finite(text: str) -> float | str:
    """JSON has no infinity: what is too large for a number stays a text."""
    value = float(text)
    return value if isfinite(value) else text
