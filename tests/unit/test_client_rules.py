"""Rules about what clients saw: silent about a sound history, and each speaks about a bad one."""

import pytest

from tidelog.sim.nodes.clients import client_rules
from tidelog.sim.nodes.clients.history import (
    ABORTED,
    ASKED,
    COMMITTED,
    OPEN,
    Began,
    GroupLog,
    History,
    Place,
    ReaderLog,
    Sent,
    Transaction,
)

INPUTS = ("inputs", 0)


def written(history, value, offset, *, writer="w0", topic="tides", once=True, found=True):
    """A record that its writer was told of, and that is where it was told."""
    number = len(history.sent)
    place = Place(topic, 0, offset)
    history.sent[value] = Sent(writer, number, topic, 0, once)
    history.acknowledged[value] = place
    if found:
        history.found[value] = [place]


def transaction_of(history, outcome, **offsets):
    """A transaction of records of `transfers`; None for a record that is not read."""
    transaction = Transaction("t0")
    transaction.outcome = outcome
    for name, offset in offsets.items():
        value = name.encode()
        transaction.values.append(value)
        history.sent[value] = Sent("t0", len(history.sent), "transfers", 0, once=True)
        if offset is not None:
            history.found[value] = [Place("transfers", 0, offset)]
    history.transactions.append(transaction)


def group_of(history, *, exactly_once=False):
    """A group that has read and committed two inputs."""
    written(history, b"a", 0, topic="inputs")
    written(history, b"b", 1, topic="inputs")
    group = history.groups["p0"] = GroupLog("p0", exactly_once=exactly_once)
    group.processed[INPUTS] = {0: None, 1: None}
    group.note_commit({INPUTS: 2})
    group.ended_at = {INPUTS: 2}
    group.note_owner(1, INPUTS, "m0")
    return group


def output(history, source, attempt, offset):
    value = source + b"@p0i0-%d" % attempt
    history.sent[value] = Sent("p0i0", attempt, "outputs", 0, once=True)
    history.found[value] = [Place("outputs", 0, offset)]


def broken(history):
    rules = []
    client_rules.judge_history(history, lambda rule, text: rules.append(rule))
    return rules


@pytest.fixture
def history():
    history = History()
    written(history, b"one", 0)
    written(history, b"two", 1)
    return history


def test_what_was_promised_and_is_found_breaks_no_rule(history):
    transaction_of(history, COMMITTED, c1=0, c2=1)
    transaction_of(history, ASKED, u1=3, u2=4)
    transaction_of(history, ASKED, v1=None, v2=None)
    transaction_of(history, ABORTED, a1=None)
    transaction_of(history, OPEN, o1=None)
    group_of(history, exactly_once=True)
    output(history, b"a", 1, 0)
    output(history, b"b", 2, 2)
    assert broken(history) == []


def test_an_acknowledged_record_that_is_gone(history):
    written(history, b"three", 2, found=False)
    assert broken(history) == [client_rules.NOT_AT_ITS_OFFSET]


def test_nothing_is_promised_where_a_loss_was_allowed(history):
    written(history, b"three", 0, topic="gambles", found=False)
    written(history, b"four", 1, topic="gambles")
    reader = ReaderLog("r0", committed=False)
    reader.reads["gambles", 0] = [(0, b"three"), (1, b"other")]
    reader.positions["gambles", 0] = 2
    history.readers.append(reader)
    assert broken(history) == [client_rules.NOT_AT_ITS_OFFSET, client_rules.TWO_VALUES]
    assert history.forfeit([("gambles", 0)]) == 1
    assert broken(history) == []
    written(history, b"five", 2, found=False)
    assert broken(history) == [client_rules.NOT_AT_ITS_OFFSET]


@pytest.mark.parametrize("promise", ["acknowledged", "written"])
def test_a_record_at_another_offset_than_its_writer_was_told(history, promise):
    told = getattr(history, promise)
    told[b"two"] = Place("tides", 0, 7)
    history.acknowledged.pop(b"two" if promise == "written" else b"", None)
    assert broken(history) == [client_rules.NOT_AT_ITS_OFFSET]


