"""Whether this broker's metadata shows the change that a controller has confirmed.

Each function gets the image, the request that was passed on and the answer that came back. Refused
items change nothing, so only the others are looked for. If somebody else has changed an item again
in the meantime, it is never found; so callers wait for a bounded time.
"""

from collections.abc import Sequence

from tidelog.core.errors import Error
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.requests import ELECT_PREFERRED
from tidelog.core.security.acls import Acl
from tidelog.core.security.quota_keys import Entity, entity_of
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.wire.protocol import Message
from tidelog.wire.protocol.schemas.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntryData,
)
from tidelog.wire.protocol.schemas.alter_client_quotas_response import AlterClientQuotasResponse
from tidelog.wire.protocol.schemas.alter_configs_request import AlterConfigsRequest
from tidelog.wire.protocol.schemas.alter_configs_response import AlterConfigsResponse
from tidelog.wire.protocol.schemas.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
)
from tidelog.wire.protocol.schemas.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
)
from tidelog.wire.protocol.schemas.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
)
from tidelog.wire.protocol.schemas.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
)
from tidelog.wire.protocol.schemas.create_acls_request import CreateAclsRequest
from tidelog.wire.protocol.schemas.create_acls_response import CreateAclsResponse
from tidelog.wire.protocol.schemas.create_partitions_request import CreatePartitionsRequest
from tidelog.wire.protocol.schemas.create_partitions_response import CreatePartitionsResponse
from tidelog.wire.protocol.schemas.create_topics_request import CreateTopicsRequest
from tidelog.wire.protocol.schemas.create_topics_response import CreateTopicsResponse
from tidelog.wire.protocol.schemas.delete_acls_request import DeleteAclsRequest
from tidelog.wire.protocol.schemas.delete_acls_response import DeleteAclsResponse
from tidelog.wire.protocol.schemas.delete_topics_request import DeleteTopicsRequest
from tidelog.wire.protocol.schemas.delete_topics_response import DeleteTopicsResponse
from tidelog.wire.protocol.schemas.elect_leaders_request import ElectLeadersRequest
from tidelog.wire.protocol.schemas.elect_leaders_response import ElectLeadersResponse
from tidelog.wire.protocol.schemas.incremental_alter_configs_request import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.protocol.schemas.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.protocol.schemas.unregister_broker_request import UnregisterBrokerRequest
from tidelog.wire.protocol.schemas.unregister_broker_response import UnregisterBrokerResponse
from tidelog.wire.protocol.schemas.update_features_request import UpdateFeaturesRequest
from tidelog.wire.protocol.schemas.update_features_response import UpdateFeaturesResponse

REMOVED_ACL_FIELDS = (
    *("resource_type", "resource_name", "pattern_type"),
    *("principal", "host", "operation", "permission_type"),
)
ACL_FIELDS = tuple(name.replace("pattern", "resource_pattern") for name in REMOVED_ACL_FIELDS)
"""How requests and answers name the fields of a rule."""

SET, DELETE, APPEND, SUBTRACT = range(4)
"""What an incremental change does to a setting."""


def at_once(_image: MetadataImage, _request: Message, _response: Message) -> bool:
    """Of requests that change nothing."""
    return True


def create_topics(
    image: MetadataImage, request: CreateTopicsRequest, response: CreateTopicsResponse
) -> bool:
    return request.validate_only or all(
        each.topic_id in image.topics for each in response.topics if each.error_code == Error.NONE
    )


def delete_topics(
    image: MetadataImage, _: DeleteTopicsRequest, response: DeleteTopicsResponse
) -> bool:
    return not any(
        each.topic_id in image.topics
        for each in response.responses
        if each.error_code == Error.NONE
    )


def create_partitions(
    image: MetadataImage, request: CreatePartitionsRequest, response: CreatePartitionsResponse
) -> bool:
    done = {each.name for each in response.results if each.error_code == Error.NONE}
    return request.validate_only or all(
        _partition_count(image, each.name) >= each.count
        for each in request.topics
        if each.name in done
    )


def alter_configs(
    image: MetadataImage, request: AlterConfigsRequest, response: AlterConfigsResponse
) -> bool:
    """The settings of a resource are exactly those of the request."""
    done = {
        (each.resource_type, each.resource_name)
        for each in response.responses
        if each.error_code == Error.NONE
    }
    return request.validate_only or all(
        image.configs.get((each.resource_type, each.resource_name), {})
        == {config.name: config.value for config in each.configs if config.value is not None}
        for each in request.resources
        if (each.resource_type, each.resource_name) in done
    )


def incremental_alter_configs(
    image: MetadataImage,
    request: IncrementalAlterConfigsRequest,
    response: IncrementalAlterConfigsResponse,
) -> bool:
    done = {
        (each.resource_type, each.resource_name)
        for each in response.responses
        if each.error_code == Error.NONE
    }
    return request.validate_only or all(
        _shows(image.configs.get(resource, {}).get(config.name), config)
        for each in request.resources
        if (resource := (each.resource_type, each.resource_name)) in done
        for config in each.configs
    )


