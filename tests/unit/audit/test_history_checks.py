"""Each anomaly of a history: one that shows it, and one that only looks like it."""

import pytest

from support.histories import History
from tidelog.audit.history.checks import check
from tidelog.audit.history.findings import ANOMALIES, SHOWN_OF_EACH, UNSEEN
from tidelog.audit.history.rows import BadHistory


def counts(history: History) -> dict[str, int]:
    return check(history.rows).counts


def test_what_was_acknowledged_and_read_in_order_is_clean():
    history = History().sent(1, 0).sent(2, 1).polled((0, 1), (1, 2)).drained((0, 1), (1, 2))
    found = check(history.rows)
    assert found.holds
    assert found.counts == {}
    assert found.line() == (
        "acknowledged 2 · read back 2 · lost 0 · duplicated 0 · out of order 0"
        " · aborted but visible 0"
    )


def test_an_offset_seen_with_two_values_is_inconsistent():
    assert (
        counts(History().sent(1, 0).polled((0, 2)).drained((0, 2)).sent(2))["inconsistent-offsets"]
        == 1
    )


def test_the_offset_of_a_write_nobody_vouches_for_may_hold_another():
    history = History().sent(1, 0, outcome="info").sent(2, 0).polled((0, 2))
    assert counts(history) == {}


def test_a_value_read_over_and_never_read_is_lost():
    found = check(History().sent(1, 0).sent(2, 1, by="w2").polled((1, 2)).rows)
    assert found.counts == {"lost-write": 1}
    (finding,) = found.shown
    assert finding.told() == (
        "lost-write: orders-0 offset 0 (w, operation 0): 1 was acknowledged and never read,"
        " though others were read up to 1"
    )


def test_a_value_beyond_what_anybody_read_may_still_come_until_the_last_read():
    history = History().sent(1, 0).sent(2, 1).polled((0, 1))
    found = check(history.rows)
    assert found.counts == {UNSEEN: 1}
    assert found.holds
    assert "not read yet 1" in found.line()
    found = check(history.drained((0, 1)).rows)
    assert not found.holds
    assert found.lost == 1


def test_a_write_of_unknown_outcome_is_lost_once_its_transaction_was_seen():
    history = History().transaction(("send", 1, 0), ("send", 2, 1), outcome="info").polled((1, 2))
    assert counts(history) == {"lost-write": 1}


def test_a_write_of_unknown_outcome_alone_may_be_missing():
    history = History().sent(1, 0, outcome="info").sent(2, 1).polled((1, 2)).drained((1, 2))
    assert check(history.rows).holds


def test_what_was_deleted_on_purpose_is_not_lost_nor_skipped():
    history = History().sent(1, 0).sent(2, 1).sent(3, 2).polled((0, 1)).polled((2, 3))
    assert set(counts(history)) == {"lost-write", "poll-skip"}
    assert counts(history.log_start(2).drained((2, 3))) == {}


def test_a_value_at_two_offsets_is_a_duplicate():
    found = check(History().sent(1, 0).polled((0, 1), (1, 1)).rows)
    assert found.counts == {"duplicate": 1}
    assert (found.shown[0].offset, found.shown[0].other) == (1, 0)


def test_a_value_that_is_not_where_it_was_acknowledged_is_a_duplicate():
    assert counts(History().sent(1, 0).polled((4, 1))) == {"duplicate": 1}


def test_the_same_value_in_two_partitions_is_none():
    assert counts(History().sent(1, 0).sent(1, 0, partition=1).polled((0, 1))) == {UNSEEN: 1}


def test_a_value_of_an_aborted_transaction_must_not_be_read():
    history = History().transaction(("send", 1, 0), outcome="fail").polled((0, 1), by="r1")
    found = check(history.polled((0, 1), by="r2").drained((0, 1)).rows)
    assert found.counts == {"aborted-read": 1}
    assert found.shown[0].client == "drain"  # the first of its readers by name
    assert "aborted but visible 1" in found.line()


def test_a_value_of_unknown_outcome_may_be_read():
    assert counts(History().transaction(("send", 1, 0), outcome="info").polled((0, 1))) == {}


def test_a_transaction_must_not_poll_what_it_has_not_committed():
    history = History().transaction(("send", 1, 0), ("poll", 1, 0))
    assert counts(history) == {"precommitted-read": 1}


