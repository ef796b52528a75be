"""Metadata that Kafka wrote, as a node finds it when it starts on Kafka's directory."""

import fastcrc
import pytest

from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.records import Topic
from tidelog.core.metadata.replay import image_records, replay
from tidelog.core.quorum.messages import SnapshotId, VoterKey, VotersRecord
from tidelog.core.quorum.state import QuorumSettings
from tidelog.core.types import LogEntry
from tidelog.node.disks import CannotStart
from tidelog.node.from_kafka import check_metadata, check_voters, recorded_voters
from tidelog.quorum.control_codec import KRaftVersion, encode_control_record
from tidelog.quorum.entry_codec import KafkaEntryCodec
from tidelog.quorum.membership import QuorumMembership
from tidelog.quorum.record_codec import decode_metadata
from tidelog.sim.disk import SimDisk
from tidelog.storage.errors import UnknownContent
from tidelog.storage.meta_properties import MetaProperties
from tidelog.storage.metadata_log import DIRECTORY, MetadataLog
from tidelog.wire.protocol import Message, decode, encode_record
from tidelog.wire.protocol import metadata_schemas as s
from tidelog.wire.protocol.schemas import voters_record
from tidelog.wire.records import KRAFT_VOTERS, iter_batches
from tidelog.wire.records.header import ATTRIBUTES_POSITION

ACCESS = s.AccessControlEntryRecord(id=b"a" * 16, principal="User:ann", resource_name="orders")
PASSWORD = s.UserScramCredentialRecord(name="ann", mechanism=1)
TOKEN = s.DelegationTokenRecord(token_id="t1")


def log_of(*messages: Message, disk: SimDisk | None = None) -> MetadataLog:
    log = MetadataLog.open(disk or SimDisk(), KafkaEntryCodec())
    for message in messages:
        record = decode_metadata(encode_record(message, 0))
        log.append((LogEntry(log.log_end_offset, 1, (record,)),))
    return log


def test_a_cluster_that_somebody_had_locked_is_not_opened_to_everybody() -> None:
    with pytest.raises(CannotStart, match="1 access rules") as refused:
        check_metadata(log_of(ACCESS, PASSWORD), authorizer=False)
    assert "authorizer.class.name=org.apache.kafka" in refused.value.advice
    check_metadata(log_of(ACCESS, PASSWORD), authorizer=True)


def test_tokens_are_not_known_here() -> None:
    with pytest.raises(CannotStart, match="1 delegation tokens") as refused:
        check_metadata(log_of(TOKEN), authorizer=True)
    assert "docs/moving.md" in refused.value.advice
    removal = s.RemoveDelegationTokenRecord(token_id="t1")
    check_metadata(log_of(TOKEN, removal), authorizer=True)


def test_rules_that_were_removed_again_lock_nothing() -> None:
    removal = s.RemoveAccessControlEntryRecord(id=b"a" * 16)
    check_metadata(log_of(ACCESS, PASSWORD, removal), authorizer=False)


def test_a_snapshot_locks_as_the_log_does() -> None:
    disk = SimDisk()
    log = log_of(ACCESS, s.NoOpRecord(), disk=disk)
    image = MetadataImage()
    for entry in log.entries_from(0, 10):
        for record in entry.records:
            replay(image, record)
    log.write_snapshot(SnapshotId(2, 1), image_records(image), ())
    log.close()
    with pytest.raises(CannotStart, match="access rules"):
        check_metadata(MetadataLog.open(disk, KafkaEntryCodec()), authorizer=False)


VOTERS = (VoterKey(1, b"1" * 16), VoterKey(2, b"2" * 16))
CONFIGURED = {1: ("host-1", 9093), 2: ("host-2", 9093)}


def with_voters(disk: SimDisk) -> MetadataLog:
    log = MetadataLog.open(disk, KafkaEntryCodec(CONFIGURED))
    log.append((LogEntry(0, 1, (KRaftVersion(1), VotersRecord(VOTERS)), control=True),))
    return log


