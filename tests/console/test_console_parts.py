"""Order, gaps, divergence: the parts of the console that need no cluster."""

import asyncio
import re

import pytest

from tidelog.cluster import layout
from tidelog.cluster.layout import Shape
from tidelog.cluster.nodes import LocalNodes
from tidelog.console.causality import in_order
from tidelog.console.console import Console
from tidelog.console.divergence import LogShape, diverges_at
from tidelog.console.model import Model
from tidelog.console.place import Place
from tidelog.console.record_pages import value_of
from tidelog.console.ring import EVENT, Cursor, Entry, Ring
from tidelog.console.stream_api import Telling, parse_watch


def told(node, number, kind="BrokerFenced", wall_ms=0, **fields):
    head = {"node": node, "stream": 7, "number": number, "kind": kind, "wall_ms": wall_ms}
    return {**head, **fields}


def entry(node, number):
    return Entry(EVENT, node, told(node, number))


def of_orders(node, number, kind, **fields):
    where = {"partition": "orders-0", "topic": "orders", "index": 0}
    return told(node, number, kind, **{**where, **fields})


# ---- order


def test_a_leader_leads_after_it_was_elected_whatever_the_clocks_say():
    elected = of_orders(3, 9, "LeaderElected", wall_ms=900, leader_epoch=4, partition_epoch=6)
    leads = of_orders(1, 2, "BecameLeader", wall_ms=100, broker=1, leader_epoch=4)
    follows = of_orders(2, 5, "BecameFollower", wall_ms=50, broker=2, leader_epoch=4)
    merged = in_order({1: [leads], 2: [follows], 3: [elected]})
    assert [each["kind"] for each in merged] == ["LeaderElected", "BecameLeader", "BecameFollower"]


def test_a_log_is_cut_after_the_leader_said_where_it_diverges():
    said = of_orders(1, 1, "FetchDiverged", wall_ms=500, broker=1, replica=2)
    cut = of_orders(2, 1, "LogTruncated", wall_ms=10, broker=2)
    assert in_order({1: [said], 2: [cut]}) == [said, cut]


def test_the_order_of_a_node_is_never_changed():
    first = told(1, 1, wall_ms=900)
    second = told(1, 2, wall_ms=100)
    other = told(2, 1, wall_ms=500)
    assert in_order({1: [first, second], 2: [other]}) == [other, first, second]


# ---- the ring


def test_who_comes_back_in_time_is_told_exactly_what_was_missed():
    ring = Ring(kept=6)
    for number in range(1, 4):
        ring.append(entry(1, number))
        ring.append(entry(2, number))
    gaps, entries = ring.after(Cursor.parse("1:7-2,2:7-3"))
    assert gaps == []
    assert [(each.node, each.data["number"]) for each in entries] == [(1, 3)]


def test_who_comes_back_late_is_told_how_much_is_gone():
    ring = Ring(kept=2)
    for number in range(1, 6):
        ring.append(entry(1, number))
    gaps, entries = ring.after(Cursor.parse("1:7-1"))
    assert [each.data for each in gaps] == [{"node": 1, "missed": 2}]
    assert [each.data["number"] for each in entries] == [4, 5]
    assert ring.missed_before(1) == 2


def test_numbers_of_another_process_are_no_place_in_this_one():
    ring = Ring()
    ring.append(entry(1, 1))
    gaps, _ = ring.after(Cursor.parse("1:6-1"))
    assert [each.data for each in gaps] == [{"node": 1, "missed": None}]
    gaps, _ = ring.after(Cursor.parse("9:7-1"))
    assert [each.data for each in gaps] == [{"node": 9, "missed": None}]


@pytest.mark.parametrize("text", ["x", "1:2", "1:2-x", "one:2-3", "1-2"])
def test_what_is_no_cursor_is_refused(text):
    with pytest.raises(ValueError, match="is not the id"):
        Cursor.parse(text)