def test_a_transaction_may_poll_what_it_committed_before():
    history = History().transaction(("send", 1, 0)).transaction(("poll", 1, 0), ("send", 2, 2))
    assert counts(history.polled((0, 1), (2, 2))) == {}


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (History().polled((0, 1), by="other").polled((1, 2), by="other"), {}),
        (History().polled((0, 1)).polled((2, 3)), {"poll-skip": 1}),
        (History().polled((0, 1), (2, 3)), {"int-poll-skip": 1}),
        (History().polled((0, 1)).polled((3, 4)), {}),
        (History().polled((0, 1)).assigned().polled((2, 3)), {}),
        (History().subscribed().polled((0, 1)).polled((2, 3)), {}),
        (History().subscribed().polled((0, 1), (2, 3)), {"int-poll-skip": 1}),
        (History().polled((0, 1)).polled((0, 1)), {"nonmonotonic-poll": 1}),
        (History().polled((2, 3), (0, 1)), {"int-nonmonotonic-poll": 1}),
        (History().polled((2, 3)).assigned().polled((0, 1)), {}),
        (History().subscribed().polled((2, 3)).polled((0, 1)), {}),
        (History().polled((2, 3)).polled((0, 1), partition=1), {}),
    ],
)
def test_a_consumer_moves_forward_over_nothing(history, expected):
    """Offset 2 exists only if somebody has seen it: gaps do not count."""
    if 3 not in {row.offset for row in history.rows}:
        history.polled((0, 1), (1, 2), (2, 3), by="witness")
    assert counts(history) == expected


def test_acknowledged_offsets_of_one_producer_rise():
    history = History().sent(1, 5).sent(2, 3).polled((3, 2), (5, 1))
    assert counts(history) == {"nonmonotonic-send": 1}
    inside = History().transaction(("send", 1, 5), ("send", 2, 3)).polled((3, 2), (5, 1))
    assert counts(inside) == {"int-nonmonotonic-send": 1}


@pytest.mark.parametrize("how", [{"by": "other"}, {"partition": 1}, {"outcome": "info"}])
def test_offsets_of_others_say_nothing_about_order(how):
    history = History().sent(1, 5).sent(2, 3, **how).polled((5, 1))
    assert "nonmonotonic-send" not in counts(history.polled((3, 2), partition=1, by="else"))


def test_transactions_that_read_from_each_other_are_a_circle():
    history = History().transaction(("send", 1, 0), ("poll", 2, 1), by="a")
    history.transaction(("send", 2, 1), ("poll", 3, 2), by="b")
    history.transaction(("send", 3, 2), ("poll", 1, 0), by="c")
    found = check(history.rows)
    assert found.counts == {"write-read-cycle": 1}
    assert found.shown[0].told() == (
        "write-read-cycle: (a, operation 0): 3 transactions have read from each other in a circle"
    )


def test_a_chain_of_transactions_is_no_circle():
    history = History()
    for number in range(5_000):
        steps = [("send", number, number)]
        if number:
            steps.insert(0, ("poll", number - 1, number - 1))
        history.transaction(*steps, by=f"t{number}")
    assert counts(history.polled((4_999, 4_999))) == {}


def test_silence_after_everything_was_healed_is_stuck():
    history = History().sent(1, 0).polled((0, 1)).healed().sent(2, outcome="info")
    assert check(history.rows).totals.stuck
    assert not check(history.sent(3, 1).rows).totals.stuck


def test_the_worst_lag_is_that_of_the_first_poll_of_a_value():
    history = History().sent(1, 0, at_us=1_000).polled((0, 1), at_us=4_000)
    history.polled((0, 1), at_us=9_000, by="later")
    assert check(history.rows).totals.worst_lag_us == 3_000


def test_values_that_nobody_of_the_history_wrote_are_counted():
    found = check(History().sent(1, 0).polled((0, 1), (1, 99)).rows)
    assert (found.totals.foreign, found.holds) == (1, True)


def test_only_the_first_few_of_each_are_shown():
    history = History()
    for number in range(50):
        history.sent(number, number)
    found = check(history.drained((60, 60)).rows)
    assert found.counts == {"lost-write": 50}
    assert [each.offset for each in found.shown] == list(range(SHOWN_OF_EACH))


def test_every_anomaly_has_words_for_its_place():
    for words in ANOMALIES.values():
        assert words.format(value=1, other=2)


@pytest.mark.parametrize(
    ("history", "words"),
    [
        (History().sent(1, 0).sent(1, 5), "1 values are written more than once"),
        (History().row(op="shout"), "1 of its rows are incomplete"),
        (History().row(op="send"), "a write has topic, partition and value"),
        (History().row(op="poll", topic="orders", partition=0, value=1), "also its offset"),
        (History().row(op="healed", outcome="perhaps"), "outcome one of ok, fail, info"),
    ],
)
def test_what_is_no_history_says_why(history, words):
    with pytest.raises(BadHistory, match=words):
        check(history.rows)