def create_acls(
    image: MetadataImage, request: CreateAclsRequest, response: CreateAclsResponse
) -> bool:
    present = set(image.acls.values())
    return all(
        Acl(*(getattr(asked, name) for name in ACL_FIELDS)) in present
        for asked, said in zip(request.creations, response.results, strict=True)
        if said.error_code == Error.NONE
    )


def delete_acls(image: MetadataImage, _: DeleteAclsRequest, response: DeleteAclsResponse) -> bool:
    gone = {
        Acl(*(getattr(each, name) for name in REMOVED_ACL_FIELDS))
        for result in response.filter_results
        if result.error_code == Error.NONE
        for each in result.matching_acls
    }
    return gone.isdisjoint(image.acls.values())


def elect_leaders(
    image: MetadataImage, request: ElectLeadersRequest, response: ElectLeadersResponse
) -> bool:
    preferred = request.election_type == ELECT_PREFERRED
    return all(
        state is None or state.leader == state.preferred_leader
        if preferred
        else state is None or state.leader != NO_LEADER
        for topic in response.replica_election_results
        for each in topic.partition_result
        if each.error_code == Error.NONE
        for state in (_partition(image, topic.topic, each.partition_id),)
    )


def alter_reassignments(
    image: MetadataImage,
    request: AlterPartitionReassignmentsRequest,
    response: AlterPartitionReassignmentsResponse,
) -> bool:
    done = {
        (topic.name, each.partition_index)
        for topic in response.responses
        for each in topic.partitions
        if each.error_code == Error.NONE
    }
    return response.error_code != Error.NONE or all(
        _is_headed_for(_partition(image, topic.name, each.partition_index), each.replicas)
        for topic in request.topics
        for each in topic.partitions
        if (topic.name, each.partition_index) in done
    )


def alter_client_quotas(
    image: MetadataImage, request: AlterClientQuotasRequest, response: AlterClientQuotasResponse
) -> bool:
    return request.validate_only or all(
        image.client_quotas.get(_entity(asked), {}).get(each.key)
        == (None if each.remove else each.value)
        for asked, said in zip(request.entries, response.entries, strict=True)
        if said.error_code == Error.NONE
        for each in asked.ops
    )


def alter_scram_credentials(
    image: MetadataImage,
    request: AlterUserScramCredentialsRequest,
    response: AlterUserScramCredentialsResponse,
) -> bool:
    done = {each.user for each in response.results if each.error_code == Error.NONE}
    present = image.scram_credentials
    return not any(
        (each.mechanism, each.name) in present for each in request.deletions if each.name in done
    ) and all(
        (credential := present.get((each.mechanism, each.name))) is not None
        and credential.salt == each.salt
        for each in request.upsertions
        if each.name in done
    )


def unregister_broker(
    image: MetadataImage, request: UnregisterBrokerRequest, response: UnregisterBrokerResponse
) -> bool:
    return response.error_code != Error.NONE or request.broker_id not in image.brokers


def update_features(
    image: MetadataImage, request: UpdateFeaturesRequest, response: UpdateFeaturesResponse
) -> bool:
    refused = {each.feature for each in response.results if each.error_code != Error.NONE}
    return (
        request.validate_only
        or response.error_code != Error.NONE
        or all(
            image.features.get(each.feature, 0) == each.max_version_level
            for each in request.feature_updates
            if each.feature not in refused
        )
    )


def _entity(entry: EntryData) -> Entity:
    return entity_of((each.entity_type, each.entity_name) for each in entry.entity)


def _partition_count(image: MetadataImage, name: str) -> int:
    topic = image.topics.get(image.topic_ids.get(name, b""))
    return len(topic.partitions) if topic is not None else 0


def _partition(image: MetadataImage, topic: str, index: int) -> PartitionState | None:
    return image.partition(PartitionId(image.topic_ids.get(topic, b""), index))


def _shows(value: str | None, change: AlterableConfig) -> bool:
    if change.config_operation in (SET, DELETE):
        return value == (change.value if change.config_operation == SET else None)
    present = _items(value)
    if change.config_operation == APPEND:
        return present >= _items(change.value)
    return not present & _items(change.value)


def _items(value: str | None) -> set[str]:
    return {item.strip() for item in (value or "").split(",") if item.strip()}


def _is_headed_for(state: PartitionState | None, replicas: Sequence[int] | None) -> bool:
    """The target is reached, or under way; a cancelled reassignment leaves nothing under way."""
    if state is None:
        return False
    if replicas is None:
        return not state.adding_replicas and not state.removing_replicas
    staying = [each for each in state.replicas if each not in state.removing_replicas]
    return sorted(staying) == sorted(replicas)
