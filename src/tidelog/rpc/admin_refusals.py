"""Answers to admin requests that were not carried out: the same error for every item.

One entry per item and in the order of the request: a client that gets fewer may abort (librdkafka
does, wire.md gotcha 4).
"""

from tidelog.core.errors import Error
from tidelog.wire.protocol.schemas import (
    alter_client_quotas_request,
    alter_client_quotas_response,
    alter_configs_request,
    alter_configs_response,
    alter_partition_reassignments_request,
    alter_partition_reassignments_response,
    alter_user_scram_credentials_request,
    alter_user_scram_credentials_response,
    create_acls_request,
    create_acls_response,
    create_partitions_request,
    create_partitions_response,
    create_topics_request,
    create_topics_response,
    delete_acls_request,
    delete_acls_response,
    delete_topics_request,
    delete_topics_response,
    describe_acls_request,
    describe_acls_response,
    describe_quorum_request,
    describe_quorum_response,
    describe_user_scram_credentials_request,
    describe_user_scram_credentials_response,
    elect_leaders_request,
    elect_leaders_response,
    incremental_alter_configs_request,
    incremental_alter_configs_response,
    list_partition_reassignments_request,
    list_partition_reassignments_response,
    unregister_broker_request,
    unregister_broker_response,
    update_features_request,
    update_features_response,
)


def create_topics(
    request: create_topics_request.CreateTopicsRequest, error: Error, why: str
) -> create_topics_response.CreateTopicsResponse:
    return create_topics_response.CreateTopicsResponse(
        topics=[
            create_topics_response.CreatableTopicResult(
                name=each.name, error_code=error, error_message=why
            )
            for each in request.topics
        ]
    )


def delete_topics(
    request: delete_topics_request.DeleteTopicsRequest, error: Error, why: str
) -> delete_topics_response.DeleteTopicsResponse:
    return delete_topics_response.DeleteTopicsResponse(
        responses=[
            delete_topics_response.DeletableTopicResult(
                name=each.name, topic_id=each.topic_id, error_code=error, error_message=why
            )
            for each in request.topics
        ]
    )


def create_partitions(
    request: create_partitions_request.CreatePartitionsRequest, error: Error, why: str
) -> create_partitions_response.CreatePartitionsResponse:
    return create_partitions_response.CreatePartitionsResponse(
        results=[
            create_partitions_response.CreatePartitionsTopicResult(
                name=each.name, error_code=error, error_message=why
            )
            for each in request.topics
        ]
    )


