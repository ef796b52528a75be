"""One fetch of a follower and its answer: each half can be kept on the wire or lost.

The whole exchange is told in one line, in the order in which it happens:
the request | what the leader does | the answer | what the follower does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tidelog.core.errors import Error
from tidelog.core.replication import follower as follower_rules
from tidelog.core.replication.follower import FETCHING, FollowerReplica
from tidelog.core.types import NO_EPOCH, NO_LEADER, PartitionId
from tidelog.sim.scenario import gate, passed
from tidelog.sim.scenario.disks import EVERYTHING, PLENTY_BYTES
from tidelog.sim.scenario.wires import Question
from tidelog.sim.scenario.words import log_text, read_batches
from tidelog.wire.protocol.schemas.fetch_request import FetchRequest
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse, PartitionData
from tidelog.wire.records import iter_batches

if TYPE_CHECKING:
    from tidelog.sim.scenario.broker import StageBroker
    from tidelog.storage.log import Log

NO_SESSION_EPOCH = -1


class Exchange:
    """A fetch under way."""

    def __init__(self, follower: StageBroker, question: Question, max_records: int) -> None:
        self.stage = follower.stage
        self.follower = follower
        self.question = question
        self.answered = False
        request = cast(FetchRequest, question.request())
        ((self.asked,),) = [topic.partitions for topic in request.topics]
        self.partition = PartitionId(request.topics[0].topic_id, self.asked.partition)
        hosted = follower.hosted_as(self.partition)
        assert hosted is not None, f"{follower.name} fetches what it does not host"
        assert hosted.follower is not None, f"{follower.name} fetches and leads"
        self._hosted, self._role = hosted, hosted.follower
        self.leader = self.stage.brokers[question.target]
        self._ask_alone(request, max_records)
        epoch = self.asked.last_fetched_epoch
        last_epoch = "none" if epoch == NO_EPOCH else str(epoch)
        self.told = [
            f"{follower.name} -> {self.leader.name} "
            f"fetch offset={self.asked.fetch_offset} last-epoch={last_epoch}"
        ]

    def _ask_alone(self, request: FetchRequest, max_records: int) -> None:
        """As a follower would that does not wait and has no session."""
        request.max_wait_ms = 0
        request.session_id, request.session_epoch = 0, NO_SESSION_EPOCH
        hosted = self.leader.hosted_as(self.partition)
        if max_records < EVERYTHING and hosted is not None:
            self.asked.partition_max_bytes = self._size_of(hosted.log, max_records)
        self.question.ask_instead(request)

    def _size_of(self, log: Log, max_records: int) -> int:
        runs = log.read(self.asked.fetch_offset, EVERYTHING, PLENTY_BYTES)
        headers = [header for run in runs for _, header in iter_batches(run)]
        return sum(header.size_bytes for header in headers[:max_records])

    def send(self) -> None:
        if self.stage.gate.catches(gate.FETCH, self.follower.id, self):
            self.told.append("held")
            self._record_request(passed.HELD)
        else:
            self.deliver_request()

    def deliver_request(self) -> None:
        if not self.leader.answers or not self.stage.wires.connects(
            self.follower.id, self.leader.id
        ):
            self.lose("no connection")
            return
        self._record_request(passed.ARRIVED)
        self.stage.gate.exchange = self
        self.stage.wires.deliver_request(self.question)
        self.stage.settle()
        assert self.answered, f"{self.leader.name} does not answer"
        self.told += self.stage.narrator.take_notes()
        self.told.append(self._answer_text())
        if self.stage.gate.catches(gate.ANSWER, self.follower.id, self):
            self.told.append("held")
            self._record_answer(passed.HELD)
        else:
            self.deliver_answer()

    def deliver_answer(self, *, zero_copy: bool = False) -> None:
        if zero_copy:
            self._send_present_bytes()
            self.told.append(self._answer_text())
        self._record_answer(passed.ARRIVED if self.follower.awake else passed.LOST)
        if not self.follower.awake:
            self.follower.note("is paused" if self.follower.running else "is down")
        elif self._hosted.replica.role is not self._role:
            self.follower.note("ignores the answer to an old fetch")
            self.stage.wires.deliver_answer(self.question)
            self.stage.settle()
        else:
            self._receive()
        self.told += self.stage.narrator.take_notes()

    def lose(self, how: str) -> None:
        """No answer will come; the follower notices and waits before it asks again."""
        self.told.append(how)
        if self.answered:
            self._record_answer(passed.LOST)
        else:
            self._record_request(passed.LOST)
        self.stage.wires.lose(self.question)

    def tell(self) -> None:
        """Print what happened since it was last told, then what follows from it."""
        self.stage.gate.exchange = None
        self.stage.narrator.line(" | ".join(self.told))
        self.told = []
        self.stage.gate.release_deferred()
        self.stage.settle()

    # -- what a picture shows of it

    def _record_request(self, fate: str) -> None:
        epoch = self.asked.last_fetched_epoch
        known = "none" if epoch == NO_EPOCH else str(epoch)
        text = f"Fetch offset {self.asked.fetch_offset}, last epoch {known}"
        self._record(passed.FETCH, text, self.asked.fetch_offset, epoch, fate)

    def _record_answer(self, fate: str) -> None:
        data, offset = self._data(), self.asked.fetch_offset
        if data.error_code:
            self._record(passed.ANSWER, Error(data.error_code).name, offset, NO_EPOCH, fate)
            return
        if data.diverging_epoch is not None and data.diverging_epoch.epoch != NO_EPOCH:
            epoch, end = data.diverging_epoch.epoch, data.diverging_epoch.end_offset
            self._record(passed.DIVERGING, f"epoch {epoch} ends at {end}", end, epoch, fate)
            return
        batches = read_batches(data.records or b"")
        told, epoch = "no records", NO_EPOCH
        if batches:
            offset, last, epoch = (
                batches[0].base_offset,
                batches[-1].last_offset,
                batches[-1].leader_epoch,
            )
            told = f"record {offset}" if offset == last else f"records {offset}–{last}"
        self._record(passed.ANSWER, f"{told}, HW {data.high_watermark}", offset, epoch, fate)

    def _record(self, kind: str, text: str, offset: int, epoch: int, fate: str) -> None:
        ends = self.follower.id, self.leader.id
        source, target = ends if kind == passed.FETCH else ends[::-1]
        known = None if epoch == NO_EPOCH else epoch
        self.stage.passed.add(passed.Passed(source, target, kind, text, offset, known, fate))

    # -- the leader's side

    def _data(self) -> PartitionData:
        response = cast(FetchResponse, self.question.answer())
        ((data,),) = [topic.partitions for topic in response.responses]
        return data

    def _send_present_bytes(self) -> None:
        """The bytes at the offset that was asked for, as they are now."""
        response = cast(FetchResponse, self.question.answer())
        hosted = self.leader.hosted_as(self.partition)
        assert hosted is not None, f"{self.leader.name} has no log"
        runs = hosted.log.read(self.asked.fetch_offset, EVERYTHING, PLENTY_BYTES)
        response.responses[0].partitions[0].records = b"".join(runs)
        self.question.answer_instead(response)

    def _answer_text(self) -> str:
        data = self._data()
        if data.error_code:
            return self._error_text(Error(data.error_code))
        if data.diverging_epoch is not None and data.diverging_epoch.epoch != NO_EPOCH:
            diverging = data.diverging_epoch
            return f"diverging epoch={diverging.epoch} end-offset={diverging.end_offset}"
        batches = read_batches(data.records or b"")
        records = f"records {log_text(batches)}" if batches else "no records"
        return f"{records} high-watermark={data.high_watermark}"

    def _error_text(self, error: Error) -> str:
        hosted = self.leader.hosted_as(self.partition)
        skewed = error in (Error.FENCED_LEADER_EPOCH, Error.UNKNOWN_LEADER_EPOCH)
        if hosted is None or not skewed:
            return error.name
        asked, own = self.asked.current_leader_epoch, hosted.replica.leader_epoch
        if asked == own:
            return f"{error.name}: {self.leader.name} does not know this replica"
        return f"{error.name}: asked in leader-epoch={asked}, {self.leader.name} is in {own}"

    # -- the follower's side

    def _receive(self) -> None:
        role, log, data = self._role, self._hosted.log, self._data()
        records = memoryview(data.records or b"")
        headers = tuple(header for _, header in iter_batches(records))
        kept = follower_rules.batches_up_to(headers, role.leader_epoch)
        discarded = read_batches(records)[len(kept) :]
        if discarded:
            self.follower.note(
                f"discards {log_text(discarded)}: later than leader-epoch={role.leader_epoch}"
            )
        end, epochs = log.log_end_offset, list(log.epochs.entries)
        self.follower.told_high_watermark = data.high_watermark
        self.stage.wires.deliver_answer(self.question)
        self.stage.settle()
        self.follower.told_high_watermark = None
        if log.log_end_offset == end and len(log.epochs.entries) < len(epochs):
            self.follower.note(f"forget leader-epoch={epochs[-1][0]}, which wrote nothing")
        if role.delay_until_ms > self.stage.now_ms:
            self.follower.note(f"backs off {role.delay_until_ms - self.stage.now_ms}ms")


def begin_fetch(follower: StageBroker, *, max_records: int = EVERYTHING) -> Exchange | str:
    """The next fetch of this broker, or why it does not send one."""
    if not follower.awake:
        return "is paused" if follower.running else "is down"
    if not follower.serving:
        return "is not registered yet"
    hosted = follower.hosted or follower.any_hosted()  # it may know only an older topic
    if hosted is None:
        return "hosts no replica"
    role = hosted.follower
    if role is None:
        return "does not follow: it leads"
    question = _fresh_fetch(follower)
    if question is None:
        return _why_not(role, follower.stage.now_ms)
    return Exchange(follower, question, max_records)


def _fresh_fetch(follower: StageBroker) -> Question | None:
    """What the follower asks now. The fetch at the gate is perhaps from before it heard the news:
    a leader that has forgotten its session lets it begin anew."""
    stage = follower.stage
    stale = stage.gate.fetches.pop(follower.id, None)
    if stale is not None and stale.is_open:
        code = Error.FETCH_SESSION_ID_NOT_FOUND.value
        stale.answer_instead(FetchResponse(error_code=code))
        stage.wires.deliver_answer(stale)
        stage.settle()
    fresh = stage.gate.fetches.pop(follower.id, None)
    return fresh if fresh is not None and fresh.is_open else None


def _why_not(role: FollowerReplica, now_ms: int) -> str:
    if role.leader == NO_LEADER:
        return "knows no leader"
    if now_ms < role.delay_until_ms:
        return f"backs off for another {role.delay_until_ms - now_ms}ms"
    assert role.phase != FETCHING, "a follower that could fetch does not"
    return "has something to finish first"
