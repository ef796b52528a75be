"""Each anomaly of a client history: one history that shows it, one that only looks like it."""

import pytest

from tidelog.sim import history as h
from tidelog.sim.history import (
    FAIL,
    INFO,
    OK,
    Assign,
    Observed,
    Operation,
    Poll,
    Read,
    Send,
    Step,
    Subscribe,
)

P = "orders-0"


def sent(value, offset=None, *, by=1, outcome=OK, **more):
    return Operation(by, outcome, (Send(P, value, offset),), **more)


def polled(*reads, by=9, outcome=OK, **more):
    """Reads as (offset, value)."""
    return Operation(by, outcome, (Poll(tuple(Read(P, *each) for each in reads)),), **more)


def transaction(*steps: Step, by=1, outcome=OK):
    return Operation(by, outcome, steps, transactional=True)


def kinds(found):
    return [anomaly.kind for anomaly in found]


def test_an_offset_seen_with_two_values_is_inconsistent():
    history = [sent(100, 0), polled((0, 200))]
    assert kinds(h.inconsistent_offsets(Observed(history))) == ["inconsistent-offsets"]


def test_an_offset_promised_only_by_one_broker_may_be_written_anew():
    history = [sent(100, 0, acks_all=False), polled((0, 200)), polled((0, 200), by=8)]
    assert h.inconsistent_offsets(Observed(history)) == []


def test_a_value_read_over_and_never_read_is_lost():
    history = [sent(100, 0), sent(101, 1), polled((1, 101))]
    found = h.lost_writes(Observed(history))
    assert kinds(found) == ["lost-write"]
    assert "100" in found[0].text


def test_a_value_beyond_what_anybody_read_is_not_lost_yet():
    history = [sent(100, 0), sent(101, 1), polled((0, 100))]
    assert h.lost_writes(Observed(history)) == []


def test_a_write_of_unknown_outcome_is_lost_once_its_transaction_was_seen():
    half_seen = transaction(Send(P, 100, 0), Send(P, 101, 1), outcome=INFO)
    assert kinds(h.lost_writes(Observed([half_seen, polled((1, 101))]))) == ["lost-write"]


def test_a_write_of_unknown_outcome_alone_may_be_missing():
    history = [sent(100, 0, outcome=INFO), sent(101, 1), polled((1, 101))]
    assert h.lost_writes(Observed(history)) == []


def test_an_acknowledged_value_in_no_poll_is_unseen():
    assert kinds(h.unseen(Observed([sent(100, 0)]))) == ["unseen"]


def test_a_value_that_was_never_acknowledged_need_not_be_seen():
    history = [sent(100, outcome=INFO), sent(101, 1, acks_all=False)]
    assert h.unseen(Observed(history)) == []


def test_a_value_at_two_offsets_is_a_duplicate():
    history = [sent(100, 0), polled((0, 100), (1, 100))]
    assert kinds(h.duplicates(Observed(history))) == ["duplicate"]


def test_a_producer_without_idempotence_may_repeat_itself():
    history = [sent(100, 0, idempotent=False), polled((0, 100), (1, 100))]
    assert h.duplicates(Observed(history)) == []


def test_two_consumers_reading_one_value_is_no_duplicate():
    history = [sent(100, 0), polled((0, 100)), polled((0, 100), by=8)]
    assert h.duplicates(Observed(history)) == []


def test_reading_a_value_whose_writer_failed_is_an_aborted_read():
    history = [sent(100, outcome=FAIL), polled((0, 100))]
    assert kinds(h.aborted_reads(Observed(history))) == ["aborted-read"]


def test_reading_a_value_of_unknown_outcome_is_allowed():
    history = [sent(100, outcome=INFO), polled((0, 100))]
    assert h.aborted_reads(Observed(history)) == []


def test_a_transaction_that_polls_its_own_write_read_too_early():
    history = [transaction(Send(P, 100, 0), Poll((Read(P, 0, 100),)))]
    assert kinds(h.precommitted_reads(Observed(history))) == ["precommitted-read"]


def test_polling_before_writing_is_no_precommitted_read():
    history = [sent(99, 0), transaction(Poll((Read(P, 0, 99),)), Send(P, 100, 1))]
    assert h.precommitted_reads(Observed(history)) == []


def test_a_consumer_that_jumps_over_an_existing_value_skips():
    history = [sent(101, 1), polled((0, 100)), polled((2, 102))]
    assert kinds(h.poll_skips(Observed(history))) == ["poll-skip"]
    inside = [sent(101, 1), polled((0, 100), (2, 102))]
    assert kinds(h.poll_skips(Observed(inside))) == ["int-poll-skip"]


def test_a_jump_over_offsets_without_values_is_no_skip():
    history = [sent(100, 0), polled((0, 100)), polled((2, 102))]
    assert h.poll_skips(Observed(history)) == []


