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
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
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
from tidelog.rpc import Handler
from tidelog.wire.protocol import API_VERSIONS, ApiRange, Listener, Release, supported_versions

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker


def handlers(broker: Broker) -> dict[int, Handler]:
    """Every API of a broker, by key. What is added to the table later is advertised too."""
    served: dict[int, Handler] = {
        0: broker.produces.handle,
        1: partial(fetch.handle, broker),
        2: partial(list_offsets.handle, broker),
        3: MetadataAnswers(broker).handle,
        8: partial(offset_commit.handle, broker),
        9: partial(offset_fetch.handle, broker),
        10: partial(find_coordinator.handle, broker),
        11: partial(join_group.handle, broker),
        12: partial(heartbeat.handle, broker),
        13: partial(leave_group.handle, broker),
        14: partial(sync_group.handle, broker),
        15: partial(describe_groups.handle, broker),
        16: partial(list_groups.handle, broker),
        21: partial(delete_records.handle, broker),
        22: partial(init_producer_id.handle, broker),
        23: partial(offset_for_leader_epoch.handle, broker),
        24: partial(add_partitions_to_txn.handle, broker),
        25: partial(add_offsets_to_txn.handle, broker),
        26: partial(end_txn.handle, broker),
        27: partial(write_txn_markers.handle, broker),
        28: partial(txn_offset_commit.handle, broker),
        29: acls.describe,
        30: acls.create,
        31: acls.delete,
        32: partial(describe_configs.handle, broker),
        34: partial(alter_replica_log_dirs.handle, broker),
        35: partial(describe_log_dirs.handle, broker),
        42: partial(delete_groups.handle, broker),
        47: partial(offset_delete.handle, broker),
        60: partial(describe_cluster.handle, broker),
        61: partial(describe_producers.handle, broker),
        65: partial(describe_transactions.handle, broker),
        66: partial(list_transactions.handle, broker),
        68: partial(consumer_group_heartbeat.handle, broker),
        69: partial(consumer_group_describe.handle, broker),
        74: partial(list_config_resources.handle, broker),
        75: partial(describe_topic_partitions.handle, broker),
    }
    for key in forwarded.ROWS:
        served[key] = partial(forwarded.handle, broker)
    served[incremental_alter_configs.KEY] = partial(incremental_alter_configs.handle, broker)

    def ranges() -> list[ApiRange]:
        return supported_versions(Listener.CLIENT, Release.FULL, served)

    served[API_VERSIONS] = partial(api_versions.handle, broker, ranges=ranges)
    return served
