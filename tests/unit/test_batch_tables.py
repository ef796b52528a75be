"""Batches seen from outside: a row each, checksums, and a producer entered later."""

import mmap
import os
import shutil
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.batches import batch
from support.kernels import COMPILED, both_kernels, regions, using
from tidelog._native.contract import FIELDS
from tidelog.wire import records
from tidelog.wire.arrow import restamp, scan_batches, table_columns
from tidelog.wire.kernel import choice
from tidelog.wire.records import CorruptBatch, InvalidBatch, TruncatedBatch

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def wanted_table(region: bytes) -> list[tuple[int, ...]]:
    return [
        (
            position, header.size_bytes, header.base_offset, header.last_offset,
            header.leader_epoch, header.attributes, header.record_count, header.base_timestamp,
            header.max_timestamp, header.producer_id, header.producer_epoch,
            header.base_sequence, header.crc, int(records.check_crc(region, position, header)),
        )
        for position, header in records.iter_batches(region)
    ]  # fmt: skip


@both_kernels
@quick
@given(regions(), st.integers(0, 80))
def test_every_whole_batch_is_a_row_and_a_torn_tail_is_none(
    kernel: choice.Kernel, region: bytes, torn: int
) -> None:
    torn_region = region + region[:torn][: records.read_header(region).size_bytes - 1]
    with using(kernel):
        table = scan_batches(torn_region)
    assert table.end == len(region)
    rows = list(zip(*(table.column(name) for name in FIELDS), strict=True))
    assert rows == wanted_table(region)


@both_kernels
def test_nothing_is_a_table_without_rows(kernel: choice.Kernel) -> None:
    with using(kernel):
        table = scan_batches(b"")
        assert (table.rows, table.end) == (0, 0)
        assert table_columns(table).num_rows == 0


@both_kernels
def test_a_wrong_checksum_is_a_row_that_says_so(kernel: choice.Kernel) -> None:
    region = batch(b"a") + batch(b"b" * 5000, base_offset=1) + batch(b"c", base_offset=2)
    region[300] ^= 1
    with using(kernel):
        assert list(scan_batches(region).column("crc_ok")) == [1, 0, 1]
        unchecked = scan_batches(region, check_crc=False)
        assert list(unchecked.column("crc_ok")) == [-1, -1, -1]
        assert table_columns(scan_batches(region))["crc_ok"].to_pylist() == [True, False, True]
        assert table_columns(unchecked)["crc_ok"].null_count == 3


@both_kernels
@pytest.mark.parametrize(
    ("position", "byte"), [(16, 1), (8, 0xFF), (11, 3), (23, 0x80), (57, 0x80), (0, 0x80)]
)
def test_garbage_raises_what_wire_records_raises(
    kernel: choice.Kernel, position: int, byte: int
) -> None:
    region = batch(b"a") + batch(b"b", base_offset=1)
    second = len(batch(b"a"))
    region[second + position] = byte
    if position == 11:
        region[second + 8 : second + 11] = bytes(3)
    with pytest.raises(InvalidBatch) as wanted:
        list(records.iter_batches(region))
    with using(kernel), pytest.raises(InvalidBatch) as raised:
        scan_batches(region)
    assert (type(raised.value), str(raised.value)) == (type(wanted.value), str(wanted.value))


@both_kernels
def test_any_kind_of_memory_is_scanned(kernel: choice.Kernel) -> None:
    region = bytes(batch(b"a"))
    with mmap.mmap(-1, len(region)) as mapped, using(kernel):
        mapped.write(region)
        with memoryview(mapped) as view:
            for buffer in (region, bytearray(region), view, memoryview(region).cast("b")):
                assert scan_batches(buffer).rows == 1


@both_kernels
@quick
@given(regions(), st.integers(0, 2**40), st.integers(0, 2**31 - 1))
def test_restamped_batches_carry_the_producer_and_sequences_that_follow(
    kernel: choice.Kernel, region: bytes, producer: int, sequence: int
) -> None:
    stamped = bytearray(region)
    with using(kernel):
        after = restamp(stamped, producer, 3, sequence, transactional=True)
    before = dict(records.iter_batches(region))
    for position, header in records.iter_batches(stamped):
        assert records.check_crc(stamped, position, header)
        assert (header.producer_id, header.producer_epoch) == (producer, 3)
        assert header.base_sequence == sequence
        assert header.is_transactional
        assert header.codec == before[position].codec
        sequence = (header.last_sequence + 1) & 0x7FFFFFFF
        assert (
            bytes(stamped[position + 61 : position + header.size_bytes])
            == (region[position + 61 : position + header.size_bytes])
        )
    assert after == sequence


@both_kernels
def test_bytes_that_went_bad_are_not_blessed_with_a_new_checksum(kernel: choice.Kernel) -> None:
    staged = batch(b"a" * 100) + batch(b"b" * 100)
    staged[-20] ^= 4
    with using(kernel), pytest.raises(CorruptBatch, match="position 170 is wrong"):
        restamp(staged, 7, 0, 0)
    with using(kernel), pytest.raises(TruncatedBatch, match="60 bytes after the last"):
        restamp(batch(b"a") + batch(b"a")[:60], 7, 0, 0)


@pytest.mark.skipif(COMPILED is None, reason="python hatch_build.py was not run")
@quick
@given(st.binary(max_size=70), st.integers(0, 5000), st.integers(0, 9))
def test_the_checksum_is_the_same_with_and_without_the_processors_help(
    some: bytes, zeros: int, start: int
) -> None:
    import fastcrc

    from tidelog._native import decoding

    data = memoryview(some + bytes(zeros) + some)[min(start, len(some)) :]
    wanted = fastcrc.crc32.iscsi(data)
    assert decoding.crc32c_of(data) == wanted
    assert decoding.crc32c_of(data, portable=True) == wanted


def test_a_machine_with_a_compiler_runs_the_compiled_kernel() -> None:
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("there is no compiler here, the twin serves")
    assert COMPILED is not None, "run: python hatch_build.py"


@pytest.mark.parametrize(
    ("pure", "wanted"), [("1", "python"), ("", (COMPILED or choice.python).name)]
)
def test_the_environment_can_ask_for_the_twin(pure: str, wanted: str) -> None:
    code = "import tidelog.wire.kernel as k; print(k.implementation())"
    said = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TIDELOG_PURE": pure},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert said.stdout.strip() == wanted
