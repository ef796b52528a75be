"""Bytes from strangers: both kernels read what `wire.records` reads, refuse what it refuses in
the same words, and touch nothing outside.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.kernels import KERNELS, Row, batches, both_kernels, regions, rows_of, using
from tidelog.wire import records
from tidelog.wire.arrow import Selection, decode_columns, scan_batches
from tidelog.wire.kernel import choice
from tidelog.wire.records import InvalidBatch
from tidelog.wire.records.header import seal
from tidelog.wire.records.varints import write_varint

ORDERS = Selection("orders", 3)
# Drawing text is slow once, in a checkout that has never done it.
some_slow = [HealthCheck.filter_too_much, HealthCheck.too_slow]
patient = settings(max_examples=200, deadline=None, suppress_health_check=some_slow)


class Outcome(tuple[object, ...]):
    """What came of it: rows, or the kind and words of a refusal."""


def outcome(region: bytes) -> Outcome:
    try:
        return Outcome(rows_of(region, ORDERS))
    except InvalidBatch as error:
        return Outcome((type(error), str(error)))


def judged(region: bytes) -> Outcome:
    """By `wire.records`, batch by batch, in the order in which a scan would find trouble."""
    try:
        found = list(records.iter_batches(region))
        rows: list[Row] = []
        for position, header in found:
            # What a batch says of itself only counts while its checksum is right.
            if not header.is_control or not records.check_crc(region, position, header):
                batch = region[position : position + header.size_bytes]
                wanted = records.decode(batch)
                kind = int(header.uses_log_append_time)
                rows += [_row(record, kind) for record in wanted]
        return Outcome(rows)
    except InvalidBatch as error:
        return Outcome((type(error), str(error)))


def _row(record: records.Record, kind: int) -> Row:
    time_us = max(-(2**63), min(2**63 - 1, record.timestamp * 1000))
    headers = tuple(
        (key.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), value)
        for key, value in record.headers
    )
    return Row(record.key, record.value, "orders", 3, record.offset, time_us, kind, headers)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Good batches, then some bytes changed, cut out or put in; checksums often made right, so
    that the damage gets past them."""
    region = bytearray(draw(regions(max_batches=3)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(region) - 1, 0)))
        action = draw(st.sampled_from(["flip", "set", "cut", "insert"]))
        if action == "flip" and region:
            region[at] ^= 1 << draw(st.integers(0, 7))
        elif action == "set" and region:
            region[at] = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]))
        elif action == "cut":
            del region[at : at + draw(st.integers(1, 9))]
        else:
            region[at:at] = draw(st.binary(min_size=1, max_size=9))
    if draw(st.integers(0, 3)):
        _make_checksums_right(region)
    return bytes(region)


def _make_checksums_right(region: bytearray) -> None:
    try:
        for position, header in list(records.iter_batches(region)):
            seal(region, position, header)
    except InvalidBatch:
        pass


@patient
@given(damaged())
def test_damaged_batches_are_read_or_refused_alike(region: bytes) -> None:
    outcomes = []
    for kernel in KERNELS:
        if kernel is not None:
            with using(kernel):
                outcomes.append(outcome(region))
    assert outcomes == [judged(region)] * len(outcomes)


@st.composite
def batches_of_chance(draw: st.DrawFn) -> bytes:
    """A good header over records of chance, its count and checksum right."""
    body = draw(st.binary(max_size=80) | st.lists(_record_like, max_size=4).map(b"".join))
    header = records.read_header(draw(batches(0).filter(lambda some: not _is_control(some))))
    batch = bytearray(61) + body
    header = header._replace(
        attributes=header.attributes & ~7,
        batch_length=len(batch) - 12,
        record_count=draw(st.integers(0, 4)),
    )
    records.header.HEADER.pack_into(batch, 0, *header)
    seal(batch, 0, header)
    return bytes(batch)


def _is_control(batch: bytes) -> bool:
    return records.read_header(batch).is_control


_numbers = st.sampled_from([0, 1, 2, 3, 4, 5, 0x7F, 0x80, 0xFF]) | st.integers(0, 20)
_record_like = st.lists(_numbers, min_size=6, max_size=14).map(
    lambda body: bytes([2 * len(body), *body])
)


@patient
@given(batches_of_chance())
def test_records_of_chance_are_read_or_refused_alike(region: bytes) -> None:
    outcomes = []
    for kernel in KERNELS:
        if kernel is not None:
            with using(kernel):
                outcomes.append(outcome(region))
    assert outcomes == [judged(region)] * len(outcomes)


@both_kernels
@patient
@given(region=st.binary(max_size=200))
def test_noise_is_no_batch(kernel: choice.Kernel, region: bytes) -> None:
    with using(kernel):
        assert outcome(region) == judged(region)


@both_kernels
@pytest.mark.parametrize("count", [2**31 - 1, 1_000_000, 12])
def test_a_count_that_the_bytes_cannot_hold_takes_no_memory(
    kernel: choice.Kernel, count: int
) -> None:
    batch = records.encode([records.Record(n, 5, None, None) for n in range(11)])
    header = records.read_header(batch)._replace(record_count=count, last_offset_delta=count)
    records.header.HEADER.pack_into(batch, 0, *header)
    seal(batch, 0, header)
    with using(kernel), pytest.raises(InvalidBatch):
        list(decode_columns(batch, scan_batches(batch), ORDERS))


@both_kernels
@pytest.mark.parametrize("field", ["key", "value", "header key", "header value"])
@pytest.mark.parametrize("length", [1, 20, 63, 64, 5000, 2**30])
def test_a_length_that_leaves_its_record_is_not_followed(
    kernel: choice.Kernel, field: str, length: int
) -> None:
    """The last field of the last record, so that whoever follows it leaves the buffer."""
    claimed = bytearray()
    write_varint(claimed, length)
    before = {"key": b"", "value": b"\1", "header key": b"\1\1\2", "header value": b"\1\1\2\2h"}
    body = b"\0\0\0" + before[field] + claimed
    body += b"\0" * max(0, 6 - len(body)) if field in ("key", "value") else b""
    batch = records.encode([records.Record(0, 5, None, None)])[:61] + bytes([2 * len(body)]) + body
    header = records.read_header(batch)._replace(batch_length=len(batch) - 12)
    records.header.HEADER.pack_into(batch, 0, *header)
    seal(batch, 0, header)
    with using(kernel):
        assert outcome(bytes(batch)) == judged(bytes(batch))
