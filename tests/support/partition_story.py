"""One partition on a few brokers, told step by step.

A tiny shell around real replicas and `ObjectLog`s: it performs effects at once and leaves every
message in the test's hands, so that a test can lose, delay and repeat it. Every record is its
own batch, named by (offset, leader epoch), so logs can be compared by those names.
"""

from dataclasses import dataclass, field

from support.object_log import ObjectLog, client_batch
from tidelog.core.errors import Error
from tidelog.core.events import HighWatermarkAdvanced, IsrProposed, LogTruncated
from tidelog.core.replication.effects import (
    AnswerProduce,
    AppendBatches,
    AskLeaderOffsets,
    AssignEpoch,
    Effect,
    ProposeIsr,
    RaiseLogStart,
    RestartLog,
    TruncateLog,
)
from tidelog.core.replication.follower import FollowerReplica
from tidelog.core.replication.inputs import (
    ACKS_ALL,
    BrokerStatus,
    ConsumerFetch,
    FetchAnswer,
    FetchDecision,
    FollowerFetch,
    PartitionMetadata,
    ReplicaSettings,
)
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.replica import Replica
from tidelog.core.requests import IsrProposal, IsrResult
from tidelog.core.types import PartitionId

PARTITION = PartitionId(b"orders", 0)
EVERYTHING = 1 << 30


@dataclass
class Broker:
    """One broker's copy, and everything its replica asked for so far."""

    id: int
    log: ObjectLog
    replica: Replica
    settings: ReplicaSettings
    effects: list[Effect] = field(default_factory=list)
    proposals: list[IsrProposal] = field(default_factory=list)
    answers: dict[object, Error] = field(default_factory=dict)
    offset_questions: list[AskLeaderOffsets] = field(default_factory=list)

    @property
    def leader(self) -> LeaderReplica:
        assert isinstance(self.replica.role, LeaderReplica), f"{self.id} does not lead"
        return self.replica.role

    @property
    def follower(self) -> FollowerReplica:
        assert isinstance(self.replica.role, FollowerReplica), f"{self.id} does not follow"
        return self.replica.role

    @property
    def high_watermark(self) -> int:
        return self.replica.high_watermark

    @property
    def end(self) -> int:
        return self.log.log_end_offset

    @property
    def records(self) -> list[tuple[int, int]]:
        return [(batch.base_offset, batch.leader_epoch) for batch in self.log.batches]

    @property
    def truncations(self) -> list[LogTruncated]:
        return [effect for effect in self.effects if isinstance(effect, LogTruncated)]

    @property
    def commits(self) -> list[int]:
        return [e.high_watermark for e in self.effects if isinstance(e, HighWatermarkAdvanced)]

    @property
    def proposed(self) -> list[tuple[int, ...]]:
        return [effect.proposed for effect in self.effects if isinstance(effect, IsrProposed)]