def test_only_records_that_are_not_numbered_may_be_there_twice(history):
    history.found[b"two"].append(Place("tides", 0, 2))
    assert broken(history) == [client_rules.TWICE]
    history.sent[b"two"] = history.sent[b"two"]._replace(once=False)
    assert broken(history) == []


def test_records_of_a_writer_in_another_order(history):
    written(history, b"three", 5)
    written(history, b"four", 4)
    assert broken(history) == [client_rules.ORDER]


def test_a_record_that_nobody_wrote_there(history):
    history.found[b"ghost"] = [Place("tides", 0, 9)]
    assert broken(history) == [client_rules.OUT_OF_PLACE]
    del history.found[b"ghost"]
    history.sent[b"stray"] = Sent("w1", 0, "tides", 3, once=True)
    history.found[b"stray"] = [Place("tides", 0, 9)]
    assert broken(history) == [client_rules.OUT_OF_PLACE]


@pytest.mark.parametrize(
    ("outcome", "offsets"),
    [
        (COMMITTED, {"x": 0, "y": None}),
        (ASKED, {"x": 0, "y": None}),
        (ABORTED, {"x": 0}),
        (OPEN, {"x": 0}),
    ],
)
def test_a_transaction_that_is_read_in_part_or_was_never_committed(history, outcome, offsets):
    transaction_of(history, outcome, **offsets)
    assert broken(history) == [client_rules.NOT_ATOMIC]


def reader_of(history, *reads, position=2, committed=True):
    reader = ReaderLog("r0", committed=committed)
    reader.reads["tides", 0] = list(reads)
    reader.positions["tides", 0] = position
    history.readers.append(reader)


def test_a_reader_who_was_given_everything_in_order(history):
    reader_of(history, (0, b"one"), (1, b"two"))
    assert broken(history) == []


def test_an_offset_that_held_another_value_before(history):
    reader_of(history, (0, b"one"), (1, b"other"))
    assert broken(history) == [client_rules.TWO_VALUES]


@pytest.mark.parametrize(
    "reads",
    [
        [(1, b"two")],
        [(0, b"one"), (1, b"two"), (1, b"two")],
        [(0, b"one"), (1, b"two"), (5, b"aborted")],
    ],
)
def test_a_reader_who_missed_a_record_or_was_given_too_much(history, reads):
    reader_of(history, *reads)
    assert broken(history) == [client_rules.SKIPPED]


def test_who_reads_everything_may_see_what_is_aborted_later(history):
    reader_of(history, (0, b"one"), (1, b"two"), (5, b"aborted"), committed=False)
    assert broken(history) == []


def test_a_member_that_begins_before_what_was_committed(history):
    group = group_of(history)
    group.began.append(Began("p0", INPUTS, 1, 2))
    assert broken(history) == [client_rules.OFFSET_BACK]


def test_a_committed_offset_that_is_gone_in_the_end(history):
    group = group_of(history)
    group.ended_at = {INPUTS: 1}
    assert broken(history) == [client_rules.OFFSET_BACK]


def test_a_record_that_no_member_has_read(history):
    group = group_of(history)
    del group.processed[INPUTS][0]
    assert broken(history) == [client_rules.UNREAD]


def test_two_owners_in_one_generation(history):
    group = group_of(history)
    group.note_owner(2, INPUTS, "m1")
    assert broken(history) == []
    group.note_owner(1, INPUTS, "m1")
    assert broken(history) == [client_rules.TWO_OWNERS]


def test_an_input_that_was_processed_twice_or_never(history):
    group_of(history, exactly_once=True)
    output(history, b"a", 1, 0)
    assert broken(history) == [client_rules.NOT_ONCE]
    output(history, b"b", 2, 2)
    assert broken(history) == []
    output(history, b"b", 3, 4)
    assert broken(history) == [client_rules.NOT_ONCE]


def test_an_outcast_is_granted_nothing(history):
    assert broken(history) == []
    history.granted.append("forbidden api 0")
    assert broken(history) == [client_rules.GRANTED]
