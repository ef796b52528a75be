"""All shards of one internal topic that this broker leads: elected, loaded, asked, timed.

Loading reads the log from its start in slices, so that a broker which takes over a large
partition goes on serving the others. Whoever asks meanwhile waits a little, and is then told that
the coordinator is loading: one that answered earlier would deny offsets that are committed
(wire.md gotcha 20).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from tidelog.coordinators.shard import AppendFailed, Shard, ShardLog
from tidelog.core.coordination import (
    CoordinatorMachine,
    Instant,
    Marker,
    Outcome,
    ProducerStamp,
    Token,
)
from tidelog.core.errors import Error
from tidelog.core.events import Event
from tidelog.core.types import NEVER_MS
from tidelog.host import tasks
from tidelog.host.ports import Clock
from tidelog.host.timers import Timer, TimerWheel
from tidelog.storage.errors import StorageError
from tidelog.wire.records import InvalidBatch, end_txn_marker, iter_batches, iter_records

SLICE_BYTES = 256 * 1024
LOAD_AGAIN_MS = 1_000
EARLY_WAIT_MS = 1_000
"""How long a request waits for the end of loading. Most logs are read in less, and a client that
is sent away comes back after a pause, or, as some tools do, not at all."""

_LOGGER = logging.getLogger("tidelog.coordinators")


class RecordCodec(Protocol):
    """How the records of one internal topic look as keys and values."""

    def encode(self, record: object) -> tuple[bytes, bytes | None]: ...
    def decode(self, key: bytes, value: bytes | None) -> object | None:
        """None for kinds that this version does not know."""


class LedLog(ShardLog, Protocol):
    """The log of an internal partition during one leadership of this broker."""

    @property
    def leader_epoch(self) -> int: ...
    @property
    def start_offset(self) -> int: ...
    def read(self, from_offset: int, max_bytes: int) -> list[memoryview]:
        """Whole batches; none at the end of the log. Raises StorageError."""


def _never(_index: int) -> bool:
    return False


class Surroundings(NamedTuple):
    """What the shards of a broker are given of the world."""

    codec: RecordCodec
    clock: Clock
    timers: TimerWheel
    emit: Callable[[Event], None]
    order: Callable[[int, object], None]
    """What a machine ordered, with the partition it lives on."""
    is_coming: Callable[[int], bool] = _never
    """Whether this broker is about to lead a partition whose log is still being made."""


class Shards:
    """Owner of the shards of one internal topic. Partitions are named by their index."""

    __slots__ = ("_around", "_make_machine", "_seats", "_too_early")

    def __init__(
        self, make_machine: Callable[[int], CoordinatorMachine], around: Surroundings
    ) -> None:
        self._make_machine = make_machine
        """Given the leader epoch, which is the epoch of the coordinator."""
        self._around = around
        self._seats: dict[int, Seat] = {}
        self._too_early: dict[int, TooEarly] = {}
        """Requests for partitions that have no shard yet and are about to get one."""

    # -- leadership

    def elected(self, index: int, log: LedLog) -> None:
        """This broker leads the partition in a new epoch: what an earlier shard knew is void."""
        self.resigned(index)
        self._seats[index] = seat = self._new_seat(index, log)
        seat.begin_loading()
        waiting = self._too_early.pop(index, None)
        if waiting is not None:
            waiting.timer.cancel()
            for request, token in waiting.requests:
                seat.request(request, token)

    def resigned(self, index: int) -> None:
        seat = self._seats.pop(index, None)
        if seat is not None:
            seat.leave()

    def moved(self, index: int) -> None:
        """The high watermark or the in-sync set of the partition changed."""
        seat = self._seats.get(index)
        if seat is not None:
            seat.shard.on_committed()
            seat.schedule()

    def marker_appended(self, index: int, marker: Marker) -> None:
        """A transaction ended in this partition. A shard that still loads will read of it."""
        seat = self._seats.get(index)
        if seat is not None and seat.shard.loaded:
            seat.shard.replay_marker(marker)

    def close(self) -> None:
        for index in list(self._seats):
            self.resigned(index)
        for index in list(self._too_early):
            self._refuse_early(index, Error.NOT_COORDINATOR)

    # -- work

    def request(self, index: int, request: object, token: Token) -> None:
        seat = self._seats.get(index)
        if seat is not None:
            seat.request(request, token)
        elif self._around.is_coming(index):
            self._wait_for_seat(index, request, token)
        else:
            token.refuse(Error.NOT_COORDINATOR)

    def _wait_for_seat(self, index: int, request: object, token: Token) -> None:
        waiting = self._too_early.get(index)
        if waiting is None:
            refuse = partial(self._refuse_early, index, Error.COORDINATOR_LOAD_IN_PROGRESS)
            timer = self._around.timers.after(EARLY_WAIT_MS, refuse)
            waiting = self._too_early[index] = TooEarly(timer, [])
        waiting.requests.append((request, token))

    def _refuse_early(self, index: int, error: Error) -> None:
        waiting = self._too_early.pop(index)
        waiting.timer.cancel()
        for _, token in waiting.requests:
            token.refuse(error)

    def tell(self, index: int, request: object) -> None:
        """For requests that nobody waits for."""
        seat = self._seats.get(index)
        if seat is not None:
            seat.shard.tell(request)
            seat.schedule()

    def leader_epoch(self, index: int) -> int | None:
        """Of the leadership under which the partition's shard works; None if there is none."""
        seat = self._seats.get(index)
        return None if seat is None else seat.log.leader_epoch

    def machine(self, index: int) -> CoordinatorMachine | None:
        """For questions that change nothing; None unless it is loaded and in office."""
        seat = self._seats.get(index)
        return None if seat is None or not seat.shard.loaded else seat.shard.machine

    def indexes(self) -> list[int]:
        """The partitions with a shard here, in order."""
        return sorted(self._seats)

    def each(self, change: Callable[[CoordinatorMachine, Instant], Outcome]) -> None:
        """Tell every working machine of something outside the log, e.g. changed topics."""
        for seat in list(self._seats.values()):
            seat.shard.apply(change)
            seat.schedule()

    # -- inside

    def _new_seat(self, index: int, log: LedLog) -> Seat:
        machine = self._make_machine(log.leader_epoch)
        return Seat(index, machine, log, self._around, partial(self._again, index))

    def _again(self, index: int, failed: Seat) -> None:
        """The log refused a batch, so the machine is ahead of it: start over from the log."""
        if self._seats.get(index) is not failed:
            return
        self._seats[index] = seat = self._new_seat(index, failed.log)
        timers = self._around.timers
        seat.timer = timers.after(LOAD_AGAIN_MS, seat.begin_loading)


