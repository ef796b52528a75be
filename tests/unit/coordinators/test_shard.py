"""What leaves a coordinator, and when: a counting machine on a log whose commits the test owns."""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.coordinators.shard import AppendFailed, Shard
from tidelog.core.coordination import Answer, Instant, Marker, Outcome, ProducerStamp, Write
from tidelog.core.errors import Error
from tidelog.core.events import Event, MemberLeft
from tidelog.core.types import NEVER_MS


class Add(NamedTuple):
    amount: int


class Park(NamedTuple):
    """Answered when time passes."""


class Order(NamedTuple):
    text: str


class CountingMachine:
    """Adds up. What it has in hand is the sum of what was replayed."""

    def __init__(self) -> None:
        self.total = 0
        self.activated = 0
        self.markers: list[Marker] = []
        self.waiting: list[object] = []

    def replay(self, records: Sequence[object], stamp: ProducerStamp | None) -> None:
        assert stamp is None, stamp
        self.total += sum(record for record in records if isinstance(record, int))

    def replay_marker(self, marker: Marker) -> None:
        self.markers.append(marker)

    def activate(self, now: Instant) -> Outcome:
        self.activated += 1
        return Outcome()

    def request(self, request: object, token: object, now: Instant) -> Outcome:
        if isinstance(request, Park):
            self.waiting.append(token)
            return Outcome()
        assert isinstance(request, Add), request
        if request.amount == 0:
            return Outcome(answers=(Answer(token, self.total),))
        return Outcome(
            writes=(Write((request.amount,)),),
            answers=() if token is None else (Answer(token, self.total + request.amount),),
            orders=(Order(f"tell of {request.amount}"),),
            events=(MemberLeft("g", str(request.amount), "left"),),
        )

    def on_time(self, now: Instant) -> Outcome:
        waiting, self.waiting = self.waiting, []
        return Outcome(answers=tuple(Answer(token, self.total) for token in waiting))

    def next_deadline_ms(self) -> int:
        return 7 if self.waiting else NEVER_MS

    def parked(self) -> list[object]:
        waiting, self.waiting = self.waiting, []
        return waiting


class Log:
    """Commits what it is told to."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.committed = 0
        self.enough = True
        self.full = False

    def may_append(self) -> bool:
        return self.enough

    def append(self, write: Write) -> int:
        if self.full:
            raise AppendFailed("no space left on device")
        self.writes.append(write)
        return len(self.writes)

    def end_offset(self) -> int:
        return len(self.writes)

    def committed_offset(self) -> int:
        return self.committed


class Asker:
    """A token: hears one answer or one refusal."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def answer(self, response: object) -> None:
        self.heard.append(response)

    def refuse(self, error: Error) -> None:
        self.heard.append(error)


class Bench:
    """A shard with everything around it; its `ShardPort`."""

    def __init__(self, *, loaded: bool = True) -> None:
        self.machine = CountingMachine()
        self.log = Log()
        self.orders: list[object] = []
        self.events: list[Event] = []
        self.failures: list[AppendFailed] = []
        self.shard = Shard(self.machine, self.log, self)
        if loaded:
            self.shard.finish_loading()

    def now(self) -> Instant:
        return Instant(5, 1_800_000_000_000)

    def order(self, order: object) -> None:
        self.orders.append(order)

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def failed(self, shard: Shard, reason: AppendFailed) -> None:
        assert shard is self.shard
        self.failures.append(reason)

    def ask(self, request: object) -> Asker:
        asker = Asker()
        self.shard.request(request, asker)
        return asker

    def commit(self, offset: int) -> None:
        self.log.committed = offset
        self.shard.on_committed()


def test_nothing_leaves_before_what_it_says_is_committed() -> None:
    bench = Bench()
    asker = bench.ask(Add(3))
    assert bench.machine.total == 3
    assert (asker.heard, bench.orders, bench.events) == ([], [], [])
    bench.commit(1)
    assert asker.heard == [3]
    assert bench.orders == [Order("tell of 3")]
    assert bench.events == [MemberLeft("g", "3", "left")]


