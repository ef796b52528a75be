"""The table of access: what each API is asked, which rules it needs, which error it gives without.

The codes are those of Kafka's StandardAuthorizer behind KafkaApis and ControllerApis.
"""

from collections.abc import Callable
from typing import Any

from tidelog.core.errors import Error
from tidelog.core.security.acls import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidelog.wire.protocol import API_BY_KEY, Message, request_class
from tidelog.wire.protocol.message import Struct
from tidelog.wire.protocol.schemas import (
    add_offsets_to_txn_request,
    add_partitions_to_txn_request,
    alter_client_quotas_request,
    alter_configs_request,
    alter_partition_reassignments_request,
    alter_replica_log_dirs_request,
    alter_user_scram_credentials_request,
    consumer_group_describe_request,
    consumer_group_heartbeat_request,
    create_acls_request,
    create_partitions_request,
    create_topics_request,
    delete_acls_request,
    delete_groups_request,
    delete_records_request,
    delete_topics_request,
    describe_cluster_response,
    describe_configs_request,
    describe_groups_request,
    describe_producers_request,
    describe_topic_partitions_request,
    describe_transactions_request,
    elect_leaders_request,
    end_txn_request,
    fetch_request,
    find_coordinator_request,
    heartbeat_request,
    incremental_alter_configs_request,
    init_producer_id_request,
    join_group_request,
    leave_group_request,
    list_groups_response,
    list_offsets_request,
    list_transactions_response,
    metadata_request,
    offset_commit_request,
    offset_delete_request,
    offset_fetch_request,
    offset_for_leader_epoch_request,
    produce_request,
    sync_group_request,
    txn_offset_commit_request,
    update_features_request,
    update_raft_voter_request,
    write_txn_markers_request,
)

