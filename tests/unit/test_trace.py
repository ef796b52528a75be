"""The trace: a ring of happenings, columns of node states, and the story they make."""

from typing import NamedTuple

from tidelog.core import events
from tidelog.core.types import PartitionId
from tidelog.sim import happenings, story
from tidelog.sim.faults import KINDS, Fault
from tidelog.sim.kernel import Kernel
from tidelog.sim.trace import DOWN, NOWHERE, UP, Trace

ORDERS = PartitionId(b"\x01" * 16, 0)


def traced(nodes=5, ring_size=None):
    kernel = Kernel()
    trace = Trace(kernel, nodes, ring_size=ring_size)
    trace.name_topic(ORDERS.topic_id, "orders")
    return kernel, trace


def at(kernel, at_ms):
    kernel.run(at_ms * 1000, 1 << 40)


def test_a_story_has_one_line_per_event_and_a_fixed_column_per_node():
    kernel, trace = traced()
    at(kernel, 3_120)
    trace.happened(1, events.BecameLeader(ORDERS, 1, 2, 7, 5))
    at(kernel, 3_377)
    trace.set_state(1, DOWN)
    trace.happened(1, happenings.NodeStopped(1, "power_loss", 3))
    at(kernel, 3_790)
    trace.happened(NOWHERE, events.LeaderElected(ORDERS, 1, 3, 3, 9, (3, 2), False))
    trace.happened(3, events.BecameLeader(ORDERS, 3, 3, 7, 5))
    at(kernel, 5_000)
    trace.set_state(1, UP)
    trace.happened(1, happenings.NodeStarted(1))
    trace.happened(1, events.LogTruncated(ORDERS, 1, 9, 7, False))
    assert list(trace.story()) == [
        "   3.120s  ♛ . . . .   orders-0 leads, leader epoch 2 from 7, high watermark 5",
        "   3.377s  ✗ . . . .   node 1 power loss, 3 records lost",
        "   3.790s  ✗ . . . .   orders-0 leader 3 (was 1), leader epoch 3, ISR 3,2,"
        " partition epoch 9",
        "   3.790s  ✗ . ♛ . .   orders-0 leads, leader epoch 3 from 7, high watermark 5",
        "   5.000s  ↑ . . . .   node 1 starts",
        "   5.000s  ↓ . . . .   orders-0 truncated 9 → 7",
    ]


def test_what_happens_too_often_is_told_only_on_request():
    _, trace = traced()
    trace.happened(2, events.HighWatermarkAdvanced(ORDERS, 2, 4, 5))
    trace.happened(2, happenings.Note("worth a line"))
    assert len(list(trace.story())) == 1
    assert len(list(trace.story(everything=True))) == 2


def test_the_ring_keeps_the_last_happenings_and_the_digest_all():
    _, small = traced(ring_size=2)
    _, large = traced(ring_size=None)
    for number in range(5):
        small.happened(1, happenings.Note(f"note {number}"))
        large.happened(1, happenings.Note(f"note {number}"))
    assert [line.split("   ")[-1] for line in small.story()] == ["note 3", "note 4"]
    assert list(large.story(last=2)) == list(small.story())
    assert small.hexdigest() == large.hexdigest()


def test_the_digest_sees_a_different_fact_and_a_different_order():
    def digest(*facts):
        _, trace = traced()
        for fact in facts:
            trace.happened(1, fact)
        return trace.hexdigest()

    fenced, unfenced = events.BrokerFenced(1, 5), events.BrokerUnfenced(1, 5)
    assert digest(fenced) == digest(events.BrokerFenced(1, 5))
    # Equal as tuples, different as facts.
    assert fenced == unfenced
    assert digest(fenced) != digest(unfenced)
    assert digest(fenced, unfenced) != digest(unfenced, fenced)


def test_a_number_given_as_a_fact_changes_the_digest_and_not_the_story():
    _, trace = traced()
    _, other = traced()
    trace.fact(17)
    assert trace.hexdigest() != other.hexdigest()
    assert list(trace.story()) == []


def test_every_happening_of_the_simulator_has_its_own_sentence():
    assert set(happenings.Happening.__args__) <= set(story._TELLERS)
    assert set(story.SILENT) <= set(story._TELLERS)


class SeatsCounted(NamedTuple):
    partition: PartitionId
    broker: int
    seats_left: tuple[int, ...]


def test_a_fact_without_a_sentence_is_told_by_its_name_and_fields():
    _, trace = traced()
    trace.happened(1, SeatsCounted(ORDERS, 3, (2, 1)))
    assert next(iter(trace.story())).endswith("orders-0 seats counted: broker 3, seats left 2,1")


def test_faults_read_as_orders():
    assert story.describe_fault(Fault(0, "crash", (3,), 1_200)) == "crash 3 for 1.2 s"
    aimed = Fault(0, "isolate", (2,), 300, (1,), "leader", 0, 1)
    assert story.describe_fault(aimed) == "isolate leader of topic 0 p1 (or 2) for 0.3 s [1]"
    assert all(story.describe_fault(Fault(0, kind)).startswith(kind) for kind in KINDS)
