"""What the commands about transactions say and refuse, without a cluster."""

import pytest

from tidelog.cli.explain_stable import Held, held_command, held_sentences
from tidelog.cli.failure import CommandError
from tidelog.cli.txn.abort import Hanging, refuse_known, which
from tidelog.cli.txn.describe import as_document, fate, head_of
from tidelog.cli.txn.list_transactions import order, row_of
from tidelog.cli.txn.survey import TransactionPart
from tidelog.client.transactions import OpenProducer, TransactionView

NOW_MS = 1_769_850_000_000  # 2026-01-31T09:00:00Z


def transaction(state="Ongoing", started_ms=NOW_MS - 12_000, partitions=(("orders", 0),)):
    return TransactionView("billing-1", state, 4001, 3, 60_000, started_ms, tuple(partitions), 2)


def producer(start_offset=1030):
    return OpenProducer(4001, 3, 7, NOW_MS - 12_000, -1, start_offset)


@pytest.mark.parametrize(
    ("state", "started_ms", "words"),
    [
        ("Empty", None, "nothing open, timeout 60 s"),
        (
            "Ongoing",
            NOW_MS - 12_000,
            "open for 12 s, aborted in 48 s (at 2026-01-31T09:00:48Z) unless it ends",
        ),
        (
            "Ongoing",
            NOW_MS - 61_000,
            "open for 61 s, its timeout of 60 s is over: about to be aborted",
        ),
        ("PrepareCommit", NOW_MS - 12_000, "open for 12 s, decided: markers are being written"),
    ],
)
def test_the_fate_of_a_transaction_is_told(state, started_ms, words):
    assert fate(transaction(state, started_ms), NOW_MS) == words


def test_the_head_names_id_state_producer_and_coordinator():
    assert head_of(transaction(), NOW_MS).startswith(
        "billing-1 · Ongoing · producer 4001, epoch 3 · coordinator 2 · open for 12 s"
    )


def test_a_partition_tells_whether_readers_wait_for_this_transaction():
    parts = [
        TransactionPart("orders", 0, 1030, 1030),
        TransactionPart("orders", 1, 50, 40),
        TransactionPart("orders", 2, None, 40),
    ]
    document = as_document(transaction(), parts, NOW_MS)
    assert [each["readers"] for each in document["partitions"]] == ["wait here", None, None]
    assert document["aborted_at"] == "2026-01-31T09:00:48Z"


def test_open_transactions_come_first_and_the_oldest_of_them_at_the_top():
    young, old = transaction(started_ms=NOW_MS - 1), transaction(started_ms=NOW_MS - 9)
    closed = transaction("CompleteCommit", None)
    assert sorted([closed, young, old], key=order) == [old, young, closed]
    assert row_of(closed, NOW_MS)["age"] is None
    assert row_of(old, NOW_MS)["age_ms"] == 9


def test_a_marker_is_planned_only_for_a_transaction_that_began_there():
    other = producer(2000)
    assert which("orders", 0, [other, producer()], 1030).producer == producer()
    with pytest.raises(CommandError) as caught:
        which("orders", 0, [other, producer(None)], 1030)
    assert caught.value.why == "those that are open began at 2000"
    with pytest.raises(CommandError) as caught:
        which("orders", 0, [], 1030)
    assert caught.value.why == "none is open there"


def test_a_transaction_that_its_coordinator_knows_is_not_torn_apart():
    hanging = Hanging("orders", 0, producer())
    refuse_known(None, hanging)
    refuse_known(transaction("CompleteAbort", None, ()), hanging)
    refuse_known(transaction(partitions=(("orders", 1),)), hanging)
    with pytest.raises(CommandError) as caught:
        refuse_known(transaction(), hanging)
    assert "coordinator 2 has it as billing-1" in caught.value.why
    assert caught.value.advice == "tidelog txn abort billing-1 --yes"


def test_what_holds_the_last_stable_offset_is_named_with_its_end():
    held = Held(1030, 1041, producer(), transaction(), 1)
    told = " ".join(held_sentences(held, NOW_MS))
    assert "Readers of committed records stop at 1030, 11 records before that" in told
    assert "producer 4001, epoch 3 has a transaction open since there" in told
    assert "transactional id billing-1 at coordinator 2" in told
    assert "aborted at 2026-01-31T09:00:48Z unless it ends before" in told
    assert "1 more transaction began after it" in told
    assert held_command(held, "orders-0") == "tidelog txn describe billing-1"


def test_a_hanging_transaction_leads_to_the_marker_that_ends_it():
    held = Held(1030, 1041, producer(), None, 0)
    assert "No coordinator knows that producer" in " ".join(held_sentences(held, NOW_MS))
    wanted = "tidelog txn abort --partition orders-0 --start-offset 1030"
    assert held_command(held, "orders-0") == wanted
    assert "was open there" in held_sentences(Held(1030, 1041, None, None, 0), NOW_MS)[0]
