"""Which module serves which API on a broker's listeners."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.handlers import (
    acls,
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_replica_log_dirs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    delete_records,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    end_txn,
    fetch,
    find_coordinator,
    forwarded,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_transactions,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from tidelog.broker.handlers.metadata import MetadataAnswers
from tidelog.broker.handlers.metadata import Parts as MetadataParts
from tidelog.rpc import Handler
from tidelog.rpc.logins import LATE_LOGINS
from tidelog.wire.protocol import API_VERSIONS, ApiRange, Listener, Release, supported_versions

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.broker.groups.group_calls import GroupCalls


def handlers(broker: Broker) -> dict[int, Handler]:
    """Every API of a broker, by key. What is added to the table later is advertised too."""
    served: dict[int, Handler] = {
        **LATE_LOGINS,
        **_records(broker),
        **_groups(broker.group_calls),
        **_transactions(broker),
        **_cluster(broker),
    }

    def ranges() -> list[ApiRange]:
        return supported_versions(Listener.CLIENT, Release.FULL, served)

    served[API_VERSIONS] = partial(api_versions.handle, broker.metadata, ranges=ranges)
    return served


def _records(broker: Broker) -> dict[int, Handler]:
    """What is in the logs, and where the logs are."""
    host, config, metadata = broker.host, broker.config, broker.metadata
    replicas, moves, appends = broker.replicas, broker.moves, broker.appends
    offsets = list_offsets.Parts(appends, replicas, broker.mending, host)
    deletion = delete_records.Parts(replicas, broker.fetches, host)
    placing = alter_replica_log_dirs.Parts(metadata, replicas, moves, config)
    log_dirs = describe_log_dirs.Parts(replicas, moves, config, host)
    return {
        0: broker.produces.handle,
        1: partial(fetch.handle, appends, broker.fetches),
        2: partial(list_offsets.handle, offsets),
        21: partial(delete_records.handle, deletion),
        23: partial(offset_for_leader_epoch.handle, replicas),
        34: partial(alter_replica_log_dirs.handle, placing),
        35: partial(describe_log_dirs.handle, log_dirs),
        61: partial(describe_producers.handle, replicas),
    }


def _groups(groups: GroupCalls) -> dict[int, Handler]:
    return {
        8: partial(offset_commit.handle, groups),
        9: partial(offset_fetch.handle, groups),
        11: partial(join_group.handle, groups),
        12: partial(heartbeat.handle, groups),
        13: partial(leave_group.handle, groups),
        14: partial(sync_group.handle, groups),
        15: partial(describe_groups.handle, groups),
        16: partial(list_groups.handle, groups),
        42: partial(delete_groups.handle, groups),
        47: partial(offset_delete.handle, groups),
        68: partial(consumer_group_heartbeat.handle, groups),
        69: partial(consumer_group_describe.handle, groups),
    }


def _transactions(broker: Broker) -> dict[int, Handler]:
    host, metadata, coordination = broker.host, broker.metadata, broker.coordination
    calls = broker.transaction_calls
    adding = add_partitions_to_txn.Parts(metadata, calls)
    adding_offsets = add_offsets_to_txn.Parts(coordination, broker.internal_topics, calls)
    offsets = txn_offset_commit.Parts(
        metadata, broker.replicas, coordination, broker.verifications, host
    )
    return {
        22: partial(init_producer_id.handle, calls),
        24: partial(add_partitions_to_txn.handle, adding),
        25: partial(add_offsets_to_txn.handle, adding_offsets),
        26: partial(end_txn.handle, calls),
        27: partial(write_txn_markers.handle, broker.marker_writer),
        28: partial(txn_offset_commit.handle, offsets),
        65: partial(describe_transactions.handle, calls),
        66: partial(list_transactions.handle, list_transactions.Parts(coordination, host)),
    }


def _cluster(broker: Broker) -> dict[int, Handler]:
    """The cluster as this broker knows it, and what only the controller can do."""
    host, config, metadata, link = broker.host, broker.config, broker.metadata, broker.link
    finding = find_coordinator.Parts(
        metadata, broker.coordination, broker.internal_topics, broker.suspected, host
    )
    forwarding = forwarded.Parts(metadata, link, host)
    answers = MetadataAnswers(
        MetadataParts(
            metadata,
            link,
            broker.suspected,
            broker.recently_fenced,
            config,
            broker.cluster_id,
            host,
        )
    )
    access: dict[int, Handler] = {29: partial(acls.describe, metadata)}
    if not config.has_authorizer:
        access = dict.fromkeys((29, 30, 31), acls.no_authorizer)
    return {
        **dict.fromkeys(forwarded.ROWS, partial(forwarded.handle, forwarding)),
        **access,
        3: answers.handle,
        10: partial(find_coordinator.handle, finding),
        32: partial(describe_configs.handle, describe_configs.Parts(metadata, config, host)),
        incremental_alter_configs.KEY: partial(incremental_alter_configs.handle, forwarding),
        48: partial(describe_client_quotas.handle, metadata),
        50: partial(describe_user_scram_credentials.handle, metadata),
        60: partial(describe_cluster.handle, metadata, broker.cluster_id),
        74: partial(list_config_resources.handle, metadata),
        75: partial(describe_topic_partitions.handle, metadata),
    }