def test_a_look_that_saw_something_uncommitted_waits_for_it() -> None:
    """Otherwise a failover could make the answer untrue: the sum of 3 might never have been."""
    bench = Bench()
    bench.ask(Add(3))
    look = bench.ask(Add(0))
    assert look.heard == []
    bench.commit(1)
    assert look.heard == [3]
    assert bench.ask(Add(0)).heard == [3], "nothing is uncommitted any more"


def test_answers_keep_their_order_and_wait_each_for_its_own_commit() -> None:
    bench = Bench()
    first, second = bench.ask(Add(1)), bench.ask(Add(2))
    bench.commit(1)
    assert (first.heard, second.heard) == ([1], [])
    bench.commit(2)
    assert second.heard == [3]


def test_who_asks_while_the_log_is_read_is_told_so() -> None:
    bench = Bench(loaded=False)
    bench.shard.replay((4, 5), None)
    assert bench.ask(Add(0)).heard == [Error.COORDINATOR_LOAD_IN_PROGRESS]
    assert bench.shard.next_deadline_ms() == NEVER_MS
    bench.shard.finish_loading()
    assert bench.machine.activated == 1
    assert bench.ask(Add(0)).heard == [9]


def test_time_stands_still_while_too_few_replicas_are_in_sync() -> None:
    bench = Bench()
    parked = bench.ask(Park())
    assert bench.shard.next_deadline_ms() == 7
    bench.log.enough = False
    assert bench.shard.next_deadline_ms() == NEVER_MS
    bench.shard.on_time()
    bench.shard.tell(Add(1))
    assert bench.ask(Add(1)).heard == [Error.COORDINATOR_NOT_AVAILABLE]
    assert (bench.log.writes, parked.heard) == ([], [])

    bench.log.enough = True
    bench.shard.on_committed()
    assert bench.machine.activated == 2, "sessions begin anew"
    bench.shard.on_time()
    assert parked.heard == [0]


def test_a_commit_that_comes_while_replicas_are_missing_still_lets_answers_go() -> None:
    bench = Bench()
    asker = bench.ask(Add(1))
    bench.log.enough = False
    bench.commit(1)
    assert asker.heard == [1]


def test_whoever_waits_when_the_leadership_ends_is_sent_to_the_next_coordinator() -> None:
    bench = Bench()
    held, parked = bench.ask(Add(1)), bench.ask(Park())
    bench.shard.resign()
    assert held.heard == parked.heard == [Error.NOT_COORDINATOR]
    assert bench.ask(Add(1)).heard == [Error.NOT_COORDINATOR]
    bench.commit(1)
    bench.shard.resign()
    assert (held.heard, bench.orders) == ([Error.NOT_COORDINATOR], [])


def test_a_log_that_takes_no_batch_ends_the_shard_and_nobody_is_told_of_a_success() -> None:
    bench = Bench()
    held, parked = bench.ask(Add(1)), bench.ask(Park())
    bench.log.full = True
    refused = bench.ask(Add(2))
    assert [str(each) for each in bench.failures] == ["no space left on device"]
    assert held.heard == parked.heard == refused.heard == [Error.COORDINATOR_NOT_AVAILABLE]
    bench.commit(1)
    assert (bench.orders, bench.events) == ([], [])


def test_markers_are_followed_while_loading_and_afterwards() -> None:
    bench = Bench(loaded=False)
    marker = Marker(7, 0, commit=True, coordinator_epoch=1)
    bench.shard.replay_marker(marker)
    bench.shard.finish_loading()
    bench.shard.replay_marker(marker)
    assert bench.machine.markers == [marker, marker]


def test_what_changed_outside_the_log_is_told_to_a_working_machine_only() -> None:
    bench = Bench(loaded=False)
    seen: list[Instant] = []

    def change(machine: object, now: Instant) -> Outcome:
        assert machine is bench.machine
        seen.append(now)
        return Outcome(writes=(Write((10,)),))

    bench.shard.apply(change)
    assert seen == []
    bench.shard.finish_loading()
    bench.shard.apply(change)
    assert (seen, bench.machine.total) == ([bench.now()], 10)