def test_voters_of_a_dynamic_quorum_are_found_in_the_log_and_in_a_snapshot() -> None:
    disk, codec = SimDisk(), KafkaEntryCodec(CONFIGURED)
    log = with_voters(disk)
    assert recorded_voters(log, codec) == VOTERS
    log.write_snapshot(SnapshotId(2, 1), (), (VotersRecord(VOTERS),))
    log.close()
    assert recorded_voters(MetadataLog.open(disk, codec), codec) == VOTERS
    assert recorded_voters(log_of(s.NoOpRecord()), codec) is None


def test_recorded_voters_are_written_with_their_addresses_for_kafka_to_find() -> None:
    kind, value = encode_control_record(VotersRecord(VOTERS), CONFIGURED)
    assert kind == KRAFT_VOTERS
    (one, other) = decode(voters_record.VotersRecord, 0, value).voters
    assert [(each.name, each.host, each.port) for each in (*one.endpoints, *other.endpoints)] == [
        ("CONTROLLER", "host-1", 9093),
        ("CONTROLLER", "host-2", 9093),
    ]


@pytest.mark.parametrize(
    ("configured", "own", "complaint"),
    [
        (
            (1,),
            MetaProperties("c", 1, b"1" * 16),
            "names the voters 1, 2, controller.quorum.voters 1",
        ),
        ((1, 2), MetaProperties("c", 1, b"x" * 16), "node 1 votes from another directory"),
    ],
)
def test_voters_that_are_not_those_of_the_configuration_are_refused(
    configured: tuple[int, ...], own: MetaProperties, complaint: str
) -> None:
    with pytest.raises(CannotStart, match=complaint):
        check_voters(VOTERS, {each: CONFIGURED[each] for each in configured}, own)
    check_voters(VOTERS, CONFIGURED, MetaProperties("c", 1, b"1" * 16))


def test_a_voter_of_a_dynamic_quorum_votes_from_its_directory() -> None:
    place = QuorumMembership(1, b"1" * 16, "c", CONFIGURED, QuorumSettings())
    assert place.key == VoterKey(1, bytes(16))
    assert place._replace(voters_are_recorded=True).key == VOTERS[0]


TOMORROW = s.TopicRecord(name="tomorrow", topic_id=b"t" * 16)


def rewritten_as_unknown(content: bytes) -> bytes:
    """The same batches, in which the topic is a record of version 9, with checksums that fit."""
    known = encode_record(TOMORROW, 0)
    unknown = known.replace(b"\x01\x02\x00", b"\x01\x02\x09", 1)
    assert content.count(known) == 1
    changed = bytearray(content.replace(known, unknown))
    for position, header in iter_batches(changed):
        checked = changed[position + ATTRIBUTES_POSITION : position + header.size_bytes]
        checksum = fastcrc.crc32.iscsi(bytes(checked)).to_bytes(4, "big")
        changed[position + ATTRIBUTES_POSITION - 4 : position + ATTRIBUTES_POSITION] = checksum
    return bytes(changed)


@pytest.mark.parametrize("in_snapshot", [False, True], ids=["log", "snapshot"])
def test_a_record_of_a_newer_kafka_is_named_and_nothing_is_removed(in_snapshot: bool) -> None:
    disk = SimDisk()
    log = log_of(TOMORROW, disk=disk)
    path = f"{DIRECTORY}/{0:020d}.log"
    if in_snapshot:
        log.write_snapshot(SnapshotId(1, 1), (Topic("tomorrow", b"t" * 16),), ())
        path = f"{DIRECTORY}/{1:020d}-{1:010d}.checkpoint"
    log.close()
    content = rewritten_as_unknown(disk.files()[path])
    file = disk.open(path)
    file.truncate(0)
    file.write(0, content)
    file.close()
    with pytest.raises(UnknownContent, match=r"TopicRecord v9: .*not known to this release"):
        MetadataLog.open(disk, KafkaEntryCodec())
    assert disk.files()[path] == content
