"""The event stream of a node: numbered, kept, coalesced, rendered and written to the log."""

import json
import logging

import pytest

from support.manual_clock import ManualClock
from tidelog.core import events
from tidelog.core.types import PartitionId
from tidelog.host.timers import TimerWheel
from tidelog.observe import journal
from tidelog.observe.journal import Journal, JournalHandler
from tidelog.observe.render import Renderer, iso
from tidelog.observe.stream import KEPT_EVENTS, EventStream

ORDERS = PartitionId(b"o" * 16, 0)
OTHER = PartitionId(b"x" * 16, 3)
RENDERER = Renderer({ORDERS.topic_id: "orders"}.get)
NOON_MS = 1_794_830_400_123


def fenced(broker):
    return events.BrokerFenced(broker, 7)


def raised(previous, high_watermark, partition=ORDERS):
    return events.HighWatermarkAdvanced(partition, 1, previous, high_watermark)


class Told:
    """A stream on a clock the test moves, with everything a subscriber was told."""

    def __init__(self):
        self.clock = ManualClock(NOON_MS)
        self.wheel = TimerWheel(self.clock)
        self.stream = EventStream(1, self.clock, self.wheel)
        self.seen = []
        self.unsubscribe = self.stream.subscribe(self.seen.append)

    def pass_time(self, by_ms):
        self.clock.advance(by_ms)
        self.wheel.fire_due()

    @property
    def events(self):
        return [numbered.event for numbered in self.seen]


def test_events_are_numbered_from_one_and_dated():
    told = Told()
    told.stream.emit(fenced(2))
    told.pass_time(10)
    told.stream.emit(fenced(3))
    assert [(n.number, n.wall_ms, n.event.broker) for n in told.seen] == [
        (1, NOON_MS, 2),
        (2, NOON_MS + 10, 3),
    ]


def test_who_comes_late_reads_what_is_kept_after_the_number_it_knows():
    told = Told()
    for broker in range(5):
        told.stream.emit(fenced(broker))
    backlog = told.stream.since(3)
    assert backlog.missed == 0
    assert [n.number for n in backlog.events] == [4, 5]
    assert told.stream.since(5).events == ()
    assert [n.number for n in told.stream.since(1, limit=2).events] == [2, 3]


def test_who_comes_too_late_is_told_how_much_is_missing():
    told = Told()
    for broker in range(KEPT_EVENTS + 25):
        told.stream.emit(fenced(broker))
    backlog = told.stream.since(10)
    assert backlog.missed == 15
    assert len(backlog.events) == KEPT_EVENTS
    assert backlog.events[0].number == 26
    assert told.stream.since(25).missed == 0


@pytest.mark.parametrize("number", [-1, 3])
def test_a_number_that_was_never_given_out_is_a_gap_of_unknown_size(number):
    told = Told()
    told.stream.emit(fenced(1))
    told.stream.emit(fenced(2))
    backlog = told.stream.since(number)
    assert backlog.missed == -1
    assert [n.number for n in backlog.events] == [1, 2]


def test_a_busy_partition_is_told_of_twenty_times_a_second_and_ends_with_the_truth():
    told = Told()
    for step in range(1000):
        told.stream.emit(raised(step, step + 1))
        told.pass_time(1)
    told.pass_time(50)
    assert len(told.events) <= 21
    assert told.events[0].previous == 0
    assert told.events[-1].high_watermark == 1000
    for earlier, later in zip(told.events, told.events[1:], strict=False):
        assert later.previous == earlier.high_watermark


def test_a_flood_of_watermarks_pushes_nothing_out_of_the_ring():
    told = Told()
    told.stream.emit(fenced(2))
    for step in range(3 * KEPT_EVENTS):
        told.stream.emit(raised(step, step + 1))
    told.stream.flush()
    backlog = told.stream.since(0)
    assert backlog.missed == 0
    assert [type(n.event).__name__ for n in backlog.events] == [
        "BrokerFenced",
        "HighWatermarkAdvanced",
    ]


def test_partitions_are_coalesced_apart():
    told = Told()
    told.stream.emit(raised(0, 1))
    told.stream.emit(raised(0, 5, OTHER))
    told.stream.emit(raised(1, 2))
    told.pass_time(60)
    assert told.events == [raised(0, 2), raised(0, 5, OTHER)]


def test_what_happens_to_a_partition_is_told_in_order():
    told = Told()
    truncated = events.LogTruncated(ORDERS, 1, 9, 7, False)
    told.stream.emit(events.RecordsAppended(ORDERS, 1, 0, 4, 2))
    told.stream.emit(events.RecordsAppended(ORDERS, 1, 4, 9, 2))
    told.stream.emit(truncated)
    assert told.events == [events.RecordsAppended(ORDERS, 1, 0, 9, 2), truncated]
    told.pass_time(100)
    assert len(told.events) == 2


def test_appends_of_two_leader_epochs_are_not_told_as_one():
    told = Told()
    told.stream.emit(events.RecordsAppended(ORDERS, 1, 0, 4, 2))
    told.stream.emit(events.RecordsAppended(ORDERS, 1, 4, 9, 3))
    told.pass_time(60)
    assert told.events == [events.RecordsAppended(ORDERS, 1, 4, 9, 3)]


