"""The trace: a ring of happenings, columns of node states, and the story they make."""

from typing import NamedTuple

import pytest

from tidelog.core import events
from tidelog.core.types import PartitionId
from tidelog.observe import sentences
from tidelog.sim import happenings, story
from tidelog.sim.fault_words import describe_fault
from tidelog.sim.faults import AIMS, KINDS, Fault
from tidelog.sim.kernel import Kernel
from tidelog.sim.marks import MARKS
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
    trace.happened(1, happenings.NodeStopped(1, "power loss", 3))
    at(kernel, 3_790)
    trace.happened(NOWHERE, events.LeaderElected(ORDERS, 1, 3, 3, 9, (3, 2), False))
    trace.happened(3, events.BecameLeader(ORDERS, 3, 3, 7, 5))
    at(kernel, 5_000)
    trace.set_state(1, UP)
    trace.happened(1, happenings.NodeStarted(1))
    trace.happened(1, events.LogTruncated(ORDERS, 1, 9, 7, False))
    assert list(trace.story()) == [
        "   3.120s  ♛ . . . .   orders-0 broker 1 leads, leader epoch 2 from offset 7,"
        " high watermark 5",
        "   3.377s  ✗ . . . .   node 1 loses its power, 3 records lost",
        "   3.790s  ✗ . . . .   orders-0 leader 3 (was 1) elected, leader epoch 3, ISR 3,2,"
        " partition epoch 9",
        "   3.790s  ✗ . ♛ . .   orders-0 broker 3 leads, leader epoch 3 from offset 7,"
        " high watermark 5",
        "   5.000s  ↑ . . . .   node 1 starts",
        "   5.000s  ↓ . . . .   orders-0 follower 1 truncates its log, end 9 → 7",
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


def test_every_event_and_happening_has_its_own_sentence():
    told = {*sentences._SENTENCES, *story._TELLERS}
    assert set(events.Event.__args__) <= set(sentences._SENTENCES)
    assert set(happenings.Happening.__args__) <= told
    assert set(story.SILENT) <= told


class SeatsCounted(NamedTuple):
    partition: PartitionId
    broker: int
    seats_left: tuple[int, ...]


def test_a_fact_without_a_sentence_is_told_by_its_name_and_fields():
    _, trace = traced()
    trace.happened(1, SeatsCounted(ORDERS, 3, (2, 1)))
    assert next(iter(trace.story())).endswith("orders-0 seats counted: broker 3, seats left 2,1")


def test_faults_read_as_orders():
    assert describe_fault(Fault(0, "crash", (3,), 1_200)) == "crash node 3 for 1.2 s"
    aimed = Fault(0, "isolate", (2,), 300, (1,), "leader", 0, 1)
    assert describe_fault(aimed, ["orders"]) == (
        "cut the leader of orders-1 (else node 2) off from all nodes and clients for 300 ms"
    )
    assert describe_fault(Fault(0, "trim", (), 0, (500,), "", 1, 2), ["orders", "payments"]) == (
        "delete 50 % of the committed records of payments-2"
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("aim", ["", *AIMS])
def test_every_fault_can_be_said_whatever_was_drawn(kind, aim):
    text = describe_fault(Fault(0, kind, (1, 2), 70, (3, 1, 1, 1), aim), ["orders"])
    assert "_" not in text
    assert "{" not in text
    assert text.endswith("for 70 ms")


def test_a_story_leaves_out_the_roles_in_which_a_node_only_waits():
    _, trace = traced()
    for role in ("unattached", "prospective", "candidate", "leader", "follower", "resigned"):
        trace.happened(2, events.QuorumRoleChanged(2, "unattached", role, 4))
    assert [line.split("   ")[-1] for line in trace.story()] == [
        "node 2 campaigns for the metadata quorum, epoch 4",
        "node 2 resigns as leader of the metadata quorum, epoch 4",
    ]


def test_a_mark_is_told_with_its_sentence_on_request():
    _, trace = traced()
    trace.happened(NOWHERE, happenings.MarkReached("elr_elected"))
    assert list(trace.story()) == []
    told = next(iter(trace.story(everything=True)))
    assert told.endswith(f"mark elr_elected: {MARKS['elr_elected']}")


def test_a_committed_isr_is_told_with_who_may_still_lead():
    _, trace = traced()
    trace.happened(1, events.IsrCommitted(ORDERS, (1, 2), (2,), (1,), 7))
    trace.happened(1, events.IsrCommitted(ORDERS, (2,), (2,), (), 8))
    assert [line.split("   ")[-1] for line in trace.story()] == [
        "orders-0 ISR 1,2 → 2, eligible leader replicas 1, partition epoch 7",
        "orders-0 eligible leader replicas nobody from now on, ISR stays 2, partition epoch 8",
    ]
