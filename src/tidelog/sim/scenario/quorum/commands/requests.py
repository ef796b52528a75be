"""What clients and brokers ask a controller for."""

from tidelog.core.requests import (
    AlterPartitionRequest,
    ControllerRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    IsrMember,
    IsrProposal,
)
from tidelog.core.types import PartitionId
from tidelog.sim.scenario.quorum.commands.registry import command
from tidelog.sim.scenario.quorum.messages import CLIENT, Call
from tidelog.sim.scenario.quorum.stage import QuorumStage
from tidelog.sim.scenario.quorum.telling import names
from tidelog.sim.scenario.script import ArgumentError, Arguments, list_of, number

REQUESTS = ("CreateTopics", "DeleteTopics")


@command(
    "request", "NODE CreateTopics NAME replicas=(101,102) [partitions=N] | NODE DeleteTopics NAME"
)
def request(stage: QuorumStage, arguments: Arguments) -> None:
    """A client asks this node, whether it is the active controller or not."""
    machine = stage.machine(arguments.word("a node"))
    what = arguments.choice("a request", REQUESTS)
    name = arguments.word("a topic")
    asked: ControllerRequest = DeleteTopicRequest(name)
    if what == "CreateTopics":
        replicas = _brokers("replicas", arguments.option("replicas") or "()")
        count = arguments.number("partitions", 1)
        asked = CreateTopicRequest(name, assignment=(replicas,) * count)
    call = Call(CLIENT, machine.address, "request", asked, f"{what} {name}")
    stage.post_call(call)
    stage.settle()
    if call.response is None and machine.controller is not None:
        machine.note(f"{what} {name} waits for its commit")


@command("propose", "BROKER TOPIC isr=(101,102)")
def propose(stage: QuorumStage, arguments: Arguments) -> None:
    """A leader asks for another in-sync set, in the epochs it knows (AlterPartition)."""
    machine = stage.machine(arguments.word("a broker"))
    topic = arguments.word("a topic")
    isr = _brokers("isr", arguments.option("isr") or "()")
    if machine.broker is None:
        raise ArgumentError(f"{machine.name} is not a broker that runs")
    image = machine.broker.image
    topic_id = image.topic_ids.get(topic)
    state = None if topic_id is None else image.partition(PartitionId(topic_id, 0))
    if state is None:
        raise ArgumentError(f"{machine.name} does not know {topic}")
    members = tuple(IsrMember(b, image.brokers[b].broker_epoch) for b in isr)
    proposal = IsrProposal(state.id, state.leader_epoch, state.partition_epoch, members)
    asked = AlterPartitionRequest(
        machine.key.node_id, machine.broker.lifecycle.broker_epoch, (proposal,)
    )
    text = f"proposes isr={names(isr)} leader-epoch={state.leader_epoch}"
    target = machine.running.leader_id
    stage.post_call(Call(machine.address, target, "proposal", asked, text))


def _brokers(name: str, value: str) -> tuple[int, ...]:
    return tuple(number(name, item) for item in list_of(name, value))