def alter_configs(
    request: alter_configs_request.AlterConfigsRequest, error: Error, why: str
) -> alter_configs_response.AlterConfigsResponse:
    return alter_configs_response.AlterConfigsResponse(
        responses=[
            alter_configs_response.AlterConfigsResourceResponse(
                error_code=error,
                error_message=why,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in request.resources
        ]
    )


def incremental_alter_configs(
    request: incremental_alter_configs_request.IncrementalAlterConfigsRequest,
    error: Error,
    why: str,
) -> incremental_alter_configs_response.IncrementalAlterConfigsResponse:
    return incremental_alter_configs_response.IncrementalAlterConfigsResponse(
        responses=[
            incremental_alter_configs_response.AlterConfigsResourceResponse(
                error_code=error,
                error_message=why,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in request.resources
        ]
    )


def create_acls(
    request: create_acls_request.CreateAclsRequest, error: Error, why: str
) -> create_acls_response.CreateAclsResponse:
    refused = create_acls_response.AclCreationResult(error_code=error, error_message=why)
    return create_acls_response.CreateAclsResponse(results=[refused] * len(request.creations))


def delete_acls(
    request: delete_acls_request.DeleteAclsRequest, error: Error, why: str
) -> delete_acls_response.DeleteAclsResponse:
    refused = delete_acls_response.DeleteAclsFilterResult(error_code=error, error_message=why)
    return delete_acls_response.DeleteAclsResponse(filter_results=[refused] * len(request.filters))


def elect_leaders(
    request: elect_leaders_request.ElectLeadersRequest, error: Error, why: str
) -> elect_leaders_response.ElectLeadersResponse:
    return elect_leaders_response.ElectLeadersResponse(
        error_code=error,
        replica_election_results=[
            elect_leaders_response.ReplicaElectionResult(
                topic=each.topic,
                partition_result=[
                    elect_leaders_response.PartitionResult(
                        partition_id=index, error_code=error, error_message=why
                    )
                    for index in each.partitions
                ],
            )
            for each in request.topic_partitions or ()
        ],
    )


def alter_reassignments(
    request: alter_partition_reassignments_request.AlterPartitionReassignmentsRequest,
    error: Error,
    why: str,
) -> alter_partition_reassignments_response.AlterPartitionReassignmentsResponse:
    return alter_partition_reassignments_response.AlterPartitionReassignmentsResponse(
        error_code=error,
        error_message=why,
        responses=[
            alter_partition_reassignments_response.ReassignableTopicResponse(
                name=each.name,
                partitions=[
                    alter_partition_reassignments_response.ReassignablePartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=error,
                        error_message=why,
                    )
                    for partition in each.partitions
                ],
            )
            for each in request.topics
        ],
    )


def list_reassignments(
    _: list_partition_reassignments_request.ListPartitionReassignmentsRequest,
    error: Error,
    why: str,
) -> list_partition_reassignments_response.ListPartitionReassignmentsResponse:
    return list_partition_reassignments_response.ListPartitionReassignmentsResponse(
        error_code=error, error_message=why
    )


def alter_client_quotas(
    request: alter_client_quotas_request.AlterClientQuotasRequest, error: Error, why: str
) -> alter_client_quotas_response.AlterClientQuotasResponse:
    return alter_client_quotas_response.AlterClientQuotasResponse(
        entries=[
            alter_client_quotas_response.EntryData(
                error_code=error,
                error_message=why,
                entity=[
                    alter_client_quotas_response.EntityData(
                        entity_type=each.entity_type, entity_name=each.entity_name
                    )
                    for each in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


def alter_scram_credentials(
    request: alter_user_scram_credentials_request.AlterUserScramCredentialsRequest,
    error: Error,
    why: str,
) -> alter_user_scram_credentials_response.AlterUserScramCredentialsResponse:
    removed = [each.name for each in request.deletions]
    users = [*removed, *(each.name for each in request.upsertions)]
    return alter_user_scram_credentials_response.AlterUserScramCredentialsResponse(
        results=[
            alter_user_scram_credentials_response.AlterUserScramCredentialsResult(
                user=user, error_code=error, error_message=why
            )
            for user in dict.fromkeys(users)
        ]
    )


def describe_acls(
    _: describe_acls_request.DescribeAclsRequest, error: Error, why: str
) -> describe_acls_response.DescribeAclsResponse:
    return describe_acls_response.DescribeAclsResponse(error_code=error, error_message=why)


def describe_scram_credentials(
    request: describe_user_scram_credentials_request.DescribeUserScramCredentialsRequest,
    error: Error,
    why: str,
) -> describe_user_scram_credentials_response.DescribeUserScramCredentialsResponse:
    """An error for all and one for each user, as by Kafka, which leaves out their names.

    librdkafka 2.16 crashes at any error for all, whatever else is in the answer. Without it, Java
    would take a refusal to describe everybody for a cluster without users.
    """
    return describe_user_scram_credentials_response.DescribeUserScramCredentialsResponse(
        error_code=error,
        error_message=why,
        results=[
            describe_user_scram_credentials_response.DescribeUserScramCredentialsResult(
                user=each.name, error_code=error, error_message=why
            )
            for each in request.users or ()
        ],
    )


def unregister_broker(
    _: unregister_broker_request.UnregisterBrokerRequest, error: Error, why: str
) -> unregister_broker_response.UnregisterBrokerResponse:
    return unregister_broker_response.UnregisterBrokerResponse(error_code=error, error_message=why)


def update_features(
    request: update_features_request.UpdateFeaturesRequest, error: Error, why: str
) -> update_features_response.UpdateFeaturesResponse:
    return update_features_response.UpdateFeaturesResponse(
        error_code=error,
        error_message=why,
        results=[
            update_features_response.UpdatableFeatureResult(
                feature=each.feature, error_code=error, error_message=why
            )
            for each in request.feature_updates
        ],
    )


def describe_quorum(
    request: describe_quorum_request.DescribeQuorumRequest, error: Error, why: str
) -> describe_quorum_response.DescribeQuorumResponse:
    return describe_quorum_response.DescribeQuorumResponse(
        error_code=error,
        error_message=why,
        topics=[
            describe_quorum_response.TopicData(
                topic_name=each.topic_name,
                partitions=[
                    describe_quorum_response.PartitionData(
                        partition_index=partition.partition_index,
                        error_code=error,
                        error_message=why,
                    )
                    for partition in each.partitions
                ],
            )
            for each in request.topics
        ],
    )
