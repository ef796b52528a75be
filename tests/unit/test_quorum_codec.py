"""The metadata log as bytes: what Kafka's tools read, and what we read back."""

from typing import get_args

import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.replay import image_records, replay
from tidelog.core.quorum.messages import LeaderChange, SnapshotId, VoterKey, VotersRecord
from tidelog.core.security.acls import Acl
from tidelog.core.security.scram import ScramCredential
from tidelog.core.types import LogEntry
from tidelog.quorum.control_codec import KRaftVersion
from tidelog.quorum.entry_codec import SNAPSHOT_BATCH_RECORDS, KafkaEntryCodec
from tidelog.quorum.record_codec import FORMS, decode_metadata, encode_metadata
from tidelog.wire.protocol import Message, encode_record
from tidelog.wire.protocol import metadata_schemas as s
from tidelog.wire.records import (
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    CorruptBatch,
    InvalidBatch,
    UnknownRecord,
    control_type,
    iter_batches,
    read_header,
)

NOW_MS = 1_700_000_000_000
INT16 = st.integers(0, 2**15 - 1)
INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(0, 2**63 - 1)
BYTE = st.integers(-128, 127)
UUID = st.binary(min_size=16, max_size=16)
TEXT = st.text(max_size=20)
IDS = st.lists(INT32, max_size=5).map(tuple)
UUIDS = st.lists(UUID, max_size=3).map(tuple)
STATE = st.sampled_from([r.RECOVERED, r.RECOVERING])
MAYBE_IDS = st.none() | IDS
ENDPOINT = st.builds(r.Endpoint, TEXT, TEXT, st.integers(0, 65_535), INT16)

RECORDS: dict[type, st.SearchStrategy[r.MetadataRecord]] = {
    r.RegisterBroker: st.builds(
        r.RegisterBroker,
        INT32,
        UUID,
        INT64,
        st.lists(ENDPOINT, max_size=3).map(tuple),
        st.none() | TEXT,
        st.booleans(),
        st.booleans(),
        UUIDS,
    ),
    r.UnregisterBroker: st.builds(r.UnregisterBroker, INT32, INT64),
    r.BrokerRegistrationChange: st.builds(
        r.BrokerRegistrationChange,
        INT32,
        INT64,
        st.integers(-1, 1),
        st.integers(0, 1),
        UUIDS.map(lambda ids: ids or None),
    ),
    r.Topic: st.builds(r.Topic, TEXT, UUID),
    r.RemoveTopic: st.builds(r.RemoveTopic, UUID),
    r.Partition: st.builds(
        r.Partition,
        INT32,
        UUID,
        IDS,
        IDS,
        IDS,
        IDS,
        st.integers(-1, 9),
        STATE,
        INT32,
        INT32,
        IDS,
        IDS,
    ),
    r.PartitionChange: st.builds(
        r.PartitionChange,
        INT32,
        UUID,
        MAYBE_IDS,
        st.integers(-2, 9),
        MAYBE_IDS,
        MAYBE_IDS,
        MAYBE_IDS,
        st.none() | STATE,
        MAYBE_IDS,
        MAYBE_IDS,
    ),
    r.Config: st.builds(r.Config, st.integers(0, 127), TEXT, TEXT, st.none() | TEXT),
    r.FeatureLevel: st.builds(r.FeatureLevel, TEXT, INT16),
    r.ProducerIds: st.builds(r.ProducerIds, st.integers(-1, 9), st.integers(-1, 99), INT64),
    r.NoOp: st.builds(r.NoOp),
    r.ClearElr: st.builds(r.ClearElr, TEXT),
    r.UserScramCredential: st.builds(
        r.UserScramCredential,
        TEXT,
        st.integers(0, 2),
        st.builds(ScramCredential, st.binary(), st.binary(), st.binary(), INT32),
    ),
    r.RemoveUserScramCredential: st.builds(r.RemoveUserScramCredential, TEXT, st.integers(0, 2)),
    r.AccessControlEntry: st.builds(
        r.AccessControlEntry,
        UUID,
        st.builds(Acl, BYTE, TEXT, BYTE, TEXT, TEXT, BYTE, BYTE),
    ),
    r.RemoveAccessControlEntry: st.builds(r.RemoveAccessControlEntry, UUID),
    r.ClientQuota: st.builds(
        r.ClientQuota,
        st.dictionaries(st.sampled_from(("user", "client-id", "ip")), st.none() | TEXT).map(
            lambda entity: tuple(sorted(entity.items()))
        ),
        TEXT,
        st.none() | st.floats(min_value=0.5, max_value=1e12),
    ),
}
ANY_RECORD = st.one_of(*RECORDS.values())
VOTER = st.builds(VoterKey, INT32, UUID)
CONTROL = st.one_of(
    st.builds(LeaderChange, INT32, IDS, IDS),
    st.builds(VotersRecord, st.lists(VOTER, max_size=4).map(tuple)),
    st.builds(KRaftVersion, INT16),
)
ENTRY = st.one_of(
    st.builds(
        LogEntry,
        INT32,
        INT32,
        st.lists(ANY_RECORD, min_size=1, max_size=8).map(tuple),
        st.just(False),
    ),
    st.builds(
        LogEntry,
        INT32,
        INT32,
        st.lists(CONTROL, min_size=1, max_size=3).map(tuple),
        st.just(True),
    ),
)