def test_who_falls_behind_the_ring_is_told_of_the_gap_and_then_how_things_are(tmp_path):
    """A viewer has no queue: while it takes nothing, only the ring goes on."""

    async def story():
        nodes = LocalNodes(tmp_path, layout.create(tmp_path, "test", Shape(1)))  # none of them runs
        console = Console(Place("test", "127.0.0.1:1", nodes=nodes))
        hub = console.hub
        hub.ring = Ring(kept=4)
        session = console.sessions.find(None)
        messages = Telling(console, session, parse_watch("events"), hub).messages(None)
        kinds = [kind_of(await anext(messages)) for _ in range(2)]
        for number in range(1, 9):
            hub.on_event(1, told(1, number), is_history=True)
        hub.on_gap(1, None)
        while (kind := kind_of(await anext(messages))) in ("comment", "frame", "node"):
            continue
        kinds += [kind, kind_of(await anext(messages))]
        await messages.aclose()
        await console.close()
        return kinds

    kinds = asyncio.run(asyncio.wait_for(story(), 60))
    assert kinds == ["comment", "snapshot", "gap", "snapshot"]


def kind_of(message):
    found = re.search(rb"^event: (\w+)$", message, re.MULTILINE)
    return found.group(1).decode() if found else "comment"


# ---- divergence


@pytest.mark.parametrize(
    ("replica", "leader", "leader_epoch", "place"),
    [
        # The story of ux.md: two records of epoch 0 that nobody else has.
        (LogShape([(0, 0)], 0, 5), LogShape([(0, 0), (1, 3)], 0, 4), 1, 3),
        (LogShape([(0, 0)], 0, 5), LogShape([(0, 0)], 0, 3), 1, 3),
        (LogShape([(0, 0)], 0, 3), LogShape([(0, 0), (1, 3)], 0, 4), 1, None),
        # Looked at a moment later than its leader.
        (LogShape([(0, 0)], 0, 6), LogShape([(0, 0)], 0, 5), 0, None),
        (LogShape([(0, 0), (2, 4)], 0, 8), LogShape([(0, 0), (1, 4), (3, 6)], 0, 9), 3, 4),
        (LogShape([], 0, 0), LogShape([(0, 0)], 0, 5), 0, None),
    ],
)
def test_a_replica_differs_from_where_its_epochs_do(replica, leader, leader_epoch, place):
    assert diverges_at(replica, leader, leader_epoch) == place


# ---- the model


def seen(role="leader", **changes):
    whole = {
        "topic": "orders",
        "partition": 0,
        "role": role,
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "replicas": [1, 2],
        "isr": [1, 2],
        "min_isr": 1,
        "log_start_offset": 0,
        "high_watermark": 5,
        "log_end_offset": 5,
        "parked_produces": 0,
        "followers": [],
        "under_replicated_since_ms": None,
    }
    return {**whole, **changes}


def test_counts_follow_every_change_and_every_loss():
    model = Model()
    model.look(1, seen(), 1_000)
    assert (model.leaders[1], model.replicas[2], model.unwell) == (1, 1, {})
    change = {"isr": [1], "previous": [1, 2], "partition_epoch": 1}
    model.apply(of_orders(1, 1, "IsrChanged", wall_ms=2_000, broker=1, **change))
    assert model.count_of("under-replicated") == 1
    assert model.partitions["orders", 0].since_ms == 2_000
    model.forget([("orders", 0)])
    assert (model.unwell, model.leaders[1], model.topics) == ({}, 0, {})


def test_what_an_old_leader_says_does_not_undo_an_election():
    model = Model()
    model.look(1, seen(), 1_000)
    election = {"previous": 1, "leader": 2, "leader_epoch": 1, "partition_epoch": 1, "isr": [2]}
    model.apply(of_orders(3, 1, "LeaderElected", wall_ms=2_000, **election))
    model.look(1, seen(), 3_000)
    partition = model.partitions["orders", 0]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 1, (2,))


# ---- values


def test_values_are_shown_in_every_form_they_have():
    assert value_of(None)["length"] == -1
    assert value_of(b"\xff")["text"] is None
    assert value_of(b'{"a": NaN}')["json"] == {"a": "NaN"}
    assert value_of(b"[" * 4_000)["json"] is None
    long = value_of("ü".encode() * 4_000)
    assert (long["length"], long["truncated"], long["text"][0]) == (8_000, True, "ü")
