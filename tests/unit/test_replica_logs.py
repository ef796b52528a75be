"""Copies on disk are compared batch by batch, whatever their segments look like."""

import pytest

from tidelog.audit import replica_logs
from tidelog.wire.records import Record, encode, stamp


def batch(base_offset, *values, epoch=0):
    content = bytearray(
        encode([Record(place, 0, None, value) for place, value in enumerate(values)])
    )
    stamp(content, 0, base_offset=base_offset, leader_epoch=epoch)
    return bytes(content)


FIRST, SECOND, THIRD = batch(0, b"a", b"b"), batch(2, b"c"), batch(3, b"d", epoch=1)


@pytest.fixture
def copies(tmp_path):
    def make(**segments_by_node):
        data = {}
        for node, segments in segments_by_node.items():
            data[int(node[1:])] = tmp_path / node
            directory = tmp_path / node / "orders-0"
            directory.mkdir(parents=True)
            for base, content in segments.items():
                (directory / f"{int(base[1:]):020d}.log").write_bytes(content)
        return data

    return make


def test_equal_batches_in_different_segments_are_equal(copies):
    data = copies(n1={"b0": FIRST + SECOND + THIRD}, n2={"b0": FIRST, "b2": SECOND + THIRD})
    compared = replica_logs.compare(data, "orders", 0, 4)
    assert compared.equal
    assert compared.compared_bytes == len(FIRST + SECOND + THIRD)


@pytest.mark.parametrize(
    ("other", "offset"),
    [
        (FIRST + batch(2, b"C"), 2),
        (FIRST + batch(2, b"c", epoch=1), 2),
        (FIRST, 2),
        (b"", 0),
    ],
)
def test_other_bytes_another_epoch_and_missing_batches_are_differences(copies, other, offset):
    data = copies(n1={"b0": FIRST + SECOND}, n2={"b0": FIRST + SECOND}, n3={"b0": other})
    compared = replica_logs.compare(data, "orders", 0, 3)
    assert compared.differences == (f"orders-0: nodes 1 and 3 differ from offset {offset} on",)


def test_what_lies_above_the_watermark_may_differ(copies):
    data = copies(n1={"b0": FIRST + SECOND}, n2={"b0": FIRST + batch(2, b"C") + b"\0\0\0torn"})
    assert replica_logs.compare(data, "orders", 0, 2).equal


def test_copies_that_all_miss_committed_records_are_not_equal(copies):
    data = copies(n1={"b0": FIRST}, n2={"b0": FIRST})
    compared = replica_logs.compare(data, "orders", 0, 3)
    assert compared.differences == ("orders-0: node 1 ends at 2, 3 is committed",)