def test_every_record_of_the_core_has_a_form_and_a_strategy() -> None:
    assert set(FORMS) == set(RECORDS)
    assert {*FORMS, r.Foreign} == set(get_args(r.MetadataRecord)), "Foreign comes from Kafka alone"


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_a_record_is_read_as_it_was_written(kind: type) -> None:
    @given(RECORDS[kind])
    def check(record: r.MetadataRecord) -> None:
        value = encode_metadata(record)
        assert decode_metadata(value) == record
        assert encode_metadata(decode_metadata(value)) == value

    check()


@given(ENTRY)
def test_an_entry_is_one_batch_and_is_read_as_it_was_written(entry: LogEntry) -> None:
    batch = KafkaEntryCodec().encode_entry(entry, NOW_MS)
    header = read_header(batch)
    assert header.size_bytes == len(batch)
    assert (header.base_offset, header.leader_epoch) == (entry.offset, entry.epoch)
    assert header.next_offset == entry.next_offset
    assert header.is_control == entry.control
    codec = KafkaEntryCodec()
    read = codec.decode_entry(memoryview(batch))
    assert read == entry
    assert codec.encode_entry(read, NOW_MS + 1) == batch, "a follower stores what it was sent"


def test_bytes_are_the_same_on_every_node() -> None:
    entry = LogEntry(7, 3, (r.Topic("foo", bytes(range(16))), r.NoOp()))
    one, other = KafkaEntryCodec(), KafkaEntryCodec()
    assert one.encode_entry(entry, NOW_MS) == other.encode_entry(entry, NOW_MS)


def test_an_entry_of_the_same_offset_and_another_content_has_other_bytes() -> None:
    codec = KafkaEntryCodec()
    first = codec.encode_entry(LogEntry(5, 1, (r.NoOp(),)), NOW_MS)
    second = codec.encode_entry(LogEntry(5, 2, (r.NoOp(),)), NOW_MS)
    assert (read_header(first).leader_epoch, read_header(second).leader_epoch) == (1, 2)


def test_a_reader_that_we_did_not_write_finds_the_records() -> None:
    entry = LogEntry(40, 2, (r.Topic("foo", bytes(16)), r.NoOp()))
    leader_change = LogEntry(42, 3, (LeaderChange(1, (1, 2, 3), (1, 3)),), control=True)
    codec = KafkaEntryCodec()
    data = codec.encode_entry(entry, NOW_MS) + codec.encode_entry(leader_change, NOW_MS)
    batches = MemoryRecords(data)
    plain = batches.next_batch()
    assert plain.validate_crc()
    assert not plain.is_control_batch
    found = list(plain)
    assert [record.offset for record in found] == [40, 41]
    assert [record.key for record in found] == [None, None]
    assert found[0].value == bytes([1, 2, 0]) + b"\x04foo" + bytes(16) + b"\x00"
    control = batches.next_batch()
    assert control.is_control_batch
    assert control.validate_crc()
    (change,) = list(control)
    assert change.offset == 42
    assert change.key == bytes([0, 0, 0, LEADER_CHANGE])
    voters = b"\x04" + b"".join(bytes([0, 0, 0, each, 0]) for each in (1, 2, 3))
    granting = b"\x03" + b"".join(bytes([0, 0, 0, each, 0]) for each in (1, 3))
    assert change.value == bytes(2) + bytes([0, 0, 0, 1]) + voters + granting + b"\x00"


