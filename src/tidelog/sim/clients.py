"""Producers and consumers of a simulated run: they do what well-behaved clients do.

They see only replies. Every operation goes into the history: what was asked, and whether the
answer was yes, no, or never came.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tidelog.core.errors import Error
from tidelog.core.replication.inputs import ACKS_NONE, NO_REPLICA, ConsumerFetch
from tidelog.core.types import NO_EPOCH, NO_LEADER, NO_PRODUCER, PartitionId
from tidelog.sim import messages as m
from tidelog.sim.history import Read
from tidelog.sim.plan import ConsumerPlan, ProducerPlan
from tidelog.sim.recorder import Sending
from tidelog.sim.sim_log import SimBatch, client_batch

if TYPE_CHECKING:
    from tidelog.sim.world import World

ASK_LATEST_EVERY_READS = 7
RETRY_MS = 25
"""Pause after a retriable error, so that a leaderless partition is not hammered."""


class Leadership:
    """What a client believes about one partition's leader; it never goes back in epochs."""

    __slots__ = ("epoch", "leader")

    def __init__(self) -> None:
        self.leader = NO_LEADER
        self.epoch = NO_EPOCH

    def learn(self, reply: m.WhoLeadsReply) -> None:
        # Older metadata must not lead back to a fenced leader (KIP-320).
        if reply.leader_epoch >= self.epoch:
            self.leader = reply.leader
            self.epoch = reply.leader_epoch


class Attempt:
    """One batch on its way to being acknowledged, across as many requests as it takes."""

    __slots__ = ("batch", "request_id", "retry_due", "sending", "sent_first")

    def __init__(self, batch: SimBatch, sending: Sending) -> None:
        self.batch = batch
        self.sending = sending
        self.request_id = 0
        self.retry_due = False
        self.sent_first = False


class ProducerClient:
    """Sends batches of fresh numbers to one partition, in order, with retries."""

    __slots__ = (
        "_known",
        "_leadership",
        "_pending",
        "_plan",
        "_producer_id",
        "_sequence",
        "_world",
        "address",
        "partition",
        "stopped",
    )

    def __init__(
        self, world: World, address: int, plan: ProducerPlan, partition: PartitionId
    ) -> None:
        self._world = world
        self.address = address
        self._plan = plan
        self.partition = partition
        self._leadership = Leadership()
        self._pending: deque[Attempt] = deque()
        self._sequence = 0
        self._producer_id = world.new_producer_id() if plan.idempotent else NO_PRODUCER
        self._known = False
        self.stopped = False

    @property
    def busy(self) -> bool:
        return bool(self._pending)

    def start(self) -> None:
        self._produce(None)

    def detach(self) -> None:
        """The topic is gone: give up what is pending, its outcome stays unknown."""
        self.stopped = True
        self._pending.clear()

    def _produce(self, _: None) -> None:
        if self.stopped:
            return
        if self._may_send_more():
            attempt = self._new_attempt()
            self._pending.append(attempt)
            self._send(attempt)
        self._world.kernel.call_in(self._plan.interval_ms * 1000, self.address, self._produce, None)

    def _may_send_more(self) -> bool:
        """Without sequences an overtaking batch would be out of order for good. With them a
        leader accepts any first batch, so the first one travels alone; and it remembers only
        the last few, so nothing may run further ahead of the oldest one unanswered."""
        if not self._pending:
            return True
        if self._producer_id == NO_PRODUCER or not self._known:
            return False
        ahead = self._sequence - self._pending[0].batch.base_sequence
        return ahead < self._plan.in_flight * self._plan.batch_records

    def _new_attempt(self) -> Attempt:
        values = self._world.new_values(self._plan.batch_records)
        idempotent = self._producer_id != NO_PRODUCER
        batch = client_batch(
            values,
            timestamp=self._world.kernel.now_ms,
            producer_id=self._producer_id,
            producer_epoch=0 if idempotent else -1,
            base_sequence=self._sequence if idempotent else -1,
        )
        self._sequence += len(values)
        sending = self._world.recorder.sent(self.address, self._plan, self.partition, values)
        return Attempt(batch, sending)

    def _send(self, attempt: Attempt) -> None:
        attempt.retry_due = False
        if self._leadership.leader == NO_LEADER:
            self._ask()
            self._retry_later(attempt)
            return
        world = self._world
        attempt.request_id = world.new_request_id()
        attempt.sent_first = attempt is self._pending[0]
        timeout_ms = world.plan.timings.produce_timeout_ms
        request = m.Produce(
            attempt.request_id, self.partition, attempt.batch, self._plan.acks, timeout_ms
        )
        world.network.send(self.address, self._leadership.leader, request)
        if self._plan.acks == ACKS_NONE:
            self._pending.remove(attempt)
            return
        wait_us = (timeout_ms + world.plan.timings.request_timeout_ms) * 1000
        world.kernel.call_in(wait_us, self.address, self._timed_out, attempt.request_id)

    def _retry_later(self, attempt: Attempt) -> None:
        if not attempt.retry_due:
            attempt.retry_due = True
            attempt.request_id = 0
            self._world.kernel.call_in(RETRY_MS * 1000, self.address, self._retry, attempt)

    def _retry(self, attempt: Attempt) -> None:
        if attempt.retry_due and attempt in self._pending:
            self._send(attempt)

    def _timed_out(self, request_id: int) -> None:
        for attempt in self._pending:
            if attempt.request_id == request_id:
                self._world.counters.timed_out += 1
                self._ask()
                self._retry_later(attempt)
                return

    def _ask(self) -> None:
        ask = m.WhoLeads(self._world.new_request_id(), self.partition)
        self._world.network.send(self.address, self._world.draw_broker(), ask)

    def receive(self, source: int, message: object) -> None:
        if type(message) is m.WhoLeadsReply:
            # Whichever question it answers: several attempts ask faster than answers come.
            self._leadership.learn(message)
        elif type(message) is m.ProduceReply:
            for attempt in self._pending:
                if attempt.request_id == message.request_id:
                    self._on_reply(attempt, message, source)
                    return

    def _on_reply(self, attempt: Attempt, reply: m.ProduceReply, source: int) -> None:
        world = self._world
        if reply.error == Error.NONE:
            self._pending.remove(attempt)
            self._known = True
            world.acknowledged(self.partition, attempt.batch, reply.base_offset, self._plan.acks)
            attempt.sending.base_offset = reply.base_offset
            return
        world.counters.refused += 1
        # Sent behind others it may only have overtaken them; sent first, nothing was missing.
        if reply.error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER and attempt.sent_first:
            self._start_over(source)
        elif reply.error == Error.NOT_ENOUGH_REPLICAS:
            self._retry_later(attempt)
        else:
            self._ask()
            self._retry_later(attempt)

    def _start_over(self, source: int) -> None:
        """The leader has forgotten us: real clients get a new producer id and go on."""
        self._world.sequence_refused(self.partition, self._producer_id, source)
        self._pending.clear()
        self._producer_id = self._world.new_producer_id()
        self._sequence = 0
        self._known = False