T, G, X = "orders", "readers", "till-1"
Op, R = Operation, ResourceType
TOPIC_29, GROUP_30, CLUSTER_31, TXN_53 = (
    Error.TOPIC_AUTHORIZATION_FAILED,
    Error.GROUP_AUTHORIZATION_FAILED,
    Error.CLUSTER_AUTHORIZATION_FAILED,
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
NAMES = {R.TOPIC: T, R.GROUP: G, R.TRANSACTIONAL_ID: X, R.CLUSTER: CLUSTER_NAME}


AUTHORIZATION = frozenset((TOPIC_29, GROUP_30, CLUSTER_31, TXN_53))


def rule(operation: int, kind: int, principal: str = "User:alice") -> Acl:
    return Acl(kind, NAMES[kind], PatternType.LITERAL, principal, "*", operation, Permission.ALLOW)


class Row:
    def __init__(self, key, request, error, *rules, versions=None):
        self.key, self.request, self.error, self.rules = key, request, error, rules
        full = API_BY_KEY[key].full
        self.versions = versions or range(full.first, full.last + 1)

    def __repr__(self):
        return f"{API_BY_KEY[self.key].name}-{len(self.rules)}"


def empty(key: int) -> Any:
    return request_class(key)


def on_cluster(key: int, *operations: int, make: Any = None) -> list[Row]:
    """One row for each operation that is enough."""
    return [
        Row(key, make or empty(key), CLUSTER_31, (operation, R.CLUSTER)) for operation in operations
    ]


PRODUCED = bytearray(61)
TRANSACTIONAL = bytearray(61)
TRANSACTIONAL[22] = 0x10


def produce(records=PRODUCED, transaction=None):
    data = produce_request.PartitionProduceData(index=0, records=records)
    topic = produce_request.TopicProduceData(name=T, partition_data=[data])
    return produce_request.ProduceRequest(transactional_id=transaction, acks=-1, topic_data=[topic])


def fetch(replica_id=-1):
    topic = fetch_request.FetchTopic(topic=T, partitions=[fetch_request.FetchPartition()])
    return fetch_request.FetchRequest(topics=[topic], replica_id=replica_id, session_epoch=-1)


def replica_fetch():
    request = fetch()
    request.replica_state = fetch_request.ReplicaState(replica_id=2)
    return request


def updated_voter():
    return update_raft_voter_request.UpdateRaftVoterRequest(
        kraft_version_feature=update_raft_voter_request.KRaftVersionFeature()
    )


def of_group(module, name, **more):
    return lambda: getattr(module, name)(group_id=G, **more)


def offsets(kind, name="OffsetCommitRequest"):
    partition = getattr(kind, f"{name}Partition")(partition_index=0)
    topic = getattr(kind, f"{name}Topic")(name=T, partitions=[partition])
    return getattr(kind, name)(group_id=G, topics=[topic])


def txn_offsets():
    request = offsets(txn_offset_commit_request, "TxnOffsetCommitRequest")
    request.transactional_id = X
    return request


def settings(module, name, resource_type, resource_name):
    kind = "DescribeConfigsResource" if "Describe" in name else "AlterConfigsResource"
    resource = getattr(module, kind)(resource_type=resource_type, resource_name=resource_name)
    return lambda: getattr(module, name)(resources=[resource])


def config_rows(key, module, name, operation):
    return [
        Row(key, settings(module, name, 2, T), TOPIC_29, (operation, R.TOPIC)),
        Row(key, settings(module, name, 32, G), GROUP_30, (operation, R.GROUP)),
        Row(key, settings(module, name, 4, "1"), CLUSTER_31, (operation, R.CLUSTER)),
        Row(key, settings(module, name, 8, "1"), CLUSTER_31, (operation, R.CLUSTER)),
        Row(key, settings(module, name, 16, "m"), CLUSTER_31, (operation, R.CLUSTER)),
    ]


def fetched_offsets(version_of_many):
    if version_of_many:
        topic = offset_fetch_request.OffsetFetchRequestTopics(name=T, partition_indexes=[0])
        group = offset_fetch_request.OffsetFetchRequestGroup(group_id=G, topics=[topic])
        return offset_fetch_request.OffsetFetchRequest(groups=[group])
    topic = offset_fetch_request.OffsetFetchRequestTopic(name=T, partition_indexes=[0])
    return offset_fetch_request.OffsetFetchRequest(group_id=G, topics=[topic])


def found(kind, *, many):
    key = G if kind == 0 else X
    given = {"coordinator_keys": [key]} if many else {"key": key}
    return lambda: find_coordinator_request.FindCoordinatorRequest(key_type=kind, **given)


def added(*, many):
    topic = add_partitions_to_txn_request.AddPartitionsToTxnTopic(name=T, partitions=[0])
    if many:
        transaction = add_partitions_to_txn_request.AddPartitionsToTxnTransaction(
            transactional_id=X, topics=[topic]
        )
        return add_partitions_to_txn_request.AddPartitionsToTxnRequest(transactions=[transaction])
    return add_partitions_to_txn_request.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=X, v3_and_below_topics=[topic]
    )


def topics_of(module, request, topic, partition):
    """A request about one partition of a topic."""

    def make():
        parts = [getattr(module, partition)()]
        return getattr(module, request)(topics=[getattr(module, topic)(name=T, partitions=parts)])

    return make


def metadata():
    topics = [metadata_request.MetadataRequestTopic(name=T)]
    return metadata_request.MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def described_partitions():
    topics = [describe_topic_partitions_request.TopicRequest(name=T)]
    return describe_topic_partitions_request.DescribeTopicPartitionsRequest(topics=topics)