@given(
    st.lists(ANY_RECORD, max_size=20).map(tuple),
    st.none() | st.lists(VOTER, min_size=1, max_size=3).map(tuple),
)
def test_a_snapshot_is_read_as_it_was_written(
    records: tuple[object, ...], voters: tuple[VoterKey, ...] | None
) -> None:
    control = () if voters is None else (VotersRecord(voters),)
    codec = KafkaEntryCodec()
    content = codec.encode_snapshot(SnapshotId(99, 4), records, control, NOW_MS)
    assert codec.decode_snapshot(content) == (records, control)


def test_a_snapshot_is_framed_by_header_and_footer_and_its_offsets_are_its_own() -> None:
    records = (r.NoOp(),) * (SNAPSHOT_BATCH_RECORDS + 1)
    content = KafkaEntryCodec().encode_snapshot(SnapshotId(99, 4), records, (), NOW_MS)
    batches = list(iter_batches(content))
    kinds = [control_type(content, position) for position, _ in batches]
    assert kinds == [SNAPSHOT_HEADER, -1, -1, SNAPSHOT_FOOTER]
    assert {header.leader_epoch for _, header in batches} == {4}
    starts = [header.base_offset for _, header in batches]
    assert starts == [0, 1, SNAPSHOT_BATCH_RECORDS + 1, SNAPSHOT_BATCH_RECORDS + 2]


def test_a_snapshot_that_is_cut_short_or_damaged_is_refused() -> None:
    codec = KafkaEntryCodec()
    content = codec.encode_snapshot(SnapshotId(9, 4), (r.NoOp(),) * 3, (), NOW_MS)
    for size in range(len(content)):
        with pytest.raises(InvalidBatch):
            codec.decode_snapshot(content[:size])
    with pytest.raises(InvalidBatch):
        codec.decode_snapshot(content + content)
    damaged = bytearray(content)
    damaged[-3] ^= 1
    with pytest.raises(CorruptBatch):
        codec.decode_snapshot(bytes(damaged))


@pytest.mark.parametrize(
    ("message", "version", "kind", "removal"),
    [
        (
            s.DelegationTokenRecord(token_id="t1"),
            0,
            "DelegationToken",
            s.RemoveDelegationTokenRecord(token_id="t1"),
        ),
        (s.RegisterControllerRecord(controller_id=3), 0, "RegisterController", None),
        (s.MigrationStateRecord(migration_state=4), 0, "ZkMigrationState", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_only_kafka_keeps_goes_through_our_snapshots_as_it_came(
    message: Message, version: int, kind: str, removal: Message | None
) -> None:
    value = encode_record(message, version)
    image = MetadataImage()
    replay(image, decode_metadata(value))
    (kept,) = image_records(image)
    assert isinstance(kept, r.Foreign)
    assert (kept.kind, encode_metadata(kept)) == (kind, value)
    if removal is not None:
        written = encode_record(removal, 0)
        removed = decode_metadata(written)
        assert encode_metadata(removed) == written, "a leader sends it on as it came"
        replay(image, removed)
        assert image_records(image) == ()


def test_older_words_of_kafka_are_understood() -> None:
    fenced = decode_metadata(encode_record(s.FenceBrokerRecord(id=1, epoch=2), 0))
    assert fenced == r.BrokerRegistrationChange(1, 2, fenced=1)
    unfenced = decode_metadata(encode_record(s.UnfenceBrokerRecord(id=1, epoch=2), 0))
    assert unfenced == r.BrokerRegistrationChange(1, 2, fenced=-1)
    for message in (s.BeginTransactionRecord(name="Bootstrap records"), s.EndTransactionRecord()):
        assert decode_metadata(encode_record(message, 0)) == r.NoOp()


def test_metadata_that_kafka_took_back_is_refused_with_a_way_out() -> None:
    with pytest.raises(UnknownRecord, match="a snapshot by Kafka"):
        decode_metadata(encode_record(s.AbortTransactionRecord(), 0))


def test_bytes_that_are_not_exactly_one_batch_are_refused() -> None:
    codec = KafkaEntryCodec()
    batch = codec.encode_entry(LogEntry(0, 0, (r.NoOp(),)), NOW_MS)
    for bad in (b"", batch[:-1], batch + b"\x00", batch + batch):
        with pytest.raises(InvalidBatch):
            codec.decode_entry(bad)
