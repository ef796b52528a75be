"""`bootstrap.checkpoint`: the first records that the first controller of a new cluster writes.

Kafka's file, in Kafka's format: `kafka-storage format --add-scram` and `tidelog format --add-scram`
leave it behind, and either system finds the users. It matters only while the metadata log is empty.
"""

from tidelog.core.metadata.records import FeatureLevel, MetadataRecord, UserScramCredential
from tidelog.core.quorum.messages import SnapshotId
from tidelog.core.security.decoys import DECOY_MECHANISM, DECOY_USER, shared_secret
from tidelog.host.ports import Disk, Entropy
from tidelog.node.disks import CannotStart
from tidelog.quorum.entry_codec import KafkaEntryCodec
from tidelog.storage.atomic_file import read_file, replace_file
from tidelog.wire.records import InvalidBatch

FILE = "bootstrap.checkpoint"


def write_bootstrap(
    disk: Disk, features: tuple[FeatureLevel, ...], users: tuple[UserScramCredential, ...]
) -> None:
    content = KafkaEntryCodec().encode_snapshot(SnapshotId(0, 0), (*features, *users), (), 0)
    replace_file(disk, FILE, content)


def read_bootstrap(disk: Disk, entropy: Entropy) -> tuple[MetadataRecord, ...]:
    """Its users, and the secret from which decoys of others are made. Features are not taken from
    it: this release says what it can do."""
    content = read_file(disk, FILE)
    if content is None:
        return ()
    try:
        records, _ = KafkaEntryCodec().decode_snapshot(content)
    except InvalidBatch as reason:
        raise CannotStart(
            f"{FILE} cannot be read: {reason}", advice="format the directories of this node again"
        ) from reason
    users = [record for record in records if isinstance(record, UserScramCredential)]
    if not users:
        return ()
    secret = shared_secret(entropy.uuid() + entropy.uuid(), users[0].credential)
    return (*users, UserScramCredential(DECOY_USER, DECOY_MECHANISM, secret))
