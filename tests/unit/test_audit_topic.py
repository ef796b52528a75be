"""The audit trail as records of a topic: whole, in order, bounded, and never about itself."""

import json

from support.loopback import run
from support.manual_clock import ManualClock
from support.node_views import SeenNode
from tidelog.core import events
from tidelog.host.findings import Findings
from tidelog.observe import audit_topic
from tidelog.observe.audit_topic import AUDIT_TOPIC, FINDING, MOST_PER_BATCH, AuditTopic
from tidelog.observe.render import Renderer
from tidelog.observe.stream import EventStream

CHANGE = events.AdministrativeChange("User:admin", "10.0.0.2", "CreateTopics", "topic orders")


class Written:
    def __init__(self):
        self.stream = EventStream(1, ManualClock())
        self.findings = Findings(self.stream.emit, lambda: 0)
        self.records = []
        self.refuses = False
        renderer = Renderer(SeenNode().topic_name)
        self.topic = AuditTopic(self.stream, renderer, self.produce, self.findings)
        self.stream.subscribe(self.topic.on_event)

    async def produce(self, topic, records):
        assert topic == AUDIT_TOPIC
        if self.refuses:
            raise ConnectionError("no leader")
        self.records.extend(records)

    def tell(self, *told):
        for event in told:
            self.stream.emit(event)

    def write(self):
        run(self.topic.write_batch)

    @property
    def values(self):
        return [json.loads(record.value) for record in self.records]


def denied(topic="orders"):
    return events.AccessDenied("User:bob", "10.0.0.7", "Produce", "WRITE", f"topic {topic}")


def test_refusals_and_changes_become_records_keyed_by_who_it_was_and_nothing_else_does():
    written = Written()
    written.tell(denied(), events.BrokerFenced(2, 7), CHANGE)
    written.write()
    assert [each.key for each in written.records] == [b"User:bob", b"User:admin"]
    refused, changed = written.values
    assert (refused["event"], refused["api"], refused["resource"]) == (
        "AccessDenied",
        "Produce",
        "topic orders",
    )
    assert (changed["event"], changed["subject"], changed["node"]) == (
        "AdministrativeChange",
        "topic orders",
        1,
    )


def test_what_could_not_be_written_waits_and_is_a_finding_meanwhile():
    written = Written()
    written.refuses = True
    written.tell(CHANGE)
    written.write()
    (finding,) = written.findings.all()
    assert (finding.kind, written.topic.failures) == (FINDING, 1)
    written.tell(denied())
    written.refuses = False
    written.write()
    assert [each["event"] for each in written.values] == ["AdministrativeChange", "AccessDenied"]
    assert written.findings.all() == ()


def test_a_node_that_may_not_write_the_trail_does_not_write_about_that():
    written = Written()
    written.tell(denied(AUDIT_TOPIC))
    written.write()
    assert len(written.records) == 1, "somebody else tried to write it"
    written.refuses = True
    written.tell(CHANGE)
    written.write()
    written.tell(denied(AUDIT_TOPIC))
    written.refuses = False
    written.write()
    written.write()
    assert [each["event"] for each in written.values] == ["AccessDenied", "AdministrativeChange"]


def test_a_flood_is_written_in_batches_and_bounded(monkeypatch, caplog):
    monkeypatch.setattr(audit_topic, "MOST_WAITING", MOST_PER_BATCH + 1)
    written = Written()
    written.tell(*[CHANGE] * (MOST_PER_BATCH + 3))
    assert written.topic.dropped == 2
    assert caplog.text.count("are left out") == 1
    written.write()
    assert written.topic.written == MOST_PER_BATCH
    written.write()
    assert written.topic.written == len(written.records) == MOST_PER_BATCH + 1
