"""Who was refused what, and who changed what."""

from support.controller_node import controller_node
from support.loopback import run
from tidelog.core import events
from tidelog.core.security.acls import Operation, ResourceType
from tidelog.core.security.principal import Principal
from tidelog.node import audit
from tidelog.node.audit import REPEATED_MS, Refusals
from tidelog.observe.sentences import sentence
from tidelog.rpc import Caller
from tidelog.rpc.authorization.gate import Refusal
from tidelog.wire.protocol.schemas.create_topics_request import (
    CreatableTopic,
    CreateTopicsRequest,
)
from tidelog.wire.protocol.schemas.create_topics_response import CreateTopicsResponse

ALICE = Caller("PLAINTEXT", "10.0.0.7", Principal("User", "alice"))
REFUSAL = Refusal(ALICE, "Produce", Operation.WRITE, ResourceType.TOPIC, "orders")


class Trail:
    def __init__(self):
        self.now_ms = 0
        self.events = []
        self.refusals = Refusals(self.events.append, lambda: self.now_ms)

    def told(self):
        return [sentence(event, str) for event in self.events]


def test_a_refusal_is_told_at_once_and_then_summed_up():
    trail = Trail()
    for _ in range(5):
        trail.refusals.on_refused(REFUSAL)
    trail.refusals.on_refused(REFUSAL._replace(name="bills"))
    trail.now_ms = REPEATED_MS
    trail.refusals.on_refused(REFUSAL)
    assert trail.told() == [
        "User:alice from 10.0.0.7 may not WRITE topic orders (Produce)",
        "User:alice from 10.0.0.7 may not WRITE topic bills (Produce)",
        "User:alice from 10.0.0.7 may not WRITE topic orders (Produce, 5 times)",
    ]
    assert trail.refusals.total == 7


def test_made_up_names_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(audit, "REMEMBERED_MAX", 10)
    trail = Trail()
    for number in range(100):
        trail.refusals.on_refused(REFUSAL._replace(name=f"made up {number}"))
        assert len(trail.refusals._told) <= 10
    assert len(trail.events) == 100


def topics(*names, **given):
    wanted = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=wanted, **given)


def test_every_change_is_told_with_who_asked_for_it():
    async def story():
        async with controller_node() as node:
            await node.start_brokers(1)
            node.events.clear()
            await node.ask(topics("a", "b", "c", "d", "bad name"), 7, CreateTopicsResponse)
            await node.ask(topics("e", validate_only=True), 7, CreateTopicsResponse)
            await node.ask(topics("a"), 7, CreateTopicsResponse)
            changes = [
                each for each in node.events if isinstance(each, events.AdministrativeChange)
            ]
            assert [sentence(each, str) for each in changes] == [
                "User:ANONYMOUS from 127.0.0.1: CreateTopics, topic a, topic b, topic c and 1 more"
            ]

    run(story)
