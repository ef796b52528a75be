"""What clients and brokers ask a controller for."""

from tidelog.broker.control.controller_messages import alter_partition_message
from tidelog.core.requests import AlterPartitionRequest, IsrMember, IsrProposal
from tidelog.core.types import PartitionId
from tidelog.sim.scenario.quorum.commands.registry import command
from tidelog.sim.scenario.quorum.stage import QuorumStage
from tidelog.sim.scenario.quorum.telling import names
from tidelog.sim.scenario.script import ArgumentError, Arguments, list_of, number
from tidelog.sim.scenario.wires import CLIENT
from tidelog.wire.protocol import Message
from tidelog.wire.protocol.schemas.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tidelog.wire.protocol.schemas.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)

REQUESTS = ("CreateTopics", "DeleteTopics")
PATIENCE_MS = 600_000


@command(
    "request", "NODE CreateTopics NAME replicas=(101,102) [partitions=N] | NODE DeleteTopics NAME"
)
def request(stage: QuorumStage, arguments: Arguments) -> None:
    """A client asks this node, whether it is the active controller or not."""
    machine = stage.machine(arguments.word("a node"))
    what = arguments.choice("a request", REQUESTS)
    name = arguments.word("a topic")
    asked: Message = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], timeout_ms=PATIENCE_MS
    )
    version = 6
    if what == "CreateTopics":
        replicas = _brokers("replicas", arguments.option("replicas") or "()")
        asked, version = _create(name, replicas, arguments.number("partitions", 1)), 7
    question = stage.ask(machine, asked, version, CLIENT, f"{what} {name}")
    stage.settle()
    if question.is_open and machine.node is not None:
        machine.note(f"{what} {name} waits for its commit")


def _create(name: str, replicas: tuple[int, ...], count: int) -> CreateTopicsRequest:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
        for index in range(count)
    ]
    topic = CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=PATIENCE_MS)


@command("propose", "BROKER TOPIC isr=(101,102)")
def propose(stage: QuorumStage, arguments: Arguments) -> None:
    """A leader asks for another in-sync set, in the epochs it knows (AlterPartition)."""
    machine = stage.machine(arguments.word("a broker"))
    topic = arguments.word("a topic")
    isr = _brokers("isr", arguments.option("isr") or "()")
    if machine.member is None:
        raise ArgumentError(f"{machine.name} is not a broker that runs")
    image = machine.image
    topic_id = image.topic_ids.get(topic)
    state = None if topic_id is None else image.partition(PartitionId(topic_id, 0))
    if state is None:
        raise ArgumentError(f"{machine.name} does not know {topic}")
    members = tuple(IsrMember(b, image.brokers[b].broker_epoch) for b in isr)
    proposal = IsrProposal(state.id, state.leader_epoch, state.partition_epoch, members)
    epoch = image.brokers[machine.node_id].broker_epoch
    asked, version = alter_partition_message(
        AlterPartitionRequest(machine.node_id, epoch, (proposal,))
    )
    text = f"proposes isr={names(isr)} leader-epoch={state.leader_epoch}"
    target = stage.machines[machine.member.leader_id]
    stage.ask(target, asked, version, machine.address, text)


def _brokers(name: str, value: str) -> tuple[int, ...]:
    return tuple(number(name, item) for item in list_of(name, value))
