"""Metadata that Kafka's controllers left behind, for a cluster of ours to take over."""

from collections.abc import Sequence
from typing import Final

from tidelog.core.quorum.messages import VoterKey, VotersRecord
from tidelog.core.types import LogEntry
from tidelog.quorum.control_codec import KRaftVersion
from tidelog.quorum.entry_codec import KafkaEntryCodec
from tidelog.quorum.record_codec import decode_metadata
from tidelog.sim.nodes.server import Server
from tidelog.storage.meta_properties import read_meta_properties
from tidelog.storage.metadata_log import MetadataLog
from tidelog.wire.protocol import Message, encode_record
from tidelog.wire.protocol import metadata_schemas as s

EPOCH: Final = 0
"""Before any epoch that our controllers earn."""
DYNAMIC_VOTERS: Final = 1
OF_ANN: Final = "of ann"
GONE: Final = 90
"""A broker that Kafka had."""
RECORDS: Final[tuple[Message, ...]] = (
    s.BeginTransactionRecord(name="bootstrap"),
    s.RegisterControllerRecord(controller_id=1),
    s.MigrationStateRecord(),
    s.EndTransactionRecord(),
    s.NoOpRecord(),
    s.RegisterBrokerRecord(broker_id=GONE, incarnation_id=b"k" * 16, broker_epoch=5),
    s.UnfenceBrokerRecord(id=GONE, epoch=5),
    s.FenceBrokerRecord(id=GONE, epoch=5),
    s.UnregisterBrokerRecord(broker_id=GONE, broker_epoch=5),
    s.DelegationTokenRecord(token_id=OF_ANN),
    s.RemoveDelegationTokenRecord(token_id=OF_ANN),
    s.AccessControlEntryRecord(id=b"a" * 16, principal="User:ann", resource_name="orders"),
    s.RemoveAccessControlEntryRecord(id=b"a" * 16),
    s.ClearElrRecord(topic_name="nonsense"),
)


def take_over_from_kafka(voters: Sequence[Server]) -> None:
    """Each of them voted from the directory that it has now, and holds the same log."""
    disks = [server.files.open(server.config.metadata_log_dir) for server in voters]
    keys = []
    for disk in disks:
        identity = read_meta_properties(disk)
        assert identity is not None, "the directory is not formatted"
        keys.append(VoterKey(identity.node_id, identity.directory_id))
    addresses = {each.node_id: (each.host, each.port) for each in voters[0].config.voters}
    for disk in disks:
        log = MetadataLog.open(disk, KafkaEntryCodec(addresses))
        control = (KRaftVersion(DYNAMIC_VOTERS), VotersRecord(tuple(keys)))
        log.append((LogEntry(0, EPOCH, control, control=True),))
        for message in RECORDS:
            record = decode_metadata(encode_record(message, 0))
            log.append((LogEntry(log.log_end_offset, EPOCH, (record,)),))
        log.sync()
        log.close()