def test_a_jump_after_an_assignment_or_a_rebalance_is_no_skip():
    seek = Operation(9, OK, (Assign(),))
    assert h.poll_skips(Observed([sent(101, 1), polled((0, 100)), seek, polled((2, 102))])) == []
    join = Operation(9, OK, (Subscribe(),))
    grouped = [join, sent(101, 1), polled((0, 100)), polled((2, 102))]
    assert h.poll_skips(Observed(grouped)) == []


def test_a_subscription_does_not_excuse_a_jump_inside_one_poll():
    join = Operation(9, OK, (Subscribe(),))
    history = [join, sent(101, 1), polled((0, 100), (2, 102))]
    assert kinds(h.poll_skips(Observed(history))) == ["int-poll-skip"]


def test_a_consumer_that_goes_back_or_stays_is_not_monotonic():
    assert kinds(h.nonmonotonic_polls(Observed([polled((1, 101)), polled((0, 100))]))) == [
        "nonmonotonic-poll"
    ]
    assert kinds(h.nonmonotonic_polls(Observed([polled((1, 101), (1, 101))]))) == [
        "int-nonmonotonic-poll"
    ]


def test_another_consumer_may_be_further_back():
    history = [polled((1, 101)), polled((0, 100), by=8)]
    assert h.nonmonotonic_polls(Observed(history)) == []


def test_a_poll_of_unknown_outcome_moves_nobody():
    history = [polled((1, 101)), polled((0, 100), outcome=INFO), polled((2, 102))]
    assert h.nonmonotonic_polls(Observed(history)) == []


def test_sends_of_one_producer_out_of_order_are_not_monotonic():
    assert kinds(h.nonmonotonic_sends(Observed([sent(100, 5), sent(101, 4)]))) == [
        "nonmonotonic-send"
    ]
    together = Operation(1, OK, (Send(P, 100, 5), Send(P, 101, 4)))
    assert kinds(h.nonmonotonic_sends(Observed([together]))) == ["int-nonmonotonic-send"]


def test_sends_of_two_producers_have_no_order():
    assert h.nonmonotonic_sends(Observed([sent(100, 5), sent(101, 4, by=2)])) == []
    assert h.nonmonotonic_sends(Observed([sent(100, 5), sent(101, outcome=INFO)])) == []


def test_another_writer_between_two_sends_of_a_transaction_is_only_counted():
    both = transaction(Send(P, 100, 0), Send(P, 102, 2))
    assert kinds(h.interleaved_sends(Observed([both, sent(101, 1, by=2)]))) == ["int-send-skip"]
    assert h.interleaved_sends(Observed([both])) == []
    assert h.interleaved_sends not in h.NEVER


def test_transactions_that_read_from_each_other_form_a_cycle():
    one = transaction(Send(P, 100, 0), Poll((Read(P, 1, 101),)))
    other = transaction(Send(P, 101, 1), Poll((Read(P, 0, 100),)), by=2)
    assert kinds(h.write_read_cycles(Observed([one, other]))) == ["write-read-cycle"]


def test_a_chain_of_reads_is_no_cycle():
    one = transaction(Send(P, 100, 0))
    two = transaction(Poll((Read(P, 0, 100),)), Send(P, 101, 1), by=2)
    three = transaction(Poll((Read(P, 0, 100), Read(P, 1, 101))), by=3)
    assert h.write_read_cycles(Observed([one, two, three])) == []


def test_a_final_phase_without_success_is_stuck():
    history = [sent(100, 0, began_ms=10), sent(101, outcome=INFO, began_ms=1_000)]
    assert kinds(h.stuck(Observed(history), 500)) == ["stuck"]


def test_one_success_in_the_final_phase_is_enough():
    history = [sent(101, outcome=INFO, began_ms=1_000), sent(102, 1, began_ms=2_000)]
    assert h.stuck(Observed(history), 500) == []
    assert h.stuck(Observed(history), 5_000) == []


def test_lag_is_from_acknowledgement_to_first_poll():
    history = [
        sent(100, 0, ended_ms=10),
        polled((0, 100), ended_ms=70),
        polled((0, 100), by=8, ended_ms=900),
        sent(101, 1, ended_ms=20),
    ]
    assert h.worst_lag_ms(Observed(history)) == 60


def test_an_ordinary_history_has_no_anomaly():
    history = [
        Operation(9, OK, (Assign(),)),
        sent(100, 0),
        sent(200, 1, by=2),
        sent(101, outcome=INFO),
        polled((0, 100), (1, 200)),
        sent(101, 2),
        polled((2, 101)),
        sent(300, outcome=FAIL, by=2),
    ]
    assert h.check(history) == []


@pytest.mark.parametrize("find", h.NEVER)
def test_an_empty_history_shows_nothing(find):
    assert find(Observed([])) == []