class ConsumerClient:
    """Reads one partition from the beginning, from the leader or a follower in its rack."""

    __slots__ = (
        "_asked",
        "_last_epoch",
        "_latest",
        "_latest_asked",
        "_leadership",
        "_plan",
        "_reads",
        "_reads_since_leader",
        "_request_id",
        "_target",
        "_world",
        "address",
        "partition",
        "position",
        "stopped",
    )

    def __init__(
        self, world: World, address: int, plan: ConsumerPlan, partition: PartitionId
    ) -> None:
        self._world = world
        self.address = address
        self._plan = plan
        self.partition = partition
        self._leadership = Leadership()
        self._target = NO_LEADER
        self._reads_since_leader = 0
        self._reads = 0
        self._latest = 0
        self._latest_asked = 0
        self._request_id = 0
        self._asked = 0
        self._last_epoch = NO_EPOCH
        self.position = 0
        self.stopped = False

    def start(self) -> None:
        self._ask(None)

    def detach(self) -> None:
        self.stopped = True

    def _ask(self, _: None) -> None:
        """Find the leader; ask again if nobody answers."""
        if self.stopped:
            return
        world = self._world
        self._request_id = 0
        self._asked = world.new_request_id()
        world.network.send(
            self.address, world.draw_broker(), m.WhoLeads(self._asked, self.partition)
        )
        wait_us = world.plan.timings.request_timeout_ms * 1000
        world.kernel.call_in(wait_us, self.address, self._unanswered, self._asked)

    def _unanswered(self, asked: int) -> None:
        if asked == self._asked:
            self._ask(None)

    def _read(self) -> None:
        if self.stopped:
            return
        world = self._world
        self._reads += 1
        if self._reads % ASK_LATEST_EVERY_READS == 0:
            self._ask_latest()
        self._request_id = world.new_request_id()
        request = m.ConsumerRead(
            self._request_id,
            self.partition,
            self._fetch(),
            max(self._plan.max_batches, world.disturbances.least_read_batches),
            self._plan.fetch_wait_ms,
        )
        world.network.send(self.address, self._target, request)
        wait_us = (self._plan.fetch_wait_ms + world.plan.timings.request_timeout_ms) * 1000
        world.kernel.call_in(wait_us, self.address, self._timed_out, self._request_id)

    def _fetch(self) -> ConsumerFetch:
        return ConsumerFetch(
            self.position,
            leader_epoch=self._leadership.epoch,
            last_fetched_epoch=self._last_epoch,
            rack=self._plan.rack if self._plan.from_follower else None,
        )

    def _timed_out(self, request_id: int) -> None:
        if request_id == self._request_id:
            self._ask(None)

    def receive(self, source: int, message: object) -> None:
        if type(message) is m.ConsumerReadReply:
            if message.request_id == self._request_id:
                self._request_id = 0
                self._on_read(message)
        elif type(message) is m.LatestReply:
            if message.request_id == self._latest_asked and message.error == Error.NONE:
                self._on_latest(message.offset)
        elif type(message) is m.WhoLeadsReply and message.request_id == self._asked:
            self._asked = 0
            self._leadership.learn(message)
            self._target = self._leadership.leader
            if self._target == NO_LEADER:
                self._later()
            else:
                # Whoever has just learned of a leader is the one to tempt it into a wrong answer.
                ask = m.LatestAsk(
                    self._world.new_request_id(), self.partition, self._leadership.epoch
                )
                self._world.network.send(self.address, self._target, ask)
                self._read()

    def _ask_latest(self) -> None:
        """One question at a time: an answer that was overtaken says nothing."""
        self._latest_asked = self._world.new_request_id()
        ask = m.LatestAsk(self._latest_asked, self.partition, self._leadership.epoch)
        self._world.network.send(self.address, self._leadership.leader, ask)

    def _on_latest(self, offset: int) -> None:
        self._latest_asked = 0
        if offset < self._latest:
            self._world.latest_went_back(self.partition, self._latest, offset)
        self._latest = offset

    def _later(self) -> None:
        self._world.kernel.call_in(RETRY_MS * 1000, self.address, self._ask, None)

    def _on_read(self, reply: m.ConsumerReadReply) -> None:
        if reply.diverging is not None or reply.error == Error.OFFSET_OUT_OF_RANGE:
            # Only the leader's word counts: a follower may itself be about to truncate.
            if self._target == self._leadership.leader and not self._trimmed(reply):
                end = reply.diverging.end_offset if reply.diverging is not None else 0
                self._reset(end, f"the leader answers {reply.error.name} {reply.diverging}")
            self._later()
            return
        if reply.error != Error.NONE:
            self._later()
            return
        if reply.preferred_replica != NO_REPLICA:
            self._target = reply.preferred_replica
            self._reads_since_leader = 0
        elif reply.batches:
            self._take_reply(reply)
        if self._target != self._leadership.leader:
            # A preferred replica is for a while only; the leader may know a better one by then.
            self._reads_since_leader += 1
            if self._reads_since_leader > 20:
                self._target = self._leadership.leader
        self._read()

    def _trimmed(self, reply: m.ConsumerReadReply) -> bool:
        """What we were about to read was deleted: go on where the log begins."""
        if reply.error != Error.OFFSET_OUT_OF_RANGE or self.position >= reply.log_start_offset:
            return False
        self._world.recorder.assigned(self.address, self.partition)
        self.position = reply.log_start_offset
        self._last_epoch = NO_EPOCH
        return True

    def _take_reply(self, reply: m.ConsumerReadReply) -> None:
        reads = [
            Read(self.partition, offset, value)
            for batch in reply.batches
            for offset, value in enumerate(batch.values, batch.base_offset)
            if offset >= self.position
        ]
        self._world.recorder.polled(self.address, self.partition, reads)
        self._moved_past(reply.batches[-1])

    def _moved_past(self, batch: SimBatch) -> None:
        self._last_epoch = batch.leader_epoch
        self.position = max(self.position, batch.last_offset + 1)

    def _reset(self, position: int, reason: str) -> None:
        """Only an unclean election or declared damage may send a consumer back."""
        self._world.consumer_reset(self.partition, self.position, position, reason)
        self._world.recorder.assigned(self.address, self.partition)
        self.position = min(self.position, position)
        self._last_epoch = NO_EPOCH
