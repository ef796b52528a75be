"""Both kernels for the same tests, and batches of every kind to feed them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from hypothesis import strategies as st

from tidelog.wire import records
from tidelog.wire.arrow import RECORD_COLUMNS_WITH_HEADERS, Selection, decode_columns, scan_batches
from tidelog.wire.kernel import choice
from tidelog.wire.records import Record

COMPILED = choice.compiled()
KERNELS = (choice.python, COMPILED)

both_kernels = pytest.mark.parametrize(
    "kernel",
    [
        choice.python,
        pytest.param(
            COMPILED,
            marks=pytest.mark.skipif(COMPILED is None, reason="python hatch_build.py was not run"),
        ),
    ],
    ids=["python", "compiled"],
)


@contextmanager
def using(kernel: choice.Kernel) -> Iterator[None]:
    """Runs what follows on this kernel."""
    before, choice.kernel = choice.kernel, kernel
    try:
        yield
    finally:
        choice.kernel = before


class Row(NamedTuple):
    """A record as a reader of columns sees it."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp_us: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...]


def rows_of(region: bytes, selection: Selection, **options: int) -> list[Row]:
    """Every selected record of a region, through the kernel in use."""
    selection = selection._replace(columns=RECORD_COLUMNS_WITH_HEADERS)
    found = []
    for piece in decode_columns(region, scan_batches(region), selection, **options):
        piece.validate(full=True)
        columns = piece.columns
        columns[5] = columns[5].cast("int64")
        for *plain, headers in zip(*(column.to_pylist() for column in columns), strict=True):
            pairs = tuple((pair["key"], pair["value"]) for pair in headers or ())
            found.append(Row(*plain, pairs))
    return found


def wanted_rows(region: bytes, selection: Selection) -> list[Row]:
    """The same, slowly, by the rules as they are written down."""
    found = []
    for position, header in records.iter_batches(region):
        if header.is_control or (header.is_transactional and _is_aborted(header, selection)):
            continue
        for record in records.decode(region, position=position):
            if not selection.from_offset <= record.offset < selection.to_offset:
                continue
            time_us = max(-(2**63), min(2**63 - 1, record.timestamp * 1000))
            headers = tuple(
                (key.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), value)
                for key, value in record.headers
            )
            place = (selection.topic, selection.partition, record.offset)
            kind = int(header.uses_log_append_time)
            found.append(Row(record.key, record.value, *place, time_us, kind, headers))
    return found


def _is_aborted(header: records.BatchHeader, selection: Selection) -> bool:
    return any(
        some.producer_id == header.producer_id
        and some.first_offset <= header.base_offset <= some.last_offset
        for some in selection.aborted
    )


# ---- chance ----


def _long(some: bytes) -> bytes:
    """Lengths of two bytes, and something to compress."""
    return some * 30


payloads = st.none() | st.binary(max_size=40) | st.binary(min_size=1, max_size=9).map(_long)
header_keys = st.text(max_size=4) | st.binary(max_size=6).map(
    lambda raw: raw.decode("utf-8", "surrogateescape")
)
record_headers = st.lists(
    st.tuples(header_keys, st.none() | st.binary(max_size=70)), max_size=3
).map(tuple)
timestamps = st.integers(0, 2**42) | st.sampled_from([-1, -(2**61), 2**61, 10**16])
record_fields = st.tuples(st.integers(1, 3), timestamps, payloads, payloads, record_headers)


@st.composite
def batches(draw: st.DrawFn, base_offset: int) -> bytes:
    """One batch of any kind; offsets may have gaps, as compaction leaves them."""
    if draw(st.integers(0, 9)) == 0:
        marker = records.EndTxnMarker(draw(st.booleans()), draw(st.integers(0, 2)), 0, 0)
        return bytes(records.encode_end_txn_marker(marker, timestamp_ms=5, base_offset=base_offset))
    offset = base_offset - 1
    rows = []
    for step, *fields in draw(st.lists(record_fields, max_size=6)):
        offset += step
        rows.append(Record(offset, *fields))
    transactional = draw(st.booleans())
    last = max(offset - base_offset, 0) + draw(st.integers(0, 2))
    return bytes(
        records.encode(
            rows,
            base_offset=base_offset,
            codec=draw(st.sampled_from(sorted(records.CODEC_NAMES))),
            leader_epoch=draw(st.integers(-1, 9)),
            producer_id=draw(st.integers(0, 2)) if transactional else -1,
            producer_epoch=0 if transactional else -1,
            base_sequence=draw(st.integers(0, 2**31 - 1)) if transactional else -1,
            transactional=transactional,
            timestamp_type=draw(st.sampled_from([0, 0, 1])),
            last_offset_delta=last,
        )
    )


@st.composite
def regions(draw: st.DrawFn, max_batches: int = 5) -> bytes:
    """Batches one after the other, with rising offsets."""
    offset = draw(st.sampled_from([0, 7, 2**31, 2**62]))
    region = b""
    for _ in range(draw(st.integers(1, max_batches))):
        batch = draw(batches(offset))
        region += batch
        offset = records.read_header(batch).next_offset + draw(st.integers(0, 2))
    return region
