"""What an operator asks the controller for."""

from tidelog.core.errors import Error
from tidelog.core.requests import (
    ELECT_PREFERRED,
    ELECT_UNCLEAN,
    AdminResponse,
    AlterReassignmentRequest,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteTopicRequest,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from tidelog.core.types import PartitionId
from tidelog.sim.scenario.commands.registry import command
from tidelog.sim.scenario.ledger import Ledger
from tidelog.sim.scenario.script import ArgumentError, Arguments, list_of
from tidelog.sim.scenario.stage import TOPIC, Stage


@command("elect", "preferred|unclean|BROKER")
def elect(stage: Stage, arguments: Arguments) -> None:
    """Ask for an election. A broker's name makes it the preferred replica first."""
    what = arguments.word("preferred, unclean or a broker")
    if what not in ("preferred", "unclean"):
        broker = stage.broker(what).id
        others = tuple(b for b in stage.partition.replicas if b != broker)
        _reassign(stage, (broker, *others))
    election = ELECT_UNCLEAN if what == "unclean" else ELECT_PREFERRED
    response = stage.control.ask(ElectLeadersRequest(election, (stage.partition.id,)))
    assert isinstance(response, ElectLeadersResponse), response
    for error in (response.error, *(error for _, error in response.results)):
        if error is not Error.NONE:
            stage.narrator.line(f"controller: {error.name}")


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
    response = stage.control.ask(AlterReassignmentRequest(stage.partition.id, replicas))
    assert isinstance(response, AdminResponse), response
    if response.error is not Error.NONE:
        stage.narrator.line(f"controller: {response.error.name} {response.message}")


@command("topic", "delete | create replicas=(A,B,…)")
def topic(stage: Stage, arguments: Arguments) -> None:
    """Delete the topic, or create one of the same name: it gets another id."""
    if arguments.choice("what to do", ("delete", "create")) == "delete":
        response = stage.control.ask(DeleteTopicRequest(TOPIC))
        assert isinstance(response, AdminResponse), response
        stage.ledger = Ledger()  # the records of a deleted topic are meant to be gone
        return
    value = arguments.option("replicas") or "()"
    replicas = tuple(stage.cast.id_of(name) for name in list_of("replicas", value))
    created = stage.control.ask(CreateTopicRequest(TOPIC, assignment=(replicas,)))
    assert isinstance(created, CreateTopicResponse), created
    if created.error is not Error.NONE:
        stage.narrator.line(f"controller: {created.error.name} {created.message}")
        return
    stage.partition_id = PartitionId(created.topic_id, 0)