def test_a_reader_that_fails_is_left_out_and_the_others_hear_on(caplog):
    told = Told()

    def broken(_):
        raise ValueError("no more")

    told.stream.subscribe(broken)
    told.stream.emit(fenced(1))
    told.stream.emit(fenced(2))
    assert len(told.seen) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "a reader of the event stream failed and is not told more"
    ]


def test_who_unsubscribed_hears_nothing_more():
    told = Told()
    told.unsubscribe()
    told.stream.emit(fenced(1))
    assert told.seen == []


def test_a_rendered_event_has_its_own_field_names_and_goes_into_json():
    event = events.IsrChanged(ORDERS, 1, (1, 2), (1, 2, 3), 9)
    rendered = RENDERER.fields(event)
    assert json.loads(json.dumps(rendered)) == {
        "event": "IsrChanged",
        "partition": "orders-0",
        "topic": "orders",
        "topic_id": ORDERS.topic_id.hex(),
        "index": 0,
        "broker": 1,
        "previous": [1, 2],
        "isr": [1, 2, 3],
        "partition_epoch": 9,
    }
    assert RENDERER.line(event) == "orders-0 leader 1 adopts ISR 1,2 → 1,2,3, partition epoch 9"


def test_no_event_has_a_field_that_rendering_would_hide():
    for event in events.Event.__args__:
        taken = {"node", "number", "time", "time_ms", "event", "text", "topic", "topic_id", "index"}
        assert not (taken - {"node"}) & set(event._fields), event


def test_a_topic_nobody_can_name_is_shown_by_its_id():
    assert RENDERER.partition(OTHER) == "787878-3"


def test_times_are_written_in_full():
    assert iso(NOON_MS) == "2026-11-16T12:00:00.123Z"


class Written:
    """A journal, its lines, and loggers that are given back."""

    def __init__(self):
        self.clock = ManualClock(NOON_MS)
        self.lines = []
        self.handler = JournalHandler(self.lines.append, self.clock)
        self.stream = EventStream(1, self.clock)
        self.stream.subscribe(Journal(RENDERER, self.handler).on_event)


@pytest.fixture
def written():
    made = Written()
    uninstall = journal.install(made.handler)
    yield made
    uninstall()


def test_a_change_of_leader_is_one_line(written):
    written.stream.emit(events.BecameLeader(ORDERS, 1, 4, 10, 8))
    assert written.lines == [
        "2026-11-16T12:00:00.123Z INFO  orders-0 broker 1 leads, leader epoch 4 from offset 10,"
        " high watermark 8\n"
    ]


@pytest.mark.parametrize(
    "event",
    [
        events.LeaderElected(ORDERS, 1, -1, 4, 5, (), False),
        events.LeaderElected(ORDERS, 1, 2, 4, 5, (2,), True),
        events.LogTruncated(ORDERS, 1, 9, 7, True),
        fenced(3),
    ],
)
def test_what_may_cost_records_is_a_warning(written, event):
    written.stream.emit(event)
    assert " WARN  " in written.lines[0]


def test_watermarks_appends_and_proposals_have_no_lines(written):
    for event in (
        raised(0, 1),
        events.RecordsAppended(ORDERS, 1, 0, 4, 2),
        events.IsrProposed(ORDERS, 1, (1,), (1, 2)),
        events.QuorumRoleChanged(1, "unattached", "prospective", 3),
    ):
        written.stream.emit(event)
    written.stream.flush()
    assert written.lines == []


def test_what_our_code_logs_has_the_same_form(written):
    logging.getLogger("tidelog.host").warning("a peer sent %d bytes", 5)
    assert written.lines == ["2026-11-16T12:00:00.123Z WARN  a peer sent 5 bytes\n"]


def test_text_of_a_peer_cannot_pass_for_a_line_of_ours(written):
    logging.getLogger("tidelog.host").warning("client %s", "x\n2026 INFO  all is well\x1b[2J")
    assert written.lines[0].count("\n") == 1
    assert "\\n2026" in written.lines[0]
    assert "\x1b" not in written.lines[0]


def test_a_failure_of_our_own_shows_where_indented(written):
    try:
        raise ValueError("both numbers")
    except ValueError:
        logging.getLogger("tidelog.host").exception("a request failed")
    head, *rest = written.lines[0].rstrip("\n").split("\n")
    assert head.endswith("ERROR a request failed")
    assert rest[-1] == "  ValueError: both numbers"
    assert all(line.startswith("  ") for line in rest)


def test_a_flood_is_cut_and_counted(written):
    for broker in range(journal.BURST_LINES + 500):
        written.stream.emit(fenced(broker))
    assert len(written.lines) == journal.BURST_LINES
    written.clock.advance(1000)
    written.stream.emit(fenced(1))
    assert written.lines[-2].endswith("WARN  500 lines were left out: too many at once\n")
    assert written.handler.left_out_total == 500


def test_a_log_nobody_reads_stops_nothing():
    def closed_pipe(_):
        raise BrokenPipeError

    handler = JournalHandler(closed_pipe, ManualClock())
    uninstall = journal.install(handler)
    logging.getLogger("tidelog.x").info("hello")
    uninstall()
    assert handler.left_out_total == 1


def test_an_uninstalled_journal_writes_nothing(written):
    uninstall = journal.install(written.handler)
    uninstall()
    assert logging.getLogger("asyncio").propagate is False  # as the fixture left it
