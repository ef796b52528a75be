"""Frames out of bytes: whatever the pieces, whatever stops in between, however hostile."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.memory_transport import make_context, make_stream
from tidelog.host.flight import REQUEST_OVERHEAD_BYTES
from tidelog.host.frames import PAUSED_BY_OWNER, FrameLimits, charge_of, kept
from tidelog.host.network_context import SCRATCH_BYTES
from tidelog.host.ports import CloseReason

SIZES = st.one_of(
    st.integers(0, 40),
    st.sampled_from([SCRATCH_BYTES - 5, SCRATCH_BYTES - 4, SCRATCH_BYTES - 3, 3 * SCRATCH_BYTES]),
)
CHUNKS = st.one_of(
    st.integers(1, 9), st.sampled_from([100, SCRATCH_BYTES - 1, SCRATCH_BYTES, SCRATCH_BYTES + 7])
)


def frame_of(number, size):
    return bytes([number % 251]) * size


def encoded(frames):
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def pieces_of(data, sizes):
    """Cut by the sizes given; the rest is one piece."""
    position = 0
    for size in sizes:
        if position >= len(data):
            return
        yield data[position : position + size]
        position += size
    if position < len(data):
        yield data[position:]


def push_through(transport, data, stream):
    """Push everything, running callbacks whenever reading has stopped."""
    callbacks = stream._context.loop
    while data:
        pushed = transport.push(data)
        data = data[pushed:]
        if data:
            before = len(data)
            callbacks.run()
            assert transport.reading or pushed, f"stuck with {before} bytes left"
    callbacks.run()


@given(st.lists(SIZES, max_size=12), st.lists(CHUNKS, max_size=60))
@settings(deadline=None, max_examples=150)
def test_any_chunking_of_a_stream_gives_the_same_frames(sizes, chunks):
    frames = [frame_of(number, size) for number, size in enumerate(sizes)]
    owner, stream, transport = make_stream(make_context())
    for piece in pieces_of(encoded(frames), chunks):
        push_through(transport, piece, stream)
    assert owner.frames == frames
    assert stream.buffered_bytes == 0
    assert stream._context.counters.frames_in == len(frames)


@given(st.lists(SIZES, max_size=12), st.lists(CHUNKS, max_size=40), st.sets(st.integers(0, 11)))
@settings(deadline=None, max_examples=100)
def test_stopping_after_any_frames_loses_and_repeats_nothing(sizes, chunks, stops):
    frames = [frame_of(number, size) for number, size in enumerate(sizes)]
    owner, stream, transport = make_stream(make_context())

    def stop_and_go(_frame):
        if len(owner.frames) - 1 in stops:
            stream.pause(PAUSED_BY_OWNER)
            stream._context.loop.call_soon(lambda: stream.resume(PAUSED_BY_OWNER))

    owner.on_each = stop_and_go
    for piece in pieces_of(encoded(frames), chunks):
        push_through(transport, piece, stream)
    assert owner.frames == frames
    assert transport.reading


@given(st.lists(st.tuples(st.booleans(), CHUNKS), max_size=60), st.lists(SIZES, max_size=8))
@settings(deadline=None, max_examples=100)
def test_two_connections_share_the_scratch_and_nothing_else(turns, sizes):
    context = make_context()
    sides = []
    for start in (0, 100):
        frames = [frame_of(start + number, size) for number, size in enumerate(sizes)]
        sides.append([*make_stream(context), frames, encoded(frames)])
    for turn, chunk in [*turns, (False, 2**30), (True, 2**30)]:
        side = sides[turn]
        push_through(side[2], side[4][:chunk], side[1])
        side[4] = side[4][chunk:]
    for owner, _, _, frames, _ in sides:
        assert owner.frames == frames


@given(st.lists(st.integers(0, 3000), max_size=40), st.lists(st.integers(0, 3), max_size=200))
@settings(deadline=None, max_examples=100)
def test_a_node_never_holds_more_than_its_budget_and_one_frame(sizes, choices):
    """Three connections, requests answered in any order; in the end everything got through."""
    context = make_context(in_flight_bytes=4_000)
    limits = FrameLimits(in_flight_bytes=3_500)
    largest = max(sizes, default=0) + REQUEST_OVERHEAD_BYTES
    frames = [frame_of(number, size) for number, size in enumerate(sizes)]
    sides = [[*make_stream(context, limits=limits), encoded(frames), 0] for _ in range(3)]

    def turn(side, *, answer):
        owner, stream, transport, data, answered = side
        if answer and answered < len(owner.frames):
            stream.release(charge_of(len(owner.frames[answered])))
            side[4] += 1
        else:
            side[3] = data[transport.push(data) :]
        context.loop.run()
        assert context.flight.used_bytes == sum(each[1].in_flight_bytes for each in sides)
        assert context.flight.peak_bytes < 4_000 + largest
        assert stream.in_flight_bytes <= max(3_500, largest)

    for choice in choices:
        turn(sides[choice % 3], answer=choice == 3)
    while any(side[4] < len(frames) for side in sides):
        for side in sides:
            turn(side, answer=False)
            turn(side, answer=True)
    assert all(side[0].frames == frames for side in sides)
    assert context.flight.used_bytes == 0
    assert context.flight.waiting == 0


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        (-1, CloseReason.NEGATIVE_LENGTH),
        (-(2**31), CloseReason.NEGATIVE_LENGTH),
        (2**31 - 1, CloseReason.FRAME_TOO_LARGE),
        (64 * 1024 + 1, CloseReason.FRAME_TOO_LARGE),
    ],
)
def test_a_length_that_may_not_be_ends_the_connection_before_anything_is_allocated(length, reason):
    context = make_context()
    owner, stream, transport = make_stream(context, trusted=False)
    transport.push(encoded([b"sound"]) + struct.pack(">i", length) + b"x")
    assert owner.frames == [b"sound"]
    assert owner.closed is reason
    assert context.counters.closed[reason] == 1
    assert context.flight.peak_bytes == charge_of(5)
    assert stream.buffered_bytes == 0


def test_trust_lets_larger_frames_in():
    owner, stream, transport = make_stream(make_context(), trusted=False)
    owner.on_each = lambda _frame: setattr(stream, "trusted", True)
    large = b"x" * (64 * 1024 + 1)
    transport.push(encoded([b"let me in", large]))
    assert owner.frames == [b"let me in", large]


def test_a_frame_may_be_changed_in_place_without_touching_its_neighbours():
    owner, _, transport = make_stream(make_context())
    owner.on_each = lambda frame: frame.__setitem__(slice(None), bytes(len(frame)))
    transport.push(encoded([b"one", b"two"]) + struct.pack(">i", 5) + b"th")
    transport.push(b"ree" + encoded([b"four"]))
    assert owner.frames == [b"one", b"two", b"three", b"four"]


def test_only_frames_in_the_shared_scratch_are_copied_to_be_kept():
    owner, _, transport = make_stream(make_context())
    copies = []
    owner.on_each = lambda frame: copies.append((kept(frame), frame))
    transport.push(encoded([b"small"]))
    transport.push(encoded([b"large" * SCRATCH_BYTES]))
    transport.push(encoded([b"after"]))
    assert [bytes(copy[:5]) for copy, _ in copies] == [b"small", b"large", b"after"]
    assert [copy is frame for copy, frame in copies] == [False, True, False]


def test_a_large_frame_is_charged_when_it_begins_and_others_wait():
    context = make_context(in_flight_bytes=SCRATCH_BYTES)
    _, first, large = make_stream(context)
    other_owner, _, other = make_stream(context)
    large.push(struct.pack(">i", 2 * SCRATCH_BYTES))
    assert context.flight.used_bytes == charge_of(2 * SCRATCH_BYTES)
    other.push(encoded([b"me too"]))
    assert (other_owner.frames, other.reading) == ([], False)
    assert large.reading, "a frame that was granted must be read to its end"
    large.abort()
    context.loop.run()
    assert (other_owner.frames, other.reading) == ([b"me too"], True)
    assert first.in_flight_bytes == 0


def test_connections_that_wait_for_the_budget_go_on_one_after_the_other():
    context = make_context(in_flight_bytes=1_000)
    _, holder, holding = make_stream(context)
    waiters = [make_stream(context) for _ in range(3)]
    holding.push(encoded([bytes(600)]))
    for _, _, transport in waiters:
        transport.push(encoded([bytes(100)]))
    assert context.flight.waiting == 3
    holder.release(charge_of(600))
    assert context.flight.waiting == 2, "the first has not taken its share yet"
    context.loop.run()
    assert [len(owner.frames) for owner, _, _ in waiters] == [1, 1, 0], "the third does not fit"
    waiters[0][1].release(charge_of(100))
    context.loop.run()
    assert [len(owner.frames) for owner, _, _ in waiters] == [1, 1, 1]


def test_a_frame_in_many_pieces_gets_a_buffer_of_its_own_instead_of_being_copied_each_time():
    context = make_context()
    owner, stream, transport = make_stream(context)
    data = encoded([b"x" * 1_000])
    transport.push(data[:10])
    assert context.flight.used_bytes == 0
    transport.push(data[10:20])
    assert context.flight.used_bytes == charge_of(1_000)
    assert len(stream.get_buffer(-1)) == len(data) - 20
    for byte in data[20:]:
        transport.push(bytes([byte]))
    assert owner.frames == [b"x" * 1_000]


def test_half_a_frame_has_a_deadline_and_every_frame_its_own():
    context = make_context()
    owner, _, transport = make_stream(context, trusted=False)
    clock, wheel = context.wheel.clock, context.wheel
    data = encoded([b"first", b"second"])
    transport.push(data[:7])
    clock.advance(9_000)
    transport.push(data[7:12])  # the first is complete, the second has begun
    clock.advance(9_000)
    wheel.fire_due()
    assert owner.closed is None
    clock.advance(1_000)
    wheel.fire_due()
    assert owner.closed is CloseReason.HALF_FRAME
    assert len(wheel) == 0


def test_a_frame_is_not_slow_while_we_are_the_one_who_does_not_read():
    context = make_context()
    owner, stream, transport = make_stream(context, trusted=False)
    transport.push(encoded([b"half"])[:6])
    stream.pause(PAUSED_BY_OWNER)
    for _ in range(3):
        context.wheel.clock.advance(10_000)
        context.wheel.fire_due()
    assert owner.closed is None
    stream.resume(PAUSED_BY_OWNER)
    context.loop.run()
    context.wheel.clock.advance(10_000)
    context.wheel.fire_due()
    assert owner.closed is CloseReason.HALF_FRAME


def test_a_large_frame_of_a_trusted_peer_may_take_longer():
    context = make_context()
    owner, _, transport = make_stream(context)
    transport.push(struct.pack(">i", 50_000_000))
    context.wheel.clock.advance(79_999)
    context.wheel.fire_due()
    assert owner.closed is None
    context.wheel.clock.advance(1 + 5)
    context.wheel.fire_due()
    assert owner.closed is CloseReason.HALF_FRAME


def test_an_idle_connection_ends_but_not_while_it_waits_for_us():
    context = make_context()
    owner, stream, transport = make_stream(context)
    transport.push(encoded([b"a request that is parked"]))
    context.wheel.clock.advance(600_000)
    context.wheel.fire_due()
    assert owner.closed is None
    stream.release(charge_of(len(owner.frames[0])))
    context.wheel.clock.advance(600_000)
    context.wheel.fire_due()
    assert owner.closed is CloseReason.IDLE


def test_what_is_written_in_one_callback_leaves_in_one_write_and_unjoined():
    owner, stream, transport = make_stream(make_context())
    owner.on_each = lambda frame: stream.write([b"re:", bytes(frame)], 3 + len(frame))
    transport.push(encoded([b"a", b"bc"]))
    assert transport.written == [
        [struct.pack(">i", 4), b"re:", b"a", struct.pack(">i", 5), b"re:", b"bc"]
    ]
    assert stream._context.loop.idle, "nothing was left for later"
    stream.write([b"later"], 5)
    stream.write([b"still"], 5)
    assert len(transport.written) == 1
    stream._context.loop.run()
    assert len(transport.written) == 2