class TooEarly(NamedTuple):
    """Requests that came before the shard of their partition."""

    timer: Timer
    requests: list[tuple[object, Token]]


class Seat:
    """One shard with its log, its timer and its loading. The shard's `ShardPort`."""

    __slots__ = (
        "_around",
        "_deadline_ms",
        "_early",
        "_early_timer",
        "_index",
        "_loading",
        "_on_failed",
        "log",
        "shard",
        "timer",
    )

    def __init__(
        self,
        index: int,
        machine: CoordinatorMachine,
        log: LedLog,
        around: Surroundings,
        on_failed: Callable[[Seat], None],
    ) -> None:
        self._index = index
        self._around = around
        self._on_failed = on_failed
        self._loading: asyncio.Task[None] | None = None
        self._deadline_ms = NEVER_MS
        self._early: list[tuple[object, Token]] = []
        """Who asked while the log was read."""
        self._early_timer: Timer | None = None
        self.timer: Timer | None = None
        self.log = log
        self.shard = Shard(machine, log, self)

    # -- ShardPort

    def now(self) -> Instant:
        clock = self._around.clock
        return Instant(clock.monotonic_ms(), clock.wall_ms())

    def order(self, order: object) -> None:
        self._around.order(self._index, order)

    def emit(self, event: Event) -> None:
        self._around.emit(event)

    def failed(self, shard: Shard, reason: AppendFailed) -> None:
        _LOGGER.warning("the coordinator of partition %d starts over: %s", self._index, reason)
        self._on_failed(self)

    # -- life

    def begin_loading(self) -> None:
        self.timer = None
        self._loading = tasks.begin(self._load())

    def request(self, request: object, token: Token) -> None:
        if self._loading is not None and not self.shard.loaded and not self.shard.resigned:
            self._early.append((request, token))
            if self._early_timer is None:
                self._early_timer = self._around.timers.after(EARLY_WAIT_MS, self._serve_early)
            return
        self.shard.request(request, token)
        self.schedule()

    def leave(self) -> None:
        self.shard.resign()
        self._serve_early()
        if self._loading is not None:
            self._loading.cancel()
        if self.timer is not None:
            self.timer.cancel()

    async def _load(self) -> None:
        position = self.log.start_offset
        try:
            while runs := self.log.read(position, SLICE_BYTES):
                for run in runs:
                    position = self._replay(run)
                await tasks.pause(0)
        except (StorageError, InvalidBatch) as error:
            _LOGGER.error("partition %d cannot be loaded: %s", self._index, error)
            self._serve_early()
            self.shard.resign(Error.COORDINATOR_NOT_AVAILABLE)
            self._on_failed(self)
            return
        # No await since the log was read to its end: nothing can have been appended meanwhile.
        self.shard.finish_loading()
        self._serve_early()
        self.schedule()

    def _serve_early(self) -> None:
        """Those who waited for the end of loading: the shard answers them now, or refuses."""
        if self._early_timer is not None:
            self._early_timer.cancel()
            self._early_timer = None
        early, self._early = self._early, []
        for request, token in early:
            self.shard.request(request, token)

    def _replay(self, run: memoryview) -> int:
        next_offset = 0
        for position, header in iter_batches(run):
            next_offset = header.next_offset
            if header.is_control:
                marker = end_txn_marker(run, position)
                if marker is not None:
                    self.shard.replay_marker(
                        Marker(
                            marker.producer_id,
                            marker.producer_epoch,
                            marker.commit,
                            marker.coordinator_epoch,
                        )
                    )
                continue
            decoded = [
                self._around.codec.decode(bytes(each.key or b""), each.value)
                for each in iter_records(run, position, header)
            ]
            stamp = (
                ProducerStamp(header.producer_id, header.producer_epoch)
                if header.is_transactional
                else None
            )
            self.shard.replay(tuple(each for each in decoded if each is not None), stamp)
        return next_offset

    def schedule(self) -> None:
        """One timer per shard, at its machine's next deadline."""
        deadline_ms = self.shard.next_deadline_ms()
        if self.timer is not None and self.timer.pending:
            if deadline_ms == self._deadline_ms:
                return
            self.timer.cancel()
        self._deadline_ms = deadline_ms
        if deadline_ms != NEVER_MS:
            self.timer = self._around.timers.add(deadline_ms, self._on_time)

    def _on_time(self) -> None:
        self.shard.on_time()
        self.schedule()
