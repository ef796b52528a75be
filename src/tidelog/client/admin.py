"""Administration: topics, settings, leaders, assignments, the quorum, disks."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidelog.client.client import Client
from tidelog.client.errors import KafkaError, check
from tidelog.core.errors import Error
from tidelog.wire.protocol.schemas import (
    alter_partition_reassignments_request as reassign_request,
)
from tidelog.wire.protocol.schemas import create_partitions_request as partitions_request
from tidelog.wire.protocol.schemas import create_topics_request as create_request
from tidelog.wire.protocol.schemas import delete_topics_request as delete_request
from tidelog.wire.protocol.schemas import describe_configs_request as configs_request
from tidelog.wire.protocol.schemas import describe_quorum_request as quorum_request
from tidelog.wire.protocol.schemas import elect_leaders_request as elect_request
from tidelog.wire.protocol.schemas import incremental_alter_configs_request as alter_request
from tidelog.wire.protocol.schemas.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
)
from tidelog.wire.protocol.schemas.create_partitions_response import CreatePartitionsResponse
from tidelog.wire.protocol.schemas.create_topics_response import CreateTopicsResponse
from tidelog.wire.protocol.schemas.delete_topics_response import DeleteTopicsResponse
from tidelog.wire.protocol.schemas.describe_cluster_request import DescribeClusterRequest
from tidelog.wire.protocol.schemas.describe_cluster_response import DescribeClusterResponse
from tidelog.wire.protocol.schemas.describe_configs_response import DescribeConfigsResponse
from tidelog.wire.protocol.schemas.describe_log_dirs_request import DescribeLogDirsRequest
from tidelog.wire.protocol.schemas.describe_log_dirs_response import DescribeLogDirsResponse
from tidelog.wire.protocol.schemas.describe_quorum_response import (
    DescribeQuorumResponse,
    ReplicaState,
)
from tidelog.wire.protocol.schemas.elect_leaders_response import ElectLeadersResponse
from tidelog.wire.protocol.schemas.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.protocol.schemas.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
)
from tidelog.wire.protocol.schemas.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
)

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
SET, DELETE = 0, 1
PREFERRED, UNCLEAN = 0, 1

METADATA_TOPIC = "__cluster_metadata"

TopicPartition = tuple[str, int]


class NewTopic(NamedTuple):
    name: str
    partitions: int = -1
    """-1: as many as the cluster likes."""
    replication_factor: int = -1
    configs: Mapping[str, str] = {}
    assignment: Mapping[int, Sequence[int]] = {}


class CreatedTopic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    is_default: bool
    read_only: bool
    sensitive: bool
    source: int = -1
    """Kafka's number: 1 the topic, 4 the file of the broker, 5 a default."""
    default: str | None = None
    meaning: str = ""
    """Where it was asked for."""


class ElectionResult(NamedTuple):
    topic: str
    partition: int
    error: int
    message: str

    @property
    def elected(self) -> bool:
        return not self.error


class QuorumReplica(NamedTuple):
    id: int
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumView(NamedTuple):
    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


class ReplicaOnDisk(NamedTuple):
    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    log_dir: str