BROKER_ROWS = [
    Row(0, produce, TOPIC_29, (Op.WRITE, R.TOPIC), versions=range(3, 14)),
    Row(
        0,
        lambda: produce(TRANSACTIONAL, X),
        TXN_53,
        (Op.WRITE, R.TRANSACTIONAL_ID),
        (Op.WRITE, R.TOPIC),
        versions=range(3, 14),
    ),
    Row(1, fetch, TOPIC_29, (Op.READ, R.TOPIC)),
    Row(1, lambda: fetch(2), TOPIC_29, (Op.CLUSTER_ACTION, R.CLUSTER), versions=range(4, 15)),
    Row(1, replica_fetch, TOPIC_29, (Op.CLUSTER_ACTION, R.CLUSTER), versions=range(15, 19)),
    Row(
        2,
        topics_of(
            list_offsets_request, "ListOffsetsRequest", "ListOffsetsTopic", "ListOffsetsPartition"
        ),
        TOPIC_29,
        (Op.DESCRIBE, R.TOPIC),
    ),
    Row(3, metadata, TOPIC_29, (Op.DESCRIBE, R.TOPIC)),
    Row(
        8,
        lambda: offsets(offset_commit_request),
        GROUP_30,
        (Op.READ, R.GROUP),
        (Op.READ, R.TOPIC),
        versions=range(2, 11),
    ),
    Row(
        9,
        lambda: fetched_offsets(False),
        GROUP_30,
        (Op.DESCRIBE, R.GROUP),
        (Op.DESCRIBE, R.TOPIC),
        versions=range(1, 8),
    ),
    Row(
        9,
        lambda: fetched_offsets(True),
        GROUP_30,
        (Op.DESCRIBE, R.GROUP),
        (Op.DESCRIBE, R.TOPIC),
        versions=range(8, 11),
    ),
    Row(10, found(0, many=False), GROUP_30, (Op.DESCRIBE, R.GROUP), versions=range(4)),
    Row(10, found(0, many=True), GROUP_30, (Op.DESCRIBE, R.GROUP), versions=range(4, 7)),
    Row(10, found(1, many=False), TXN_53, (Op.DESCRIBE, R.TRANSACTIONAL_ID), versions=range(1, 4)),
    Row(10, found(1, many=True), TXN_53, (Op.DESCRIBE, R.TRANSACTIONAL_ID), versions=range(4, 7)),
    Row(11, of_group(join_group_request, "JoinGroupRequest"), GROUP_30, (Op.READ, R.GROUP)),
    Row(12, of_group(heartbeat_request, "HeartbeatRequest"), GROUP_30, (Op.READ, R.GROUP)),
    Row(13, of_group(leave_group_request, "LeaveGroupRequest"), GROUP_30, (Op.READ, R.GROUP)),
    Row(14, of_group(sync_group_request, "SyncGroupRequest"), GROUP_30, (Op.READ, R.GROUP)),
    Row(
        15,
        lambda: describe_groups_request.DescribeGroupsRequest(groups=[G]),
        GROUP_30,
        (Op.DESCRIBE, R.GROUP),
    ),
    Row(
        21,
        topics_of(
            delete_records_request,
            "DeleteRecordsRequest",
            "DeleteRecordsTopic",
            "DeleteRecordsPartition",
        ),
        TOPIC_29,
        (Op.DELETE, R.TOPIC),
    ),
    Row(
        22,
        lambda: init_producer_id_request.InitProducerIdRequest(transactional_id=X),
        TXN_53,
        (Op.WRITE, R.TRANSACTIONAL_ID),
    ),
    Row(
        22,
        lambda: init_producer_id_request.InitProducerIdRequest(transactional_id=None),
        CLUSTER_31,
        (Op.IDEMPOTENT_WRITE, R.CLUSTER),
    ),
    Row(
        22,
        lambda: init_producer_id_request.InitProducerIdRequest(transactional_id=None),
        CLUSTER_31,
        (Op.WRITE, R.TOPIC),
    ),
    *(
        Row(
            23,
            lambda: offset_for_leader_epoch_request.OffsetForLeaderEpochRequest(
                topics=[
                    offset_for_leader_epoch_request.OffsetForLeaderTopic(
                        topic=T,
                        partitions=[offset_for_leader_epoch_request.OffsetForLeaderPartition()],
                    )
                ]
            ),
            TOPIC_29,
            needed,
        )
        for needed in ((Op.DESCRIBE, R.TOPIC), (Op.CLUSTER_ACTION, R.CLUSTER))
    ),
    Row(
        24,
        lambda: added(many=False),
        TXN_53,
        (Op.WRITE, R.TRANSACTIONAL_ID),
        (Op.WRITE, R.TOPIC),
        versions=range(4),
    ),
    Row(
        24,
        lambda: added(many=True),
        CLUSTER_31,
        (Op.CLUSTER_ACTION, R.CLUSTER),
        versions=range(4, 6),
    ),
    Row(
        25,
        lambda: add_offsets_to_txn_request.AddOffsetsToTxnRequest(transactional_id=X, group_id=G),
        TXN_53,
        (Op.WRITE, R.TRANSACTIONAL_ID),
        (Op.READ, R.GROUP),
    ),
    Row(
        26,
        lambda: end_txn_request.EndTxnRequest(transactional_id=X),
        TXN_53,
        (Op.WRITE, R.TRANSACTIONAL_ID),
    ),
    *on_cluster(
        27,
        Op.ALTER,
        Op.CLUSTER_ACTION,
        make=lambda: write_txn_markers_request.WriteTxnMarkersRequest(
            markers=[
                write_txn_markers_request.WritableTxnMarker(
                    topics=[
                        write_txn_markers_request.WritableTxnMarkerTopic(
                            name=T, partition_indexes=[0]
                        )
                    ]
                )
            ]
        ),
    ),
    Row(
        28,
        txn_offsets,
        TXN_53,
        (Op.WRITE, R.TRANSACTIONAL_ID),
        (Op.READ, R.GROUP),
        (Op.READ, R.TOPIC),
    ),
    *on_cluster(29, Op.DESCRIBE),
    *config_rows(32, describe_configs_request, "DescribeConfigsRequest", Op.DESCRIBE_CONFIGS),
    *on_cluster(
        34,
        Op.ALTER,
        make=lambda: alter_replica_log_dirs_request.AlterReplicaLogDirsRequest(
            dirs=[
                alter_replica_log_dirs_request.AlterReplicaLogDir(
                    topics=[
                        alter_replica_log_dirs_request.AlterReplicaLogDirTopic(
                            name=T, partitions=[0]
                        )
                    ]
                )
            ]
        ),
    ),
    Row(35, empty(35), CLUSTER_31, (Op.DESCRIBE, R.CLUSTER), versions=range(3, 6)),
    Row(
        42,
        lambda: delete_groups_request.DeleteGroupsRequest(groups_names=[G]),
        GROUP_30,
        (Op.DELETE, R.GROUP),
    ),
    *config_rows(
        44,
        incremental_alter_configs_request,
        "IncrementalAlterConfigsRequest",
        Op.ALTER_CONFIGS,
    ),
    Row(
        47,
        lambda: offsets(offset_delete_request, "OffsetDeleteRequest"),
        GROUP_30,
        (Op.DELETE, R.GROUP),
        (Op.READ, R.TOPIC),
    ),
    *on_cluster(48, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS),
    *on_cluster(50, Op.DESCRIBE, Op.ALTER),
    Row(
        61,
        lambda: describe_producers_request.DescribeProducersRequest(
            topics=[describe_producers_request.TopicRequest(name=T, partition_indexes=[0])]
        ),
        TOPIC_29,
        (Op.READ, R.TOPIC),
    ),
    Row(
        65,
        lambda: describe_transactions_request.DescribeTransactionsRequest(transactional_ids=[X]),
        TXN_53,
        (Op.DESCRIBE, R.TRANSACTIONAL_ID),
    ),
    Row(
        68,
        lambda: consumer_group_heartbeat_request.ConsumerGroupHeartbeatRequest(
            group_id=G, subscribed_topic_names=[T]
        ),
        GROUP_30,
        (Op.READ, R.GROUP),
        (Op.DESCRIBE, R.TOPIC),
    ),
    Row(
        69,
        lambda: consumer_group_describe_request.ConsumerGroupDescribeRequest(group_ids=[G]),
        GROUP_30,
        (Op.DESCRIBE, R.GROUP),
    ),
    *on_cluster(74, Op.DESCRIBE_CONFIGS),
    Row(75, described_partitions, TOPIC_29, (Op.DESCRIBE, R.TOPIC)),
]

