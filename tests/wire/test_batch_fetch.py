"""Whole batches of a partition through a broker: gaps, cuts, markers, damage."""

import contextlib

import pytest

from support.loopback import run
from support.scripted_reads import TOPIC, scripted_reads
from tidelog.client.batch_fetch import (
    FetchSettings,
    GarbledAnswer,
    Span,
    aborted_ranges,
    fetch_spans,
)
from tidelog.client.errors import KafkaError
from tidelog.core.errors import Error
from tidelog.wire.kernel import scan_batches
from tidelog.wire.protocol.schemas.fetch_response import AbortedTransaction, PartitionData
from tidelog.wire.records import EndTxnMarker, Record, encode, encode_end_txn_marker

END = 100
QUICK = FetchSettings(max_wait_ms=0, timeout_ms=2_000)


def batch(first, last, **settings):
    """Records at these two offsets, and a gap between them where compaction was."""
    offsets = sorted({first, last})
    return encode([Record(each, 1, None, b"v") for each in offsets], base_offset=first, **settings)


def answer(*batches, end=END, **more):
    records = b"".join(batches)
    return PartitionData(high_watermark=end, last_stable_offset=end, records=records, **more)


def regions_of(script, *spans, settings=QUICK):
    """(from, next, batches) of every region, and where the broker was asked to read."""
    found = []

    async def story():
        async with scripted_reads(script) as (broker, client):
            regions = fetch_spans(client, [Span(TOPIC, 0, *each) for each in spans], settings)
            async with contextlib.aclosing(regions):
                async for _, region in regions:
                    found.append((region.from_offset, region.next_offset, region.table.rows))
            found.append(broker.asked)

    run(story)
    return found[:-1], found[-1]


def test_a_range_ends_with_a_batch_that_begins_behind_a_gap():
    log = {0: batch(0, 9), 10: batch(30, 39)}
    found, asked = regions_of(lambda offset: answer(log[offset]), (0, 25))
    assert found == [(0, 10, 1), (10, 40, 1)]
    assert asked == [0, 10]


def test_a_range_whose_end_was_compacted_away_ends_without_records():
    log = {0: answer(batch(0, 9)), 10: answer()}
    found, asked = regions_of(log.get, (0, 25))
    assert found == [(0, 10, 1)]
    assert asked == [0, 10, 10]


def test_a_leader_that_does_not_know_yet_how_far_readers_may_go_is_asked_again():
    late = iter([answer(end=5), answer(end=5), answer(batch(5, 9))])
    found, asked = regions_of(lambda _: next(late), (5, 10))
    assert found == [(5, 10, 1)]
    assert asked == [5, 5, 5]


def test_a_batch_that_is_cut_off_at_the_end_comes_with_the_next_answer():
    log = {0: [batch(0, 9), batch(10, 19)[:40]], 10: [batch(10, 19)]}
    found, asked = regions_of(lambda offset: answer(*log[offset]), (0, 20))
    assert found == [(0, 10, 1), (10, 20, 1)]
    assert asked == [0, 10]


def test_a_batch_that_is_never_whole_is_an_error_and_not_a_gap():
    with pytest.raises(GarbledAnswer, match="scripted-0 at offset 3: the batch there is cut off"):
        regions_of(lambda _: answer(batch(0, 9)[:70]), (3, 10))


def test_bytes_that_are_no_batch_are_told_with_their_place():
    with pytest.raises(GarbledAnswer, match="scripted-0 from offset 7: what the broker sent"):
        regions_of(lambda _: answer(b"x" * 100), (7, 10))


def test_a_leader_that_has_moved_is_looked_for_again():
    moved = PartitionData(error_code=Error.NOT_LEADER_OR_FOLLOWER)
    script = iter([moved, answer(batch(0, 9))])
    found, _ = regions_of(lambda _: next(script), (0, 10))
    assert found == [(0, 10, 1)]


def test_a_refusal_that_stays_ends_the_read():
    refused = PartitionData(error_code=Error.CORRUPT_MESSAGE)
    with pytest.raises(KafkaError, match=r"CORRUPT_MESSAGE.*scripted-0 at offset 0"):
        regions_of(lambda _: refused, (0, 10))


def test_spans_come_in_order_though_they_are_asked_for_together():
    spans = [(start, start + 10) for start in range(0, 60, 10)]
    found, asked = regions_of(lambda offset: answer(batch(offset, offset + 9)), *spans)
    assert found == [(start, end, 1) for start, end in spans]
    assert sorted(asked) == [start for start, _ in spans]


# ---- aborted transactions ----


def marker(offset, producer, *, commit=False):
    return encode_end_txn_marker(
        EndTxnMarker(commit, producer, 0, 0), timestamp_ms=1, base_offset=offset
    )


def test_an_aborted_transaction_ends_at_the_first_marker_of_its_producer():
    log = [
        batch(0, 4, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True),
        marker(5, 8),
        marker(6, 7),
        batch(7, 9, producer_id=7, producer_epoch=0, base_sequence=5, transactional=True),
        marker(10, 7, commit=True),
        batch(11, 19, producer_id=7, producer_epoch=0, base_sequence=8, transactional=True),
    ]
    table = scan_batches(b"".join(log))
    told = [(7, 0), (7, 11), (8, -5), (9, 2), (7, 30)]
    assert aborted_ranges(told, table, 20) == ((7, 0, 6), (7, 11, 19), (8, -5, 5), (9, 2, 19))


def test_transactions_are_told_anew_with_every_answer():
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)]
    settings = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    log = {
        0: answer(batch(0, 4, base_sequence=0, **settings), aborted_transactions=aborted),
        5: answer(
            batch(5, 8, base_sequence=5, **settings), marker(9, 7), aborted_transactions=aborted
        ),
    }
    seen = []

    async def story():
        async with scripted_reads(log.get) as (_, client):
            async for _, region in fetch_spans(client, [Span(TOPIC, 0, 0, 10)], QUICK):
                seen.append(region.aborted)

    run(story)
    assert seen == [((7, 0, 4),), ((7, 0, 9),)]
