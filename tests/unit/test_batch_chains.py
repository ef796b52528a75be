"""How far batches follow one another: the compiled judge and its twin say the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.wire.records import Record, encode, read_header, stamp
from tidelog.wire.records.chain import Follow, compiled, follow_in_python

EPOCH = 3
FOLLOWS = [pytest.param(follow_in_python, id="python")]
if (native := compiled()) is not None:
    FOLLOWS.append(pytest.param(native, id="compiled"))


def batch(base_offset: int, count: int, epoch: int = EPOCH) -> bytearray:
    data = bytearray(encode([Record(n, 1_000 + n, b"k", b"v" * n) for n in range(count)]))
    stamp(data, 0, base_offset=base_offset, leader_epoch=epoch)
    return data


def chain(first_offset: int, counts: list[int]) -> bytearray:
    data = bytearray()
    for count in counts:
        data += batch(first_offset, count)
        first_offset += count
    return data


@pytest.mark.parametrize("follow", FOLLOWS)
class TestFollowing:
    def test_batches_that_continue_one_another_are_followed_to_the_end(self, follow: Follow):
        data = chain(10, [1, 5, 2])
        assert follow(data, 10, 100, EPOCH) == (len(data), 18)

    def test_nothing_follows_in_nothing(self, follow: Follow):
        assert follow(b"", 10, 100, EPOCH) == (0, 10)

    def test_the_first_batch_must_begin_where_it_belongs(self, follow: Follow):
        assert follow(chain(10, [1]), 9, 100, EPOCH) == (0, 9)

    def test_a_gap_ends_it(self, follow: Follow):
        first = chain(10, [2])
        assert follow(first + chain(13, [1]), 10, 100, EPOCH) == (len(first), 12)

    def test_a_batch_that_reaches_the_end_offset_is_left_out(self, follow: Follow):
        first = chain(10, [2])
        data = first + chain(12, [3])
        assert follow(data, 10, 15, EPOCH) == (len(data), 15)
        assert follow(data, 10, 14, EPOCH) == (len(first), 12)

    def test_another_leader_epoch_ends_it(self, follow: Follow):
        first = chain(0, [2])
        data = first + batch(2, 1, epoch=EPOCH + 1)
        assert follow(data, 0, 100, EPOCH) == (len(first), 2)

    def test_any_kind_of_memory_is_read(self, follow: Follow):
        data = bytes(chain(0, [1, 1]))
        padded = memoryview(b"#" + data)[1:]
        assert follow(data, 0, 9, EPOCH) == follow(padded, 0, 9, EPOCH) == (len(data), 2)


@pytest.mark.skipif(native is None, reason="not compiled here")
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 255)), max_size=3),
    st.integers(0, 400),
    st.integers(0, 20),
)
def test_both_stop_at_the_same_byte_of_broken_chains(counts, flips, torn, end_offset):
    data = chain(5, counts)
    for position, bits in flips:
        data[position % len(data)] ^= bits
    del data[max(len(data) - torn % len(data), 1) :]
    assert native is not None
    assert native(data, 5, end_offset, EPOCH) == follow_in_python(data, 5, end_offset, EPOCH)


def test_offsets_at_the_end_of_the_world_are_refused_by_both():
    data = batch(2**63 - 2, 1)
    assert read_header(data).next_offset == 2**63 - 1
    for follow in filter(None, (native, follow_in_python)):
        assert follow(data, 2**63 - 2, 2**63 - 1, EPOCH) == (len(data), 2**63 - 1)
        data[23:27] = (7).to_bytes(4, "big")
        assert follow(data, 2**63 - 2, 2**63 - 1, EPOCH) == (0, 2**63 - 2)
        data = batch(2**63 - 2, 1)