class Story:
    def __init__(self, *brokers: int, min_isr: int = 1, fsync: bool = False) -> None:
        self.now_ms = 0
        self.assignment = brokers
        self.statuses = {broker: BrokerStatus(100 + broker, True) for broker in brokers}
        self.metadata = PartitionMetadata(-1, -1, -1, brokers, brokers)
        self.brokers: dict[int, Broker] = {}
        self.tokens = 0
        for broker in brokers:
            self.host(broker, min_isr=min_isr, fsync=fsync)

    def __getitem__(self, broker: int) -> Broker:
        return self.brokers[broker]

    # ---- the scene ----

    def host(self, broker: int, *, min_isr: int = 1, fsync: bool = False) -> Broker:
        log, settings = ObjectLog(fsync=fsync), ReplicaSettings(min_insync_replicas=min_isr)
        replica = Replica(PARTITION, broker, log, settings, high_watermark=0)
        self.brokers[broker] = Broker(broker, log, replica, settings)
        return self.brokers[broker]

    def given(self, broker: int, *epochs: tuple[int, int, int], hw: int = 0) -> None:
        """`(epoch, first offset, last offset)` for each leader epoch in the broker's log."""
        log = self[broker].log
        for epoch, first, last in epochs:
            log.assign_epoch(epoch, first)
            for offset in range(first, last + 1):
                assert log.log_end_offset == offset
                log.append_as_leader(client_batch((record(offset, epoch),)), epoch)
        log.sync()
        self[broker].replica.high_watermark = hw

    def restart(self, broker: int, *, checkpointed_hw: int | None = None) -> None:
        """The process starts anew on what its disk kept."""
        old = self[broker]
        old.log.lose_tail(0)
        hw = old.high_watermark if checkpointed_hw is None else checkpointed_hw
        replica = Replica(PARTITION, broker, old.log, old.settings, high_watermark=hw)
        self.brokers[broker] = Broker(broker, old.log, replica, old.settings)

    # ---- metadata ----

    def elect(self, leader: int, *isr: int, epoch: int, tell: tuple[int, ...] = ()) -> None:
        """The controller commits a leader; only the brokers in `tell` hear of it at once."""
        self.metadata = self.metadata._replace(
            leader=leader,
            leader_epoch=epoch,
            partition_epoch=self.metadata.partition_epoch + 1,
            isr=isr or self.metadata.isr,
        )
        for broker in tell or self.assignment:
            self.tell(broker)

    def set_isr(self, *isr: int, tell: tuple[int, ...] = ()) -> None:
        self.elect(self.metadata.leader, *isr, epoch=self.metadata.leader_epoch, tell=tell)

    def tell(self, broker: int, metadata: PartitionMetadata | None = None) -> list[Effect]:
        node = self[broker]
        effects = node.replica.apply_metadata(
            metadata or self.metadata, dict(self.statuses), self.now_ms
        )
        return self.perform(node, effects)

    def status(self, broker: int, *, epoch: int | None = None, active: bool = True) -> None:
        """Every broker's metadata now says this about `broker`."""
        old = self.statuses[broker]
        self.statuses[broker] = BrokerStatus(epoch or old.broker_epoch, active, old.rack)
        for node in self.brokers.values():
            self.perform(node, node.replica.on_brokers_changed(dict(self.statuses), self.now_ms))

    # ---- the shell ----

    def perform(self, node: Broker, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            node.effects.append(effect)
            match effect:
                case AssignEpoch(_, epoch, start):
                    node.log.assign_epoch(epoch, start)
                case TruncateLog(_, offset):
                    node.log.truncate_to(offset)
                    self.perform(node, node.follower.on_truncated(self.now_ms))
                case RestartLog(_, offset):
                    node.log.truncate_fully_and_start_at(offset)
                    self.perform(node, node.follower.on_truncated(self.now_ms))
                case AppendBatches():
                    node.log.append_as_follower(effect.batches)
                    self.perform(node, node.follower.on_appended(effect, self.now_ms))
                case RaiseLogStart(_, offset):
                    node.log.raise_log_start(offset)
                case ProposeIsr(proposal):
                    node.proposals.append(proposal)
                case AnswerProduce(_, token, error):
                    assert token not in node.answers, f"{token} is answered twice"
                    node.answers[token] = error
                case AskLeaderOffsets():
                    node.offset_questions.append(effect)
        return effects

    # ---- producers ----

    def produce(self, broker: int, count: int = 1, acks: int = ACKS_ALL) -> object:
        """Append `count` records. The returned token's answer is in `broker.answers`."""
        self.tokens += 1
        token = self.tokens
        node = self[broker]
        leader = node.leader
        for _ in range(count):
            batch = client_batch((record(node.end, node.replica.leader_epoch),))
            check = leader.check_produce(batch, acks)
            if check.error is not Error.NONE:
                node.answers[token] = check.error
                return token
            node.log.append_as_leader(batch, node.replica.leader_epoch)
        self.perform(node, leader.on_appended(self.now_ms))
        if acks == ACKS_ALL:
            self.perform(node, leader.await_commit(token, node.end, self.now_ms))
        elif acks == 1:
            node.answers[token] = Error.NONE
        return token

    # ---- fetches ----

    def ask(self, follower: int) -> FollowerFetch:
        fetch = self[follower].follower.next_fetch(self.now_ms)
        assert fetch is not None, f"{follower} does not want to fetch"
        return fetch

    def judge(self, leader: int, fetch: FollowerFetch) -> FetchDecision:
        decision, effects = self[leader].leader.on_follower_fetch(fetch, self.now_ms)
        self.perform(self[leader], effects)
        return decision

    def serve(self, leader: int, fetch: FollowerFetch) -> FetchAnswer:
        decision = self.judge(leader, fetch)
        batches = self[leader].log.read(decision.read_from, decision.read_to, EVERYTHING)
        return FetchAnswer(
            decision.error,
            decision.diverging,
            decision.high_watermark,
            decision.log_start_offset,
            batches,
        )

    def deliver(self, follower: int, fetch: FollowerFetch, answer: FetchAnswer) -> list[Effect]:
        node = self[follower]
        effects = node.follower.on_fetch_answer(fetch, answer, self.now_ms)
        return self.perform(node, effects)

    def fetch(self, follower: int, *, sync: bool = True) -> FetchAnswer:
        """One round trip to the leader the follower knows."""
        fetch = self.ask(follower)
        answer = self.serve(self[follower].follower.leader, fetch)
        self.deliver(follower, fetch, answer)
        if sync:
            self[follower].log.sync()
        return answer

    def answer_offsets(self, follower: int) -> None:
        """The second half of the ladder: ListOffsets as a replica."""
        question = self[follower].offset_questions.pop()
        log = self[question.leader].log
        effects = self[follower].follower.on_leader_offsets(
            log.log_start_offset, log.log_end_offset, self.now_ms
        )
        self.perform(self[follower], effects)

    def consume(self, broker: int, fetch: ConsumerFetch) -> tuple[FetchDecision, list[int]]:
        """A consumer's fetch, and the offsets it gets."""
        decision = self[broker].replica.consumer_fetch(fetch, self.now_ms)
        batches = self[broker].log.read(decision.read_from, decision.read_to, EVERYTHING)
        return decision, [batch.base_offset for batch in batches]

    # ---- the controller's answers ----

    def commit_proposal(self, leader: int, *, reply: bool = True) -> IsrResult:
        """The oldest proposal is committed; its answer may be lost."""
        proposal = self[leader].proposals.pop(0)
        assert proposal.partition_epoch == self.metadata.partition_epoch
        isr = tuple(member.broker_id for member in proposal.isr)
        self.metadata = self.metadata._replace(
            isr=isr, partition_epoch=self.metadata.partition_epoch + 1
        )
        result = IsrResult(
            PARTITION,
            Error.NONE,
            self.metadata.leader,
            self.metadata.leader_epoch,
            isr,
            0,
            self.metadata.partition_epoch,
        )
        if reply:
            self.reply(leader, result)
        return result

    def reply(self, leader: int, result: IsrResult) -> list[Effect]:
        node = self[leader]
        return self.perform(node, node.leader.on_isr_result(result, self.now_ms))

    def refuse_proposal(self, leader: int, error: Error) -> list[Effect]:
        self[leader].proposals.pop(0)
        return self.reply(leader, IsrResult(PARTITION, error))


def record(offset: int, epoch: int) -> int:
    return epoch * 1_000_000 + offset


def epoch_records(*epochs: tuple[int, int, int]) -> list[tuple[int, int]]:
    """What `Broker.records` is for a log with these `(epoch, first, last)`."""
    return [(o, epoch) for epoch, first, last in epochs for o in range(first, last + 1)]