CONTROLLER_ROWS = [
    Row(1, empty(1), CLUSTER_31, (Op.CLUSTER_ACTION, R.CLUSTER), versions=range(13, 18)),
    *(
        Row(
            19,
            lambda: create_topics_request.CreateTopicsRequest(
                topics=[create_topics_request.CreatableTopic(name=T)]
            ),
            TOPIC_29,
            needed,
        )
        for needed in ((Op.CREATE, R.TOPIC), (Op.CREATE, R.CLUSTER))
    ),
    Row(
        20,
        lambda: delete_topics_request.DeleteTopicsRequest(topic_names=[T]),
        TOPIC_29,
        (Op.DELETE, R.TOPIC),
        versions=range(1, 6),
    ),
    Row(
        20,
        lambda: delete_topics_request.DeleteTopicsRequest(
            topics=[delete_topics_request.DeleteTopicState(name=T)]
        ),
        TOPIC_29,
        (Op.DELETE, R.TOPIC),
        versions=range(6, 7),
    ),
    *on_cluster(
        30,
        Op.ALTER,
        make=lambda: create_acls_request.CreateAclsRequest(
            creations=[create_acls_request.AclCreation()]
        ),
    ),
    *on_cluster(
        31,
        Op.ALTER,
        make=lambda: delete_acls_request.DeleteAclsRequest(
            filters=[delete_acls_request.DeleteAclsFilter()]
        ),
    ),
    *config_rows(33, alter_configs_request, "AlterConfigsRequest", Op.ALTER_CONFIGS),
    Row(
        37,
        lambda: create_partitions_request.CreatePartitionsRequest(
            topics=[create_partitions_request.CreatePartitionsTopic(name=T)]
        ),
        TOPIC_29,
        (Op.ALTER, R.TOPIC),
    ),
    *on_cluster(
        43,
        Op.ALTER,
        make=lambda: elect_leaders_request.ElectLeadersRequest(
            topic_partitions=[elect_leaders_request.TopicPartitions(topic=T, partitions=[0])]
        ),
    ),
    *config_rows(
        44,
        incremental_alter_configs_request,
        "IncrementalAlterConfigsRequest",
        Op.ALTER_CONFIGS,
    ),
    *on_cluster(
        45,
        Op.ALTER,
        make=alter_partition_reassignments_request.AlterPartitionReassignmentsRequest,
    ),
    *on_cluster(46, Op.DESCRIBE),
    *on_cluster(
        49,
        Op.ALTER_CONFIGS,
        make=lambda: alter_client_quotas_request.AlterClientQuotasRequest(
            entries=[alter_client_quotas_request.EntryData()]
        ),
    ),
    *on_cluster(
        51,
        Op.ALTER,
        make=lambda: alter_user_scram_credentials_request.AlterUserScramCredentialsRequest(
            deletions=[alter_user_scram_credentials_request.ScramCredentialDeletion(name="u")]
        ),
    ),
    *on_cluster(55, Op.DESCRIBE),
    *on_cluster(57, Op.ALTER, make=update_features_request.UpdateFeaturesRequest),
    *on_cluster(60, Op.ALTER),
    *(row for key in (64, 80, 81) for row in on_cluster(key, Op.ALTER)),
    *(
        row
        for key in (52, 53, 54, 56, 58, 59, 62, 63, 67)
        for row in on_cluster(key, Op.CLUSTER_ACTION)
    ),
    *on_cluster(82, Op.CLUSTER_ACTION, make=updated_voter),
]


