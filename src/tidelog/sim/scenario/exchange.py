"""One fetch of a follower and its answer: each half can be kept on the wire or lost.

The whole exchange is told in one line, in the order in which it happens:
the request | what the leader does | the answer | what the follower does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tidelog.core.errors import Error
from tidelog.core.replication import follower as follower_rules
from tidelog.core.replication.follower import FETCHING, FollowerReplica
from tidelog.core.replication.inputs import FetchAnswer, FetchDecision, FollowerFetch
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.replica import Replica
from tidelog.core.types import NO_EPOCH, NO_LEADER, NO_OFFSET
from tidelog.sim.scenario import wire
from tidelog.sim.sim_log import SimBatch

if TYPE_CHECKING:
    from tidelog.sim.scenario.broker import StageBroker

EVERYTHING = 1 << 30


class Exchange:
    """A fetch under way."""

    def __init__(
        self, follower: StageBroker, replica: Replica, fetch: FollowerFetch, *, max_records: int
    ) -> None:
        self.stage = follower.stage
        self.follower = follower
        self.replica = replica
        self.role = cast("FollowerReplica", replica.role)
        self.fetch = fetch
        self.max_records = max_records
        self.leader = self.stage.brokers[self.role.leader]
        self.decision: FetchDecision | None = None
        self.answer: FetchAnswer | None = None
        epoch = fetch.last_fetched_epoch
        last_epoch = "none" if epoch == NO_EPOCH else str(epoch)
        self.told = [
            f"{follower.name} -> {self.leader.name} "
            f"fetch offset={fetch.fetch_offset} last-epoch={last_epoch}"
        ]

    def send(self) -> None:
        if self.stage.wire.catches(wire.FETCH, self.follower.id, self):
            self.told.append("held")
        else:
            self.deliver_request()

    def deliver_request(self) -> None:
        if not self.follower.reaches(self.leader):
            self.lose("no connection")
            return
        self.answer = self._serve()
        self.told += self.stage.narrator.take_notes()
        self.told.append(self._answer_text(self.answer))
        if self.stage.wire.catches(wire.ANSWER, self.follower.id, self):
            self.told.append("held")
        else:
            self.deliver_answer()

    def deliver_answer(self, *, zero_copy: bool = False) -> None:
        answer = self.answer
        assert answer is not None, "the leader has not answered"
        if zero_copy:
            self.answer = answer = answer._replace(batches=self._read())
            self.told.append(self._answer_text(answer))
        role, now_ms = self.role, self.stage.now_ms
        if not self.follower.awake:
            self.follower.note("is paused" if self.follower.running else "is down")
        elif self.replica.role is not role:
            self.follower.note("ignores the answer to an old fetch")
        elif role.ignores_answer_to(self.fetch, now_ms):
            self.follower.note("ignores the answer")
        else:
            self._receive(role, answer, now_ms)
        self.told += self.stage.narrator.take_notes()

    def lose(self, how: str) -> None:
        """No answer will come; the follower notices and waits before it asks again."""
        self.told.append(how)
        if self.follower.awake and self.replica.role is self.role:
            self.role.on_fetch_failed(self.stage.now_ms)

    def tell(self) -> None:
        """Print what happened since it was last told, then what follows from it."""
        self.stage.narrator.line(" | ".join(self.told))
        self.told = []
        self.stage.settle()

    # -- the leader's side

    def _serve(self) -> FetchAnswer:
        leader, partition = self.leader, self.replica.partition
        hosted = leader.replicas.get(partition)
        if hosted is None:
            known = partition.topic_id in leader.image.topics
            error = Error.NOT_LEADER_OR_FOLLOWER if known else Error.UNKNOWN_TOPIC_ID
            return FetchAnswer(error, None, NO_OFFSET, NO_OFFSET)
        role = hosted.role
        if not isinstance(role, LeaderReplica):
            error = hosted.check_reader(self.fetch.leader_epoch, leader_only=True)
            return FetchAnswer(error, None, NO_OFFSET, NO_OFFSET)
        decision, effects = role.on_follower_fetch(self.fetch, self.stage.now_ms)
        leader.perform(hosted, effects)
        self.decision = decision
        return FetchAnswer(
            decision.error,
            decision.diverging,
            decision.high_watermark,
            decision.log_start_offset,
            self._read(),
        )

    def _read(self) -> tuple[SimBatch, ...]:
        decision, log = self.decision, self.leader.disk.logs.get(self.replica.partition)
        if decision is None or decision.error is not Error.NONE or decision.diverging is not None:
            return ()
        assert log is not None, f"{self.leader.name} has no log"
        return log.read(decision.read_from, decision.read_to, self.max_records)

    def _answer_text(self, answer: FetchAnswer) -> str:
        if answer.error is not Error.NONE:
            return self._error_text(answer.error)
        if answer.diverging is not None:
            epoch, end_offset = answer.diverging
            return f"diverging epoch={epoch} end-offset={end_offset}"
        batches = cast("tuple[SimBatch, ...]", answer.batches)
        records = f"records {self.stage.names.log(batches)}" if batches else "no records"
        return f"{records} high-watermark={answer.high_watermark}"

    def _error_text(self, error: Error) -> str:
        if error not in (Error.FENCED_LEADER_EPOCH, Error.UNKNOWN_LEADER_EPOCH):
            return error.name
        hosted = self.leader.replicas[self.replica.partition]
        asked, own = self.fetch.leader_epoch, hosted.leader_epoch
        if asked == own:
            return f"{error.name}: {self.leader.name} does not know this replica"
        return f"{error.name}: asked in leader-epoch={asked}, {self.leader.name} is in {own}"

    # -- the follower's side

    def _receive(self, role: FollowerReplica, answer: FetchAnswer, now_ms: int) -> None:
        batches = cast("tuple[SimBatch, ...]", answer.batches)
        kept = follower_rules.batches_up_to(batches, role.leader_epoch)
        discarded = batches[len(kept) :]
        if discarded:
            self.follower.note(
                f"discards {self.stage.names.log(discarded)}: later than leader-epoch="
                f"{role.leader_epoch}"
            )
        effects = role.on_fetch_answer(self.fetch, answer, now_ms)
        self.follower.told_high_watermark = answer.high_watermark
        self.follower.perform(self.replica, effects)
        self.follower.told_high_watermark = None
        if role.delay_until_ms > now_ms:
            self.follower.note(f"backs off {role.delay_until_ms - now_ms}ms")


def begin_fetch(follower: StageBroker, *, max_records: int = EVERYTHING) -> Exchange | str:
    """The next fetch of this broker, or why it does not send one."""
    if not follower.awake:
        return "is paused" if follower.running else "is down"
    replica = follower.stage.replica_on(follower)
    if replica is None and len(follower.replicas) == 1:
        (replica,) = follower.replicas.values()  # its metadata knows only an older topic
    if not follower.serving:
        return "is not registered yet"
    if replica is None:
        return "hosts no replica"
    role = replica.role
    if not isinstance(role, FollowerReplica):
        return "does not follow: it leads"
    fetch = role.next_fetch(follower.stage.now_ms)
    if fetch is None:
        return _why_not(role, follower.stage.now_ms)
    return Exchange(follower, replica, fetch, max_records=max_records)


def _why_not(role: FollowerReplica, now_ms: int) -> str:
    if role.leader == NO_LEADER:
        return "knows no leader"
    if now_ms < role.delay_until_ms:
        return f"backs off for another {role.delay_until_ms - now_ms}ms"
    assert role.phase != FETCHING, "a follower that could fetch does not"
    return "has something to finish first"
