"""Records of the internal topics, byte by byte as Kafka 4.3.0 writes them.

The bytes were made by Kafka's own classes (kafka-group-coordinator and
kafka-transaction-coordinator 4.3.0) from the values beside them.
"""

from typing import Any

import pytest

from tidelog.coordinators.group_records import GROUP_RECORDS
from tidelog.coordinators.record_forms import Forms
from tidelog.coordinators.transaction_records import TRANSACTION_RECORDS
from tidelog.core.coordination import TopicPartition
from tidelog.core.groups import records as g
from tidelog.core.transactions import records as t

TOPIC_ID = bytes(range(16))
ID = TOPIC_ID.hex()
CLASSIC = g.ClassicMemberValue("m", None, "c", "/h", 2, 1, b"\1", b"\2")
CONSUMER = g.ConsumerMemberValue(None, None, "c", "/h", ("t",), None, 300_000, "uniform")
ENDED = t.TransactionValue(
    3000, 2, 60_000, t.TransactionState.COMPLETE_COMMIT, (), 18, 17, version=2
)

WRITTEN: dict[str, tuple[Forms, Any, str, str]] = {
    "offset": (
        GROUP_RECORDS,
        g.OffsetCommit(
            "g", TopicPartition("t", 3), g.CommittedOffset(42, 7, "m", 1_700_000_000_000)
        ),
        "000100016700017400000003",
        "0003000000000000002a0000000700016d0000018bcfe56800",
    ),
    "classic group": (
        GROUP_RECORDS,
        g.ClassicGroup("g", g.ClassicGroupValue("consumer", 5, "range", "m", 17, (CLASSIC,))),
        "0002000167",
        "00030008636f6e73756d657200000005000572616e676500016d0000000000000011"
        "0000000100016dffff00016300022f68000000020000000100000001010000000102",
    ),
    "consumer group": (
        GROUP_RECORDS,
        g.ConsumerGroupEpoch("g", 9),
        "0003000167",
        "00000000000900",
    ),
    "consumer group member": (
        GROUP_RECORDS,
        g.ConsumerMember("g", "m", CONSUMER),
        "000500016700016d",
        "000000000263032f6802027401000493e008756e69666f726d00",
    ),
    "target epoch": (
        GROUP_RECORDS,
        g.TargetAssignmentEpoch("g", 9),
        "0006000167",
        "00000000000900",
    ),
    "target of a member": (
        GROUP_RECORDS,
        g.TargetAssignment("g", "m", ((TOPIC_ID, (0, 1)),)),
        "000700016700016d",
        f"000002{ID}0300000000000000010000",
    ),
    "current assignment with its epochs": (
        GROUP_RECORDS,
        g.CurrentAssignment(
            "g",
            "m",
            g.CurrentAssignmentValue(
                6,
                4,
                1,
                ((TOPIC_ID, (0, 2)),),
                ((TOPIC_ID, (1,)),),
                ((TOPIC_ID, 0, 4), (TOPIC_ID, 1, 4)),
            ),
        ),
        "000800016700016d",
        f"0000000000060000000401"
        f"02{ID}0300000000000000020100090300000004"
        f"0000000602{ID}0200000001010005020000000400",
    ),
    "transaction that never began": (
        TRANSACTION_RECORDS,
        t.Transaction("x", ENDED._replace(state=t.TransactionState.EMPTY, start_ms=-1)),
        "0000000178",
        "00010000000000000bb800020000ea6000000000000000000012ffffffffffffffff0102020002",
    ),
    "ongoing transaction": (
        TRANSACTION_RECORDS,
        t.Transaction(
            "x",
            ENDED._replace(
                state=t.TransactionState.ONGOING,
                partitions=(TopicPartition("t", 0), TopicPartition("t", 1)),
            ),
        ),
        "0000000178",
        "00010000000000000bb800020000ea6001020274030000000000000001000000000000000012"
        "00000000000000110102020002",
    ),
    "prepared transaction": (
        TRANSACTION_RECORDS,
        t.Transaction(
            "x",
            ENDED._replace(
                state=t.TransactionState.PREPARE_COMMIT,
                partitions=(TopicPartition("t", 0),),
                previous_producer_id=2999,
                next_producer_id=3001,
                next_producer_epoch=0,
            ),
        ),
        "0000000178",
        "00010000000000000bb800020000ea6002020274020000000000000000000000001200000000000000"
        "110400080000000000000bb701080000000000000bb90202000203020000",
    ),
    "completed transaction": (
        TRANSACTION_RECORDS,
        t.Transaction("x", ENDED),
        "0000000178",
        "00010000000000000bb800020000ea600401000000000000001200000000000000110102020002",
    ),
}

READ: dict[str, tuple[str, str]] = {
    "offset": (
        "with a topic id (v4)",
        f"0004000000000000002a00000007026d0000018bcfe56800010010{ID}",
    ),
    "consumer group": ("with a hash of its topics", "000000000009010008ffffffffffffffff"),
    "consumer group member": (
        "that speaks the classic protocol",
        "000000000263032f6802027401000493e008756e69666f726d0100100100000005020672616e676502010000",
    ),
    "target epoch": ("with a time", "0000000000090100080000000000000011"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_we_write_is_what_kafka_writes(name: str) -> None:
    forms, record, key, value = WRITTEN[name]
    written_key, written_value = forms.encode(record)
    assert (written_key.hex(), written_value and written_value.hex()) == (key, value)


@pytest.mark.parametrize("name", WRITTEN)
def test_what_kafka_writes_is_read(name: str) -> None:
    forms, record, key, value = WRITTEN[name]
    assert forms.decode(bytes.fromhex(key), bytes.fromhex(value)) == record


@pytest.mark.parametrize("name", READ)
def test_what_only_kafka_writes_is_read_too(name: str) -> None:
    forms, record, key, _ = WRITTEN[name]
    what, value = READ[name]
    assert forms.decode(bytes.fromhex(key), bytes.fromhex(value)) == record, what


def test_an_assignment_without_epochs_was_given_in_the_epoch_of_its_member() -> None:
    """Kafka before 4.3 wrote it like that, and so did we."""
    key = bytes.fromhex("000800016700016d")
    value = bytes.fromhex(f"000000000006000000040002{ID}0200000000000100")
    expected = g.CurrentAssignmentValue(6, 4, 0, ((TOPIC_ID, (0,)),), ())
    assert GROUP_RECORDS.decode(key, value) == g.CurrentAssignment("g", "m", expected)
    assert expected.epochs() == {(TOPIC_ID, 0): 6}


@pytest.mark.parametrize(
    ("state", "value"),
    [
        # as Kafka writes it while transaction.version is below 2
        (5, "00000000000000000bb800020000ea60050000000000000000000000120000000000000011"),
        # as we wrote it once: null partitions
        (4, "00010000000000000bb800020000ea600400000000000000001200000000000000110102020002"),
    ],
)
def test_completed_transactions_of_other_writers_are_read(state: int, value: str) -> None:
    record = TRANSACTION_RECORDS.decode(bytes.fromhex("0000000178"), bytes.fromhex(value))
    assert isinstance(record, t.Transaction)
    assert record.value is not None
    assert (record.value.state, record.value.partitions) == (state, ())