class Listing:
    """An API that answers everybody, with as much as he may see."""

    def __init__(
        self, key: int, answer: Callable[[], Message], seen: str, *enough: tuple[int, int]
    ) -> None:
        self.key, self.answer, self.seen, self.enough = key, answer, seen, enough
        full = API_BY_KEY[key].full
        self.versions = range(full.first, full.last + 1)

    def __repr__(self) -> str:
        return API_BY_KEY[self.key].name


LISTINGS = [
    Listing(
        16,
        lambda: list_groups_response.ListGroupsResponse(
            groups=[list_groups_response.ListedGroup(group_id=G)]
        ),
        "groups",
        (Op.DESCRIBE, R.GROUP),
        (Op.READ, R.GROUP),
        (Op.DESCRIBE, R.CLUSTER),
    ),
    Listing(
        66,
        lambda: list_transactions_response.ListTransactionsResponse(
            transaction_states=[list_transactions_response.TransactionState(transactional_id=X)]
        ),
        "transaction_states",
        (Op.DESCRIBE, R.TRANSACTIONAL_ID),
        (Op.WRITE, R.TRANSACTIONAL_ID),
    ),
    Listing(
        60,
        describe_cluster_response.DescribeClusterResponse,
        "cluster_authorized_operations",
        (Op.DESCRIBE, R.CLUSTER),
        (Op.ALTER, R.CLUSTER),
    ),
]


def codes(struct: Struct) -> set[int]:
    """Every error code in an answer, at whatever depth."""
    found: set[int] = set()
    for row in type(struct).__fields__:
        value = getattr(struct, row.name)
        if row.name.endswith("error_code"):
            found.add(value)
        elif row.is_array and isinstance(row.kind, type):
            for item in value or ():
                found |= codes(item)
    return found - {0}
