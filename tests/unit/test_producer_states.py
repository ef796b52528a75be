"""Idempotence: a retry is recognised, a gap refused, and the state follows the log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.object_log import ObjectBatch, client_batch
from tidelog.core.errors import Error
from tidelog.core.replication.producers import (
    LARGEST_SEQUENCE,
    ProducerStates,
    sequence_after,
)

PRODUCER = 7


def batch(
    sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    offset: int = 0,
    producer: int = PRODUCER,
    timestamp: int = 0,
) -> ObjectBatch:
    sent = client_batch(
        tuple(range(count)),
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        timestamp=timestamp,
    )
    return sent._replace(base_offset=offset, last_offset=offset + count - 1)


def transactional(
    sequence: int, *, offset: int = 0, producer: int = PRODUCER, epoch: int = 0
) -> ObjectBatch:
    sent = batch(sequence, offset=offset, producer=producer, epoch=epoch)
    return sent._replace(is_transactional=True)


def marker(offset: int, *, producer: int = PRODUCER, epoch: int = 0) -> ObjectBatch:
    """An end-of-transaction marker as it stands in the log."""
    ended = batch(-1, offset=offset, producer=producer, epoch=epoch)
    return ended._replace(is_transactional=True, is_control=True)


def states(*batches: ObjectBatch) -> ProducerStates:
    followed = ProducerStates()
    for appended in batches:
        followed.update(appended)
    return followed


def error_of(known: ProducerStates, sent: ObjectBatch) -> Error:
    return known.check(sent).error


def test_a_batch_without_a_producer_leaves_no_trace() -> None:
    known = ProducerStates()
    plain = client_batch((1,))
    assert known.check(plain) == (Error.NONE, None)
    known.update(plain)
    assert len(known) == 0


def test_an_unknown_producer_may_start_anywhere() -> None:
    assert ProducerStates().check(batch(41)) == (Error.NONE, None)


def test_an_exact_repeat_is_answered_with_the_first_offsets() -> None:
    known = states(batch(0, 5, offset=100), batch(5, 2, offset=105))
    repeat = known.check(batch(0, 5))
    assert repeat.error is Error.NONE
    assert repeat.duplicate is not None
    assert repeat.duplicate[:4] == (0, 4, 100, 104)


def test_a_repeat_of_another_length_is_out_of_order() -> None:
    known = states(batch(0, 5, offset=100))
    assert error_of(known, batch(0, 4)) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_sequence_must_continue() -> None:
    known = states(batch(0, 5))
    assert error_of(known, batch(5)) is Error.NONE
    assert error_of(known, batch(6)) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_only_the_last_five_batches_are_remembered() -> None:
    known = states(*(batch(n, offset=n) for n in range(6)))
    assert error_of(known, batch(0)) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert known.check(batch(1)).duplicate is not None


def test_sequences_wrap_to_zero() -> None:
    known = states(batch(LARGEST_SEQUENCE - 1, 2))
    assert error_of(known, batch(0)) is Error.NONE
    spanning = states(batch(LARGEST_SEQUENCE, 3))
    assert error_of(spanning, batch(2)) is Error.NONE
    assert spanning.check(batch(LARGEST_SEQUENCE, 3)).duplicate is not None
    assert sequence_after(LARGEST_SEQUENCE, 1) == 0


def test_an_older_producer_epoch_is_fenced() -> None:
    known = states(batch(0, epoch=2))
    assert error_of(known, batch(1, epoch=1)) is Error.INVALID_PRODUCER_EPOCH


def test_a_newer_producer_epoch_starts_at_zero_and_forgets_the_old_one() -> None:
    known = states(batch(0, epoch=1), batch(1, epoch=1))
    assert error_of(known, batch(2, epoch=2)) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error_of(known, batch(0, epoch=2)) is Error.NONE
    known.update(batch(0, epoch=2, offset=2))
    entry = known.get(PRODUCER)
    assert entry is not None
    assert (entry.producer_epoch, len(entry.batches)) == (2, 1)


def test_checking_changes_nothing() -> None:
    known = states(batch(0, 3))
    for sent in (batch(0, 3), batch(3), batch(9), batch(0, epoch=1), batch(0, epoch=-1)):
        known.check(sent)
    entry = known.get(PRODUCER)
    assert entry is not None
    assert (entry.last_sequence, entry.producer_epoch, len(entry.batches)) == (2, 0, 1)


def test_what_the_leader_accepted_is_followed_without_judgement() -> None:
    known = states(batch(5, epoch=3), batch(90, epoch=2, offset=1))
    entry = known.get(PRODUCER)
    assert entry is not None
    assert (entry.producer_epoch, entry.last_sequence) == (2, 90)


def test_idle_producers_expire_but_never_inside_a_transaction() -> None:
    known = states(
        batch(0, producer=1, timestamp=0),
        batch(0, producer=2, timestamp=500),
        transactional(0, producer=3),
    )
    assert known.expire(1_000, 1_000) == 1
    assert [entry.producer_id for entry in known.entries()] == [2, 3]


# ---- transactions ----


def test_a_late_transactional_batch_opens_nothing() -> None:
    """KIP-890: after the abort nobody would ever end it."""
    known = states(transactional(0), marker(1))
    assert error_of(known, transactional(1)) is Error.INVALID_TXN_STATE
    assert known.check(transactional(1), verified=True) == (Error.NONE, None)


def test_an_open_transaction_takes_transactional_batches_only() -> None:
    known = states(transactional(0))
    assert error_of(known, transactional(1)) is Error.NONE
    assert error_of(known, batch(1)) is Error.INVALID_TXN_STATE


def test_the_oldest_open_transaction_is_the_first_unstable_offset() -> None:
    known = states(
        transactional(0, offset=10, producer=2),
        transactional(0, offset=11, producer=1),
        transactional(1, offset=12, producer=2),
    )
    assert known.first_unstable_offset(20) == 10
    assert known.update(marker(13, producer=2)) == (2, 10, 13)
    assert known.first_unstable_offset(13) == 10  # its marker is not committed yet
    assert known.first_unstable_offset(14) == 11
    known.update(marker(14, producer=1))
    assert known.first_unstable_offset(15) is None
    known.on_high_watermark(14)
    assert known.first_unstable_offset(14) == 11


def test_a_marker_without_a_transaction_ends_nothing() -> None:
    known = ProducerStates()
    assert known.update(marker(3)) is None
    assert known.first_unstable_offset(0) is None


def test_an_old_coordinator_is_fenced() -> None:
    known = states(transactional(0))
    known.update(marker(1), coordinator_epoch=5)
    check = known.check_marker
    assert check(producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=5) is Error.NONE
    assert (
        check(producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=4)
        is Error.TRANSACTION_COORDINATOR_FENCED
    )
    known.update(batch(0, epoch=1, offset=2))
    assert (
        check(producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=9)
        is Error.INVALID_PRODUCER_EPOCH
    )
    assert check(producer_id=99, producer_epoch=0, coordinator_epoch=0) is Error.NONE


def test_after_a_marker_with_a_new_epoch_the_sequence_starts_again() -> None:
    known = states(transactional(0), marker(1, epoch=1))
    assert error_of(known, batch(1, epoch=1)) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error_of(known, batch(0, epoch=1)) is Error.NONE


def test_a_batch_of_the_next_epoch_does_not_get_into_the_transaction_before_its_own() -> None:
    """KIP-890: its producer knows that the transaction has ended, only the marker is late."""
    known = states(transactional(0))
    early = transactional(0, epoch=1)
    assert error_of(known, early) is Error.INVALID_TXN_STATE
    assert known.needs_verification(early)
    known.update(marker(1, epoch=1))
    assert error_of(known, early) is Error.INVALID_TXN_STATE
    assert known.check(early, verified=True) == (Error.NONE, None)


def test_only_what_may_begin_a_transaction_here_has_to_be_verified() -> None:
    known = ProducerStates()
    assert not known.needs_verification(batch(0))
    assert known.needs_verification(transactional(0))
    known.update(transactional(0))
    assert not known.needs_verification(transactional(1, offset=1))
    known.update(marker(1))
    assert known.needs_verification(transactional(1))
    assert not known.needs_verification(transactional(0)), "a repeat is answered, not appended"


def test_a_transaction_that_ends_while_it_is_verified_is_not_opened() -> None:
    known = ProducerStates()
    token = known.verifications.begin(PRODUCER, 0)
    known.update(marker(0))
    assert not known.verifications.is_valid(PRODUCER, token)


def test_the_batch_that_opens_a_transaction_uses_its_token_up() -> None:
    known = ProducerStates()
    token = known.verifications.begin(PRODUCER, 0)
    known.update(transactional(0))
    assert not known.verifications.is_valid(PRODUCER, token)
    assert error_of(known, transactional(1, offset=1)) is Error.NONE
    known.update(marker(1))
    assert error_of(known, transactional(1, offset=2)) is Error.INVALID_TXN_STATE


def test_tokens_do_not_outlive_the_log_they_were_taken_for() -> None:
    known = ProducerStates()
    token = known.verifications.begin(PRODUCER, 0)
    known.load([])
    assert not known.verifications.is_valid(PRODUCER, token)
    token = known.verifications.begin(PRODUCER, 0)
    for _ in range(2):
        known.expire(0, 1)
    assert not known.verifications.is_valid(PRODUCER, token)


def test_the_second_batch_of_a_transaction_does_not_overtake_the_first() -> None:
    """Every transaction of a newer client begins with sequence 0: the first one is missing."""
    known = ProducerStates()
    known.verifications.begin(PRODUCER, 5, transaction_version=2)
    second = known.check(transactional(1, epoch=5), verified=True)
    assert second.error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert known.check(transactional(0, epoch=5), verified=True) == (Error.NONE, None)


def test_an_older_client_that_expired_goes_on_with_its_sequence() -> None:
    known = ProducerStates()
    known.verifications.begin(PRODUCER, 5, transaction_version=1)
    assert known.check(transactional(17, epoch=5), verified=True) == (Error.NONE, None)


# ---- markers of transactions that bump the epoch (KIP-890) ----


def marker_error(known: ProducerStates, epoch: int, version: int) -> Error:
    return known.check_marker(
        producer_id=PRODUCER, producer_epoch=epoch, coordinator_epoch=0, transaction_version=version
    )


def test_an_older_client_does_not_overtake_a_batch_that_was_refused_while_it_was_verified() -> None:
    known = ProducerStates()
    known.verifications.begin(PRODUCER, 0, sequence=4)
    known.verifications.begin(PRODUCER, 0, sequence=5)
    assert known.check(transactional(5), verified=True).error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert known.check(transactional(4), verified=True).error is Error.NONE


def test_offsets_in_a_transaction_open_it_and_leave_no_sequence_behind() -> None:
    """Coordinators of groups write them, without sequences."""
    known = ProducerStates()
    for offset in range(3):
        known.update(transactional(-1, offset=offset))
    entry = known.get(PRODUCER)
    assert entry is not None
    assert (list(entry.batches), entry.last_sequence) == ([], -1)
    assert (entry.current_txn_first_offset, known.first_unstable_offset(3)) == (0, 0)
    known.update(marker(3))
    assert known.first_unstable_offset(4) is None


def test_a_transaction_is_late_when_its_producer_was_not_heard_of_for_long() -> None:
    known = states(batch(0, timestamp=5)._replace(is_transactional=True))
    assert [known.has_late_transaction(before) for before in (5, 6)] == [False, True]
    known.update(marker(1))
    assert not known.has_late_transaction(6)


def test_a_marker_that_ends_a_transaction_has_a_larger_epoch() -> None:
    known = states(transactional(0, epoch=4))
    assert marker_error(known, 3, 2) is Error.INVALID_PRODUCER_EPOCH
    assert marker_error(known, 4, 2) is Error.INVALID_PRODUCER_EPOCH
    assert marker_error(known, 5, 2) is Error.NONE
    assert marker_error(known, 4, 1) is Error.NONE, "an older client keeps its epoch"


def test_a_repeated_marker_ends_nothing_and_does_no_harm() -> None:
    known = states(transactional(0, epoch=4), marker(1, epoch=5))
    assert marker_error(known, 5, 2) is Error.NONE
    token = known.verifications.begin(PRODUCER, 5, transaction_version=2)
    assert known.update(marker(2, epoch=5)) is None
    assert known.verifications.is_valid(PRODUCER, token)
    assert known.check(transactional(0, epoch=5), verified=True) == (Error.NONE, None)


def test_a_marker_that_comes_very_late_does_not_end_the_next_transaction() -> None:
    known = states(transactional(0, epoch=4), marker(1, epoch=5), transactional(0, epoch=5))
    assert marker_error(known, 5, 2) is Error.INVALID_PRODUCER_EPOCH
    assert marker_error(known, 6, 2) is Error.NONE


# ---- snapshots ----


def test_a_snapshot_does_not_tell_which_transactions_have_just_ended() -> None:
    known = states(transactional(0, offset=5), marker(9))
    ended = known.ended_transactions()
    assert ended == ((PRODUCER, 5, 9),)
    loaded = ProducerStates()
    loaded.load(known.entries())
    assert loaded.first_unstable_offset(7) is None
    loaded.remember_ended(ended)
    assert (loaded.first_unstable_offset(7), loaded.first_unstable_offset(10)) == (5, None)
    loaded.on_high_watermark(10)
    assert loaded.ended_transactions() == ()


def test_a_producer_that_got_a_marker_is_known_to_have_ended_a_transaction() -> None:
    known = states(transactional(0))
    assert not known.has_ended_transactions()
    known.update(marker(1), coordinator_epoch=0)
    assert known.has_ended_transactions()


def test_a_snapshot_is_a_copy_in_both_directions() -> None:
    known = states(batch(0, producer=9), batch(0, producer=3))
    snapshot = known.entries()
    assert [entry.producer_id for entry in snapshot] == [3, 9]
    known.update(batch(1, producer=9, offset=2))
    assert snapshot[1].last_sequence == 0
    loaded = ProducerStates()
    loaded.load(snapshot)
    loaded.update(batch(1, producer=3, offset=3))
    assert snapshot[0].last_sequence == 0


def test_loading_replaces_everything_and_finds_the_oldest_open_transaction() -> None:
    known = states(transactional(0, offset=5, producer=9), transactional(0, offset=6, producer=3))
    loaded = states(transactional(0, offset=1, producer=77))
    loaded.load(known.entries())
    assert loaded.get(77) is None
    assert loaded.first_unstable_offset(100) == 5
    loaded.clear()
    assert (len(loaded), loaded.first_unstable_offset(100)) == (0, None)


def test_a_control_batch_from_a_client_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="control batch"):
        ProducerStates().check(marker(0))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(1, 3)), max_size=60))
def test_no_sequence_is_ever_appended_twice(sent: list[tuple[int, int, int]]) -> None:
    """However clients retry and jump: per producer the accepted sequences are contiguous."""
    known, appended, offset = ProducerStates(), dict[int, list[int]](), 0
    for producer, sequence, count in sent:
        one = batch(sequence, count, producer=producer, offset=offset)
        error, duplicate = known.check(one)
        if error is not Error.NONE or duplicate is not None:
            if duplicate is not None:
                assert set(range(sequence, sequence + count)) <= set(appended[producer])
            continue
        known.update(one)
        offset += count
        appended.setdefault(producer, []).extend(range(sequence, sequence + count))
    for sequences in appended.values():
        assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))


@given(
    st.lists(
        st.tuples(st.sampled_from(["data", "end", "plain", "commit", "reload"]), st.integers(1, 4)),
        max_size=80,
    )
)
def test_readers_never_go_back_and_never_pass_a_transaction_that_is_not_decided(
    steps: list[tuple[str, int]],
) -> None:
    """The last stable offset of one leader, against a list of all transactions."""
    known, end, high_watermark, last_stable = ProducerStates(), 0, 0, 0
    transactions: dict[int, list[list[int]]] = {producer: [] for producer in range(1, 5)}
    for step, number in steps:
        mine = transactions[number]
        if step == "data":
            known.update(transactional(0, offset=end, producer=number))
            if not mine or len(mine[-1]) == 2:
                mine.append([end])
        elif step == "end":
            known.update(marker(end, producer=number))
            if mine and len(mine[-1]) == 1:
                mine[-1].append(end)
        elif step == "commit":
            high_watermark = min(end, high_watermark + number)
            known.on_high_watermark(high_watermark)
        elif step == "reload":
            ended = known.ended_transactions()
            known.load(known.entries())
            known.remember_ended(ended)
        end += step in ("data", "end", "plain")
        undecided = [
            first
            for first, *marked in (each for some in transactions.values() for each in some)
            if not marked or marked[0] >= high_watermark
        ]
        unstable = known.first_unstable_offset(high_watermark)
        assert unstable == min(undecided, default=None)
        stable = high_watermark if unstable is None else min(unstable, high_watermark)
        assert last_stable <= stable <= high_watermark
        last_stable = stable
