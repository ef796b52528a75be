"""Events as records of a topic: whole, in order, bounded, and never about themselves."""

import asyncio
import json

from support.loopback import run
from support.manual_clock import ManualClock
from support.node_views import SeenNode
from tidelog.core import events
from tidelog.core.types import PartitionId
from tidelog.observe.event_topic import EVENTS_TOPIC, MOST_PER_BATCH, MOST_WAITING, EventTopic
from tidelog.observe.render import Renderer
from tidelog.observe.stream import EventStream

ORDERS = PartitionId(b"o" * 16, 0)
ITSELF = PartitionId(b"e" * 16, 0)


class Written:
    def __init__(self):
        self.stream = EventStream(1, ManualClock())
        self.batches = []
        self.refuses = False
        self.meanwhile = []
        self.topic = EventTopic(self.stream, Renderer(SeenNode().topic_name), self.produce)
        self.stream.subscribe(self.topic.on_event)

    async def produce(self, topic, records):
        assert topic == EVENTS_TOPIC
        if self.refuses:
            raise ConnectionError("no leader")
        while self.meanwhile:
            self.tell(self.meanwhile.pop())
        self.batches.append(list(records))

    def tell(self, *told):
        for event in told:
            self.stream.emit(event)
            self.stream.flush()

    def write(self):
        run(self.topic.write_batch)

    @property
    def values(self):
        return [json.loads(record.value) for batch in self.batches for record in batch]


def fenced(broker):
    return events.BrokerFenced(broker, 7)


def raised(previous, high_watermark, partition=ORDERS):
    return events.HighWatermarkAdvanced(partition, 1, previous, high_watermark)


def test_an_event_becomes_a_record_keyed_by_what_it_is_about():
    written = Written()
    written.tell(fenced(2), events.BecameLeader(ORDERS, 1, 4, 10, 8))
    written.write()
    first, second = written.batches[0]
    assert (first.key, second.key) == (b"broker-2", b"orders-0")
    assert first.timestamp_ms == 1_000_000
    value = json.loads(second.value)
    assert (value["node"], value["number"], value["event"]) == (1, 2, "BecameLeader")
    assert value["leader_epoch"] == 4
    assert value["stream"] == written.stream.started_ms


def test_the_events_of_a_transaction_are_keyed_by_its_id():
    written = Written()
    written.tell(events.TransactionAborted("payments", 7, 2, "timed out"))
    written.write()
    (aborted,) = written.batches[0]
    assert aborted.key == b"transactional-id-payments"
    assert [value["text"] for value in written.values] == [
        "transaction of payments is aborted in 2 partitions, producer 7: timed out",
    ]


def test_what_happens_to_a_group_is_keyed_by_the_group():
    written = Written()
    written.tell(
        events.GroupStateChanged("readers", "Stable", 3, 1, "assigned"),
        events.MemberLeft("readers", "ann", "session expired"),
    )
    written.write()
    assert {record.key for record in written.batches[0]} == {b"group-readers"}
    assert [value["text"] for value in written.values] == [
        "group readers is Stable, generation 3, 1 member: assigned",
        "group readers loses member ann: session expired",
    ]


def test_nothing_is_written_when_nothing_happened():
    written = Written()
    written.write()
    assert written.batches == []


def test_watermarks_of_one_partition_are_one_record_per_batch():
    written = Written()
    written.tell(raised(0, 1), raised(1, 2), raised(2, 3))
    written.write()
    assert [(v["previous"], v["high_watermark"]) for v in written.values] == [(0, 3)]


def appended(base_offset, next_offset, leader_epoch):
    return events.RecordsAppended(ORDERS, 1, base_offset, next_offset, leader_epoch)


def test_appends_are_one_record_per_batch_but_the_first_of_a_leader_epoch_stands_alone():
    written = Written()
    written.tell(appended(0, 1, 4), appended(1, 2, 4), appended(2, 5, 4))
    written.tell(appended(5, 6, 5), appended(6, 8, 5), appended(8, 9, 5))
    written.write()
    told = [(v["base_offset"], v["next_offset"], v["leader_epoch"]) for v in written.values]
    assert told == [(0, 1, 4), (1, 5, 4), (5, 6, 5), (6, 9, 5)]


def test_what_the_topic_itself_appends_is_not_told_in_it():
    written = Written()
    written.tell(raised(0, 1, ITSELF), events.RecordsAppended(ITSELF, 1, 0, 1, 0))
    written.tell(events.BecameLeader(ITSELF, 1, 4, 10, 8))
    written.write()
    assert [value["event"] for value in written.values] == ["BecameLeader"]


def test_a_refused_batch_waits_and_is_written_later():
    written = Written()
    written.refuses = True
    written.tell(fenced(1))
    written.write()
    assert (written.topic.failures, written.topic.written) == (1, 0)
    written.refuses = False
    written.tell(fenced(2))
    written.write()
    assert [value["broker"] for value in written.values] == [1, 2]
    assert written.topic.written == 2


def test_a_watermark_that_moves_while_its_batch_is_written_is_told_by_the_next():
    written = Written()
    written.tell(raised(0, 1))
    written.meanwhile = [raised(1, 5)]
    written.write()
    written.write()
    assert written.values[-1]["high_watermark"] == 5


def test_what_cannot_be_kept_is_dropped_and_counted():
    written = Written()
    written.refuses = True
    written.tell(*(fenced(broker) for broker in range(MOST_WAITING + 30)))
    assert written.topic.dropped == 30
    written.refuses = False
    written.write()
    assert len(written.batches[0]) == MOST_PER_BATCH


def test_it_writes_by_the_clock_until_it_is_stopped(monkeypatch):
    monkeypatch.setattr("tidelog.observe.event_topic.BATCH_MS", 1)

    async def story():
        written = Written()
        topic = EventTopic(written.stream, Renderer(SeenNode().topic_name), written.produce)
        topic.start()
        written.stream.emit(fenced(1))
        while not written.batches:
            await asyncio.sleep(0.001)
        await topic.stop()
        written.stream.emit(fenced(2))
        assert topic.written == 1

    run(story)
