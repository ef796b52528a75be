"""What an operator asks the controller for."""

from typing import cast

from tidelog.core.errors import Error
from tidelog.core.types import PartitionId
from tidelog.sim.scenario.commands.registry import command
from tidelog.sim.scenario.disks import TOPIC
from tidelog.sim.scenario.ledger import Ledger
from tidelog.sim.scenario.script import ArgumentError, Arguments, list_of
from tidelog.sim.scenario.stage import Stage
from tidelog.wire.protocol.schemas.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.protocol.schemas.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
)
from tidelog.wire.protocol.schemas.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tidelog.wire.protocol.schemas.create_topics_response import CreateTopicsResponse
from tidelog.wire.protocol.schemas.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tidelog.wire.protocol.schemas.elect_leaders_request import (
    ElectLeadersRequest,
    TopicPartitions,
)
from tidelog.wire.protocol.schemas.elect_leaders_response import ElectLeadersResponse

PREFERRED, UNCLEAN = 0, 1


@command("elect", "preferred|unclean|BROKER")
def elect(stage: Stage, arguments: Arguments) -> None:
    """Ask for an election. A broker's name makes it the preferred replica first."""
    what = arguments.word("preferred, unclean or a broker")
    if what not in ("preferred", "unclean"):
        broker = stage.broker(what).id
        others = tuple(b for b in stage.partition.replicas if b != broker)
        _reassign(stage, (broker, *others))
    request = ElectLeadersRequest(
        election_type=UNCLEAN if what == "unclean" else PREFERRED,
        topic_partitions=[TopicPartitions(topic=TOPIC, partitions=[0])],
    )
    response = cast(ElectLeadersResponse, stage.control.ask(request, 2))
    results = [
        each for topic in response.replica_election_results for each in topic.partition_result
    ]
    for code in (response.error_code, *(each.error_code for each in results)):
        if code:
            stage.narrator.line(f"controller: {Error(code).name}")


@command("reassign", "replicas=(A,B,…) | cancel")
def reassign(stage: Stage, arguments: Arguments) -> None:
    """Move the partition to other brokers, or give up moving it."""
    value = arguments.option("replicas")
    if arguments.flag("cancel"):
        _reassign(stage, None)
    elif value is None:
        raise ArgumentError("replicas= is missing")
    else:
        _reassign(stage, tuple(stage.cast.id_of(name) for name in list_of("replicas", value)))


def _reassign(stage: Stage, replicas: tuple[int, ...] | None) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    topic = ReassignableTopic(name=TOPIC, partitions=[partition])
    answer = stage.control.ask(AlterPartitionReassignmentsRequest(topics=[topic]), 1)
    response = cast(AlterPartitionReassignmentsResponse, answer)
    errors = [(response.error_code, response.error_message)]
    for each in (each for told in response.responses for each in told.partitions):
        errors.append((each.error_code, each.error_message))
    for code, message in errors:
        if code:
            stage.narrator.line(f"controller: {Error(code).name} {message}")


@command("topic", "delete | create replicas=(A,B,…)")
def topic(stage: Stage, arguments: Arguments) -> None:
    """Delete the topic, or create one of the same name: it gets another id."""
    if arguments.choice("what to do", ("delete", "create")) == "delete":
        stage.control.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)]), 6)
        stage.ledger = Ledger()  # the records of a deleted topic are meant to be gone
        return
    value = arguments.option("replicas") or "()"
    replicas = tuple(stage.cast.id_of(name) for name in list_of("replicas", value))
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
    wanted = CreatableTopic(
        name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=[assignment]
    )
    answer = stage.control.ask(CreateTopicsRequest(topics=[wanted]), 7)
    (created,) = cast(CreateTopicsResponse, answer).topics
    if created.error_code:
        error = Error(created.error_code)
        stage.narrator.line(f"controller: {error.name} {created.error_message}")
        return
    stage.partition_id = PartitionId(created.topic_id, 0)
