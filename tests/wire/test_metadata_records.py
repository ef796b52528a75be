"""Values of the metadata log."""

from random import Random

import pytest

from support.protocol_messages import versions_of
from support.random_messages import random_message
from tidelog.wire.protocol import ProtocolError, UnsupportedVersion, decode_record, encode_record
from tidelog.wire.protocol.metadata_schemas import (
    RECORDS,
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)

TOPIC_ID = bytes(range(16))


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_a_record_is_read_as_it_was_written(kind):
    random = Random(kind.__name__)
    for version in versions_of(kind):
        for _ in range(10):
            record = random_message(kind, version, random)
            assert decode_record(encode_record(record, version)) == (record, version)


def test_no_two_records_have_the_same_key():
    keys = [record.__api_key__ for record in RECORDS]
    assert keys == sorted(set(keys))


@pytest.mark.parametrize(
    ("record", "version", "data"),
    [
        (NoOpRecord(), 0, "01 14 00 00"),
        (
            TopicRecord(name="foo", topic_id=TOPIC_ID),
            0,
            f"01 02 00 04 666f6f {TOPIC_ID.hex()} 00",
        ),
        # A new leader, as a failover writes it: tags 0 (isr) and 1 (leader).
        (
            PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, isr=(3,), leader=3),
            0,
            f"01 05 00 00000001 {TOPIC_ID.hex()} 02 00 05 02 00000003 01 04 00000003",
        ),
        # An emptied ELR is not the same as an ELR that stays.
        (
            PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, eligible_leader_replicas=()),
            2,
            f"01 05 02 00000001 {TOPIC_ID.hex()} 01 06 01 01",
        ),
        # In the schema the directories (tag 8) stand before the ELR (tag 6).
        (
            PartitionChangeRecord(
                partition_id=1,
                topic_id=TOPIC_ID,
                directories=[TOPIC_ID],
                eligible_leader_replicas=(2,),
            ),
            2,
            f"01 05 02 00000001 {TOPIC_ID.hex()} 02 06 05 02 00000002 08 11 02 {TOPIC_ID.hex()}",
        ),
        (
            PartitionRecord(
                partition_id=0,
                topic_id=TOPIC_ID,
                replicas=(1, 2),
                isr=(1,),
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
            ),
            0,
            f"01 03 00 00000000 {TOPIC_ID.hex()} 03 00000001 00000002 02 00000001 01 01"
            " 00000001 00000000 00000000 00",
        ),
        (
            BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=-1),
            1,
            "01 11 01 00000001 0000000000000002 01 00 01 ff",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_records_have_kafkas_bytes(record, version, data):
    assert encode_record(record, version) == bytes.fromhex(data)
    assert decode_record(bytes.fromhex(data)) == (record, version)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ("", ProtocolError),
        ("01", ProtocolError),
        ("01 14", ProtocolError),
        ("01 14 00", ProtocolError),
        ("01 14 00 00 00", ProtocolError),
        ("02 14 00 00", UnsupportedVersion),
        ("01 06 00 00", UnsupportedVersion),
        ("01 14 01 00", UnsupportedVersion),
    ],
)
def test_a_record_that_is_not_whole_or_not_known_is_refused(data, error):
    with pytest.raises(error):
        decode_record(bytes.fromhex(data))
