"""The permissions that each API needs: Kafka's operations, resources and error codes, row by row.

`BROKER` is for what brokers serve themselves, `CONTROLLER` for the controller listener, where also
those requests are looked at that a broker passes on, with the principal of its client. Produce,
Fetch and Metadata are hot or large and have guards beside their handlers.
"""

from collections.abc import Callable
from typing import Any

from tidelog.core.errors import Error
from tidelog.core.security.acls import Operation, ResourceType
from tidelog.rpc import admin_refusals
from tidelog.rpc.authorization import item_refusals as refused
from tidelog.rpc.authorization import own_shapes
from tidelog.rpc.authorization.guards import (
    Guard,
    Refused,
    cluster,
    each,
    itself,
    shown,
    the_group,
    the_transaction,
    told_operations,
    told_operations_on_cluster,
    whole,
)
from tidelog.wire.protocol import Message

READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
ALTER, DELETE = Operation.ALTER, Operation.DELETE
CLUSTER_ACTION = Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
TRANSACTION = ResourceType.TRANSACTIONAL_ID

FREE = frozenset((17, 18, 36))
"""SaslHandshake, ApiVersions and SaslAuthenticate: how somebody becomes somebody."""

GROUP_MEMBER = (whole(READ, GROUP, the_group),)


def with_reason(refuse: Callable[[Any, Error, str], Message]) -> Refused:
    return lambda request, error: refuse(request, error, "Cluster authorization failed.")


BROKER: dict[int, tuple[Guard, ...]] = {
    2: (each("topics", "topics", DESCRIBE, TOPIC, refused=refused.list_offsets),),
    8: (
        whole(READ, GROUP, the_group, refused.whole_offset_commit),
        each("topics", "topics", READ, TOPIC, refused=refused.offset_commit),
    ),
    9: (own_shapes.offset_fetch,),
    10: (own_shapes.find_coordinator,),
    11: GROUP_MEMBER,
    12: GROUP_MEMBER,
    13: GROUP_MEMBER,
    14: GROUP_MEMBER,
    15: (
        each("groups", "groups", DESCRIBE, GROUP, named=itself, refused=refused.describe_group),
        told_operations(
            "include_authorized_operations", "groups", "authorized_operations", GROUP, the_group
        ),
    ),
    16: (own_shapes.seen_groups,),
    21: (each("topics", "topics", DELETE, TOPIC, refused=refused.delete_records),),
    22: (own_shapes.init_producer_id,),
    23: (own_shapes.offset_for_leader_epoch,),
    24: (own_shapes.add_partitions_to_txn,),
    25: (whole(WRITE, TRANSACTION, the_transaction), whole(READ, GROUP, the_group)),
    26: (whole(WRITE, TRANSACTION, the_transaction),),
    27: (cluster(ALTER, CLUSTER_ACTION, refused=refused.whole_write_txn_markers),),
    28: (
        whole(WRITE, TRANSACTION, the_transaction, refused.whole_txn_offset_commit),
        whole(READ, GROUP, the_group, refused.whole_txn_offset_commit),
        each("topics", "topics", READ, TOPIC, refused=refused.txn_offset_commit),
    ),
    29: (cluster(DESCRIBE, refused=with_reason(admin_refusals.describe_acls)),),
    32: (own_shapes.settings(DESCRIBE_CONFIGS, "results", refused.describe_config),),
    34: (cluster(ALTER, refused=refused.whole_alter_replica_log_dirs),),
    35: (cluster(DESCRIBE, refused=refused.whole_describe_log_dirs),),
    42: (
        each("groups_names", "results", DELETE, GROUP, named=itself, refused=refused.delete_group),
    ),
    44: (own_shapes.settings(ALTER_CONFIGS, "responses", refused.incremental_alter_config),),
    47: (
        whole(DELETE, GROUP, the_group),
        each("topics", "topics", READ, TOPIC, refused=refused.offset_delete),
    ),
    48: (cluster(DESCRIBE_CONFIGS),),
    50: (cluster(DESCRIBE, refused=with_reason(admin_refusals.describe_scram_credentials)),),
    60: (told_operations_on_cluster("include_cluster_authorized_operations"),),
    61: (each("topics", "topics", READ, TOPIC, refused=refused.describe_producers),),
    65: (
        each(
            "transactional_ids",
            "transaction_states",
            DESCRIBE,
            TRANSACTION,
            named=itself,
            refused=refused.describe_transaction,
        ),
        own_shapes.hidden_topics_of_transactions,
    ),
    66: (
        shown("transaction_states", DESCRIBE, TRANSACTION, lambda _, each: each.transactional_id),
    ),
    68: (whole(READ, GROUP, the_group), own_shapes.subscribed_topics),
    69: (
        each(
            "group_ids",
            "groups",
            DESCRIBE,
            GROUP,
            named=itself,
            refused=refused.describe_consumer_group,
        ),
        own_shapes.topics_of_groups,
        told_operations(
            "include_authorized_operations", "groups", "authorized_operations", GROUP, the_group
        ),
    ),
    74: (cluster(DESCRIBE_CONFIGS),),
}

CONTROLLER: dict[int, tuple[Guard, ...]] = {
    1: (cluster(CLUSTER_ACTION),),
    19: (own_shapes.create_topics,),
    20: (
        each("topics", "responses", DELETE, TOPIC, refused=refused.delete_topic),
        each(
            "topic_names",
            "responses",
            DELETE,
            TOPIC,
            named=itself,
            refused=refused.delete_named_topic,
        ),
    ),
    30: (cluster(ALTER, refused=with_reason(admin_refusals.create_acls)),),
    31: (cluster(ALTER, refused=with_reason(admin_refusals.delete_acls)),),
    33: (own_shapes.settings(ALTER_CONFIGS, "responses", refused.alter_config),),
    37: (each("topics", "results", ALTER, TOPIC, refused=refused.create_partitions),),
    43: (cluster(ALTER, refused=with_reason(admin_refusals.elect_leaders)),),
    44: (own_shapes.settings(ALTER_CONFIGS, "responses", refused.incremental_alter_config),),
    45: (cluster(ALTER, refused=with_reason(admin_refusals.alter_reassignments)),),
    46: (cluster(DESCRIBE),),
    49: (cluster(ALTER_CONFIGS, refused=with_reason(admin_refusals.alter_client_quotas)),),
    51: (cluster(ALTER, refused=with_reason(admin_refusals.alter_scram_credentials)),),
    52: (cluster(CLUSTER_ACTION),),
    53: (cluster(CLUSTER_ACTION),),
    54: (cluster(CLUSTER_ACTION),),
    55: (cluster(DESCRIBE),),
    56: (cluster(CLUSTER_ACTION),),
    57: (cluster(ALTER, refused=with_reason(admin_refusals.update_features)),),
    58: (cluster(CLUSTER_ACTION),),
    59: (cluster(CLUSTER_ACTION),),
    60: (cluster(ALTER),),
    62: (cluster(CLUSTER_ACTION),),
    63: (cluster(CLUSTER_ACTION),),
    64: (cluster(ALTER),),
    67: (cluster(CLUSTER_ACTION),),
    80: (cluster(ALTER),),
    81: (cluster(ALTER),),
    82: (cluster(CLUSTER_ACTION),),
}

__all__ = ["BROKER", "CONTROLLER", "FREE"]
