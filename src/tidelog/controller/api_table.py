"""Which module serves which API of the controller listener."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tidelog.controller.handlers import (
    acls,
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    api_versions,
    broker_heartbeat,
    broker_registration,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    unregister_broker,
    update_features,
)
from tidelog.rpc import Call, Handler

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController

HANDLES: dict[int, Callable[["ActiveController", Call], None]] = {
    18: api_versions.handle,
    19: create_topics.handle,
    20: delete_topics.handle,
    30: acls.create,
    31: acls.delete,
    33: alter_configs.handle,
    37: create_partitions.handle,
    43: elect_leaders.handle,
    44: incremental_alter_configs.handle,
    45: alter_partition_reassignments.handle,
    46: list_partition_reassignments.handle,
    49: alter_client_quotas.handle,
    51: alter_user_scram_credentials.handle,
    56: alter_partition.handle,
    57: update_features.handle,
    60: describe_cluster.handle,
    62: broker_registration.handle,
    63: broker_heartbeat.handle,
    64: unregister_broker.handle,
    67: allocate_producer_ids.handle,
}


def bind_handlers(controller: "ActiveController") -> dict[int, Handler]:
    return {key: partial(handle, controller) for key, handle in HANDLES.items()}
