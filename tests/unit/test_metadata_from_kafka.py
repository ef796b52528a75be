"""Metadata that Kafka wrote, as a node finds it when it starts on Kafka's directory."""

import logging

import pytest

from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.replay import image_records, replay
from tidelog.core.quorum.messages import SnapshotId
from tidelog.core.types import LogEntry
from tidelog.node.disks import CannotStart
from tidelog.node.from_kafka import check_metadata
from tidelog.quorum.entry_codec import KafkaEntryCodec
from tidelog.quorum.record_codec import decode_metadata
from tidelog.sim.disk import SimDisk
from tidelog.storage.metadata_log import MetadataLog
from tidelog.wire.protocol import Message, encode_record
from tidelog.wire.protocol import metadata_schemas as s

ACCESS = s.AccessControlEntryRecord(id=b"a" * 16, principal="User:ann", resource_name="orders")
PASSWORD = s.UserScramCredentialRecord(name="ann", mechanism=1)
QUOTA = s.ClientQuotaRecord(
    entity=[s.QuotaEntity(entity_type="user", entity_name="ann")], key="producer_byte_rate"
)


def log_of(*messages: Message, disk: SimDisk | None = None) -> MetadataLog:
    log = MetadataLog.open(disk or SimDisk(), KafkaEntryCodec())
    for message in messages:
        record = decode_metadata(encode_record(message, 0))
        log.append((LogEntry(log.log_end_offset, 1, (record,)),))
    return log


def test_a_cluster_that_somebody_had_locked_is_not_opened_to_everybody() -> None:
    with pytest.raises(CannotStart) as refused:
        check_metadata(log_of(ACCESS, PASSWORD, QUOTA))
    assert "1 access rules (ACLs) and 1 SCRAM credentials" in str(refused.value)
    assert "docs/moving.md" in refused.value.advice


def test_rules_that_were_removed_again_lock_nothing() -> None:
    removals = (
        s.RemoveAccessControlEntryRecord(id=b"a" * 16),
        s.RemoveUserScramCredentialRecord(name="ann", mechanism=1),
    )
    check_metadata(log_of(ACCESS, PASSWORD, *removals))


def test_quotas_are_mentioned_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tidelog.node"):
        check_metadata(log_of(QUOTA))
    assert "1 client quotas of Kafka are kept and not enforced" in caplog.text


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
        check_metadata(MetadataLog.open(disk, KafkaEntryCodec()))