class RegisteredBroker(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


class Reassignment(NamedTuple):
    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Admin:
    """What an administrator asks of a cluster, through one client."""

    __slots__ = ("client",)

    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def _timeout_ms(self) -> int:
        return self.client.timeout_ms

    async def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> CreatedTopic:
        request = create_request.CreateTopicsRequest(
            topics=[_creatable(topic)], timeout_ms=self._timeout_ms, validate_only=validate_only
        )

        def verdict(answer: CreateTopicsResponse) -> None:
            check(answer.topics[0].error_code, answer.topics[0].error_message)

        answer = await self.client.ask_controller(request, CreateTopicsResponse, verdict)
        made = answer.topics[0]
        return CreatedTopic(made.name, made.topic_id, made.num_partitions, made.replication_factor)

    async def delete_topic(self, name: str) -> None:
        request = delete_request.DeleteTopicsRequest(
            topics=[delete_request.DeleteTopicState(name=name)],
            topic_names=[name],
            timeout_ms=self._timeout_ms,
        )

        def verdict(answer: DeleteTopicsResponse) -> None:
            check(answer.responses[0].error_code, answer.responses[0].error_message)

        await self.client.ask_controller(request, DeleteTopicsResponse, verdict)
        self.client.forget(name)

    async def add_partitions(self, name: str, total: int, *, validate_only: bool = False) -> None:
        """Until the topic has `total` of them."""
        request = partitions_request.CreatePartitionsRequest(
            topics=[
                partitions_request.CreatePartitionsTopic(name=name, count=total, assignments=None)
            ],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )

        def verdict(answer: CreatePartitionsResponse) -> None:
            check(answer.results[0].error_code, answer.results[0].error_message)

        await self.client.ask_controller(request, CreatePartitionsResponse, verdict)
        self.client.forget(name)

    async def configs(self, kind: int, name: str, *, documented: bool = False) -> list[ConfigEntry]:
        """Settings of a topic (TOPIC_RESOURCE) or of a broker (BROKER_RESOURCE); `documented` with
        their defaults and what they mean."""
        request = configs_request.DescribeConfigsRequest(
            resources=[
                configs_request.DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=None
                )
            ],
            include_synonyms=documented,
            include_documentation=documented,
        )

        async def ask() -> DescribeConfigsResponse:
            if kind == BROKER_RESOURCE:
                answer = await self.client.ask_broker(int(name), request, DescribeConfigsResponse)
            else:
                answer = await self.client.ask_any(request, DescribeConfigsResponse)
            check(answer.results[0].error_code, answer.results[0].error_message)
            return answer

        answer = await self.client.retrying(ask)
        return [
            ConfigEntry(
                each.name,
                each.value,
                # Version 0 says is_default; later ones the source: 5 is Kafka's own default.
                each.config_source == 5,
                each.read_only,
                each.is_sensitive,
                each.config_source,
                next((other.value for other in each.synonyms if other.source == 5), None),
                each.documentation or "",
            )
            for each in answer.results[0].configs
        ]

    async def alter_configs(
        self,
        kind: int,
        name: str,
        changes: Mapping[str, str | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set what has a value, take back to the default what has None."""
        request = alter_request.IncrementalAlterConfigsRequest(
            resources=[
                alter_request.AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=[
                        alter_request.AlterableConfig(
                            name=key,
                            config_operation=DELETE if value is None else SET,
                            value=value,
                        )
                        for key, value in changes.items()
                    ],
                )
            ],
            validate_only=validate_only,
        )

        def verdict(answer: IncrementalAlterConfigsResponse) -> None:
            check(answer.responses[0].error_code, answer.responses[0].error_message)

        await self.client.ask_controller(request, IncrementalAlterConfigsResponse, verdict)

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, kind: int = PREFERRED
    ) -> list[ElectionResult]:
        """For these partitions, or for all that need it."""
        by_topic = None if partitions is None else _by_topic(partitions)
        request = elect_request.ElectLeadersRequest(
            election_type=kind,
            topic_partitions=None
            if by_topic is None
            else [
                elect_request.TopicPartitions(topic=topic, partitions=indexes)
                for topic, indexes in by_topic.items()
            ],
            timeout_ms=self._timeout_ms,
        )

        def verdict(answer: ElectLeadersResponse) -> None:
            check(answer.error_code)

        answer = await self.client.ask_controller(request, ElectLeadersResponse, verdict)
        return [
            ElectionResult(
                topic.topic, each.partition_id, each.error_code, each.error_message or ""
            )
            for topic in answer.replica_election_results
            for each in topic.partition_result
        ]

    async def reassign(self, plan: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """New replicas for partitions; None takes a running reassignment back."""
        topics = [
            reassign_request.ReassignableTopic(
                name=topic,
                partitions=[
                    reassign_request.ReassignablePartition(
                        partition_index=index, replicas=plan[topic, index]
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in _by_topic(list(plan)).items()
        ]
        request = reassign_request.AlterPartitionReassignmentsRequest(
            topics=topics, timeout_ms=self._timeout_ms
        )

        def verdict(answer: AlterPartitionReassignmentsResponse) -> None:
            check(answer.error_code, answer.error_message)
            for topic in answer.responses:
                for each in topic.partitions:
                    where = f"{topic.name}-{each.partition_index}"
                    check(each.error_code, f"{where}: {each.error_message or 'refused'}")

        await self.client.ask_controller(request, AlterPartitionReassignmentsResponse, verdict)

    async def reassignments(self) -> list[Reassignment]:
        """Those under way."""

        def verdict(answer: ListPartitionReassignmentsResponse) -> None:
            check(answer.error_code, answer.error_message)

        answer = await self.client.ask_controller(
            ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms),
            ListPartitionReassignmentsResponse,
            verdict,
        )
        return [
            Reassignment(
                topic.name,
                each.partition_index,
                tuple(each.replicas),
                tuple(each.adding_replicas),
                tuple(each.removing_replicas),
            )
            for topic in answer.topics
            for each in topic.partitions
        ]

    async def quorum(self) -> QuorumView:
        request = quorum_request.DescribeQuorumRequest(
            topics=[
                quorum_request.TopicData(
                    topic_name=METADATA_TOPIC,
                    partitions=[quorum_request.PartitionData(partition_index=0)],
                )
            ]
        )

        def verdict(answer: DescribeQuorumResponse) -> None:
            check(answer.error_code, answer.error_message)
            if not answer.topics or not answer.topics[0].partitions:
                raise KafkaError(Error.UNKNOWN_SERVER_ERROR, "an answer without a quorum")
            check(answer.topics[0].partitions[0].error_code)

        answer = await self.client.ask_controller(request, DescribeQuorumResponse, verdict)
        quorum = answer.topics[0].partitions[0]
        return QuorumView(
            quorum.leader_id,
            quorum.leader_epoch,
            quorum.high_watermark,
            tuple(_as_quorum_replica(each) for each in quorum.current_voters),
            tuple(_as_quorum_replica(each) for each in quorum.observers),
        )

    async def log_dirs(self, broker_id: int) -> list[ReplicaOnDisk]:
        """What lies on the disks of one broker; NetworkError if it is not there."""
        answer = await self.client.ask_broker(
            broker_id, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse
        )
        check(answer.error_code)
        return [
            ReplicaOnDisk(
                topic.name,
                each.partition_index,
                each.partition_size,
                each.offset_lag,
                found.log_dir,
            )
            for found in answer.results
            for topic in found.topics
            for each in topic.partitions
            if not each.is_future_key
        ]

    async def registered_brokers(self) -> list[RegisteredBroker]:
        """Also those that are fenced, where the cluster tells (KIP-1073)."""

        async def ask() -> DescribeClusterResponse:
            answer = await self.client.ask_any(
                DescribeClusterRequest(include_fenced_brokers=True), DescribeClusterResponse
            )
            check(answer.error_code, answer.error_message)
            return answer

        answer = await self.client.retrying(ask)
        return [
            RegisteredBroker(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
            for each in sorted(answer.brokers, key=lambda each: each.broker_id)
        ]


def _creatable(topic: NewTopic) -> create_request.CreatableTopic:
    assigned = bool(topic.assignment)
    return create_request.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assigned else topic.partitions,
        replication_factor=-1 if assigned else topic.replication_factor,
        assignments=[
            create_request.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in topic.assignment.items()
        ],
        configs=[
            create_request.CreatableTopicConfig(name=key, value=value)
            for key, value in topic.configs.items()
        ],
    )


def _as_quorum_replica(replica: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        replica.replica_id,
        replica.log_end_offset,
        replica.last_fetch_timestamp,
        replica.last_caught_up_timestamp,
    )


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    return by_topic
