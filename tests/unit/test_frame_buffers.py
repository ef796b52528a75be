"""Buffers of frames are used again, and never while somebody looks at what is in them."""

from tidelog.host.frame_buffers import (
    KEPT_MAX,
    POOLED_MAX_BYTES,
    POOLED_MIN_BYTES,
    FrameBuffers,
)


def test_a_buffer_that_nobody_looks_at_any_more_is_used_for_the_next_frame():
    buffers = FrameBuffers()
    first = buffers.take(200_000)
    memory = first.obj
    del first
    second = buffers.take(150_000)
    assert second.obj is memory
    assert len(second) == 150_000


def test_a_frame_of_which_a_part_is_kept_stays_as_it_is():
    buffers = FrameBuffers()
    frame = buffers.take(200_000)
    frame[:] = b"a" * 200_000
    part = frame[1_000:1_010]
    del frame
    following = buffers.take(200_000)
    following[:] = b"b" * 200_000
    assert bytes(part) == b"a" * 10
    del part
    assert buffers.take(200_000).obj is not following.obj


def test_a_frame_that_is_larger_than_what_is_kept_gets_its_own():
    buffers = FrameBuffers()
    memory = buffers.take(100_000).obj
    larger = buffers.take(100_001)
    assert larger.obj is not memory
    assert len(larger) == 100_001


def test_small_and_very_large_frames_leave_nothing_behind():
    buffers = FrameBuffers()
    for size_bytes in (0, 1, POOLED_MIN_BYTES - 1, POOLED_MAX_BYTES + 1):
        memory = buffers.take(size_bytes).obj
        again = buffers.take(size_bytes)
        assert len(again) == size_bytes
        assert again.obj is not memory


def test_no_more_than_a_few_are_kept_and_any_number_is_given():
    buffers = FrameBuffers()
    given = [buffers.take(100_000) for _ in range(3 * KEPT_MAX)]
    for number, frame in enumerate(given):
        frame[:] = bytes([number]) * 100_000
    assert [frame[99_999] for frame in given] == list(range(3 * KEPT_MAX))
    memories = [frame.obj for frame in given]
    del given, frame
    taken = [buffers.take(100_000) for _ in range(KEPT_MAX + 1)]
    used_again = [any(frame.obj is each for each in memories) for frame in taken]
    assert used_again == [True] * KEPT_MAX + [False]
