"""The first records of a new cluster: which features it starts with (kraft.md §4)."""

from tidelog.core.metadata.contexts import ELR_FEATURE
from tidelog.core.metadata.decision import View
from tidelog.core.metadata.records import RESOURCE_BROKER, Config, FeatureLevel, MetadataRecord
from tidelog.core.metadata.topic_configs import MIN_INSYNC_REPLICAS

METADATA_VERSION_FEATURE = "metadata.version"
METADATA_VERSION = 27
"""Kafka's level for 4.1, whose records we write."""

ELR_VERSION = 1

GROUP_FEATURE = "group.version"
GROUP_VERSION = 1
"""Consumer groups of the new protocol (KIP-848)."""

TRANSACTION_FEATURE = "transaction.version"
TRANSACTION_VERSION = 2
"""KIP-890: clients that see it leave it to brokers to add partitions to a transaction, and count
on a new producer epoch with every one. Only with Produce 12, TxnOffsetCommit 5 and EndTxn 5:
otherwise clients lose what they commit (wire.md gotcha 8)."""

RELEASE_FEATURES = ((GROUP_FEATURE, GROUP_VERSION), (TRANSACTION_FEATURE, TRANSACTION_VERSION))
"""What nodes of this release can do for clients."""


def missing_records(view: View) -> tuple[MetadataRecord, ...]:
    """Written by the first controller ever to claim; a log that has them is not empty."""
    present = view.image.features
    levels = ((METADATA_VERSION_FEATURE, METADATA_VERSION), *view.settings.features)
    records: list[MetadataRecord] = [
        FeatureLevel(name, level) for name, level in levels if name not in present
    ]
    if view.settings.elr_enabled and METADATA_VERSION_FEATURE not in present:
        records.append(FeatureLevel(ELR_FEATURE, ELR_VERSION))
        # Who is eligible follows from the minimum, so leaders and controllers must take it
        # from the same place: the log, not the settings file of whoever happens to lead.
        minimum = str(view.settings.min_insync_replicas)
        records.append(Config(RESOURCE_BROKER, "", MIN_INSYNC_REPLICAS, minimum))
    if METADATA_VERSION_FEATURE not in present:
        records.extend(view.settings.bootstrap_records)
    return tuple(records)
