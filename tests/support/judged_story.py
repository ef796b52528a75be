"""A `Story` between real replicas that is told to the judge as it happens.

Stories begin in the middle: logs and high watermarks are given. The judge is told of them as of
things that happened earlier, and of the story's metadata as committed.
"""

from typing import ClassVar

from support.partition_story import PARTITION, Broker, Story
from tidelog.core.errors import Error
from tidelog.core.events import (
    BecameFollower,
    BecameLeader,
    HighWatermarkAdvanced,
    HighWatermarkLowered,
    IsrChanged,
)
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.replication.effects import (
    AnswerProduce,
    AppendBatches,
    Effect,
    ProposeIsr,
    RestartLog,
    TruncateLog,
)
from tidelog.core.replication.inputs import ACKS_ALL, ConsumerFetch, FetchDecision, FollowerFetch
from tidelog.core.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrResult,
)
from tidelog.core.types import PartitionId
from tidelog.sim.books import Books
from tidelog.sim.judge import Judge
from tidelog.sim.rules.log_rules import LogMatching
from tidelog.sim.rules.plain_image import Committed, Registration
from tidelog.sim.sim_log import SimBatch, SimLog

EVERYTHING = 1 << 30


class TellingLog(SimLog):
    """Tells whenever somebody writes into it as a leader."""

    __slots__ = ("tell",)

    def append_as_leader(self, batch: SimBatch, leader_epoch: int) -> SimBatch:
        stamped = super().append_as_leader(batch, leader_epoch)
        self.tell(stamped)
        return stamped


class JudgedStory(Story):
    """`durable=False`: the story is about losing committed records."""

    told: ClassVar["list[JudgedStory]"] = []
    durable = True

    def __init__(self, *brokers: int, min_isr: int = 1, fsync: bool = False) -> None:
        self.check_quorum_ms = 3_000
        self.books = Books(MetadataImage(), lambda count: (0,) * count)
        self.judge_of_rules = Judge()
        self.judge_of_rules.attend(self)
        self.chronicle = self.judge_of_rules.chronicle
        self.appended: dict[object, SimBatch] = {}
        self.matching = next(
            rule for rule in self.judge_of_rules.rules if isinstance(rule, LogMatching)
        )
        super().__init__(*brokers, min_isr=min_isr, fsync=fsync)
        for broker, status in self.statuses.items():
            registration = Registration(b"", status.broker_epoch, None, False, False, ())
            self.chronicle.image.brokers[broker] = registration
        JudgedStory.told.append(self)

    # -- WorldView

    def replicas(self, partition: PartitionId) -> list[object]:
        return [node.replica for node in self.brokers.values()]

    def all_logs(self, partition: PartitionId) -> list[tuple[int, SimLog]]:
        return [(node.id, node.log) for node in self.brokers.values()]

    def partitions(self) -> list[PartitionId]:
        return [PARTITION]

    def expected_durable(self, partition: PartitionId) -> bool:
        return self.durable

    def quorum_nodes(self) -> list[tuple[int, object]]:
        return []

    def controllers(self) -> list[tuple[int, object]]:
        return []

    # -- what was before

    def host(self, broker: int, *, min_isr: int = 1, fsync: bool = False) -> Broker:
        node = super().host(broker, min_isr=min_isr, fsync=fsync)
        log = node.log = node.replica.log = TellingLog(fsync=fsync)
        log.tell = lambda batch: self._appended(broker, batch)
        return node

    def _appended(self, broker: int, batch: SimBatch) -> None:
        """A record that lies there before the story begins was written by some leader."""
        replica = self[broker].replica
        if replica.leader == broker:
            self.appended[self.tokens] = batch
            self.judge_of_rules.leader_appended(replica, batch)
        else:
            self.matching.leader_appended(replica, batch)

    def given(self, broker: int, *epochs: tuple[int, int, int], hw: int = 0) -> None:
        super().given(broker, *epochs, hw=hw)
        facts = self.chronicle.facts(PARTITION)
        for batch in self[broker].log.batches:
            end = batch.last_offset + 1
            if end <= hw and end > facts.committed_end:
                facts.ends[end] = batch
                facts.digests[end] = self[broker].log.chain_at(end)
                facts.committed_end = end
        facts.highest_held[broker] = hw

    def restart(self, broker: int, *, checkpointed_hw: int | None = None) -> None:
        super().restart(broker, checkpointed_hw=checkpointed_hw)
        self.judge_of_rules.node_stopped(broker, "power_loss")

    # -- metadata

    def tell(self, broker: int, metadata: object = None) -> list[Effect]:
        self._commit()
        return super().tell(broker, metadata)

    def _commit(self) -> None:
        facts = self.chronicle.facts(PARTITION)
        meta = self.metadata
        facts.state = facts.history[meta.partition_epoch] = Committed(
            meta.leader,
            meta.leader_epoch,
            meta.partition_epoch,
            meta.replicas,
            meta.isr,
            meta.adding_replicas,
            meta.removing_replicas,
            0,
            (),
            (),
        )
        facts.leader_of_epoch.setdefault(meta.leader_epoch, meta.leader)

    def commit_proposal(self, leader: int, *, reply: bool = True) -> IsrResult:
        proposal = self[leader].proposals[0]
        result = super().commit_proposal(leader, reply=False)
        self._commit()
        request = AlterPartitionRequest(leader, 0, (proposal,))
        response = AlterPartitionResponse(Error.NONE, (result,))
        self.chronicle.controller_answered(0, request, response)
        if reply:
            self.reply(leader, result)
        return result

    def refuse_proposal(self, leader: int, error: Error) -> list[Effect]:
        request = AlterPartitionRequest(leader, 0, (self[leader].proposals[0],))
        response = AlterPartitionResponse(Error.NONE, (IsrResult(PARTITION, error),))
        self.chronicle.controller_answered(0, request, response)
        return super().refuse_proposal(leader, error)

    def status(self, broker: int, *, epoch: int | None = None, active: bool = True) -> None:
        registration = Registration(
            b"", epoch or self.statuses[broker].broker_epoch, None, not active, False, ()
        )
        self.chronicle.image.brokers[broker] = registration
        super().status(broker, epoch=epoch, active=active)

    # -- happenings

    def perform(self, node: Broker, effects: list[Effect]) -> list[Effect]:
        judge = self.judge_of_rules
        for effect in effects:
            end = node.log.log_end_offset
            if isinstance(effect, AppendBatches):
                # Judged between the append and what the follower makes of it, as a shell does.
                node.log.append_as_follower(effect.batches)
                judge.follower_appended(node.replica, effect.batches)
                node.effects.append(effect)
                self.perform(node, node.follower.on_appended(effect, self.now_ms))
                continue
            super().perform(node, [effect])
            self._tell_judge(node, effect, end)
        return effects

    def _tell_judge(self, node: Broker, effect: Effect, end: int) -> None:
        judge, replica = self.judge_of_rules, node.replica
        if isinstance(effect, TruncateLog | RestartLog):
            judge.truncated(replica, end)
        elif isinstance(effect, BecameLeader):
            judge.became_leader(replica, False)
        elif isinstance(effect, BecameFollower):
            judge.became_follower(replica)
        elif isinstance(effect, HighWatermarkAdvanced | HighWatermarkLowered):
            judge.high_watermark_moved(replica, effect.previous)
        elif isinstance(effect, ProposeIsr):
            judge.isr_proposed(replica, effect.proposal)
        elif isinstance(effect, IsrChanged):
            judge.isr_adopted(replica, effect.previous)
        elif isinstance(effect, AnswerProduce) and effect.error is Error.NONE:
            batch = self.appended.get(effect.token)
            if batch is not None:
                judge.produce_acked(replica, batch, ACKS_ALL)

    def judge(self, leader: int, fetch: FollowerFetch) -> FetchDecision:
        decision, effects = self[leader].leader.on_follower_fetch(fetch, self.now_ms)
        self.perform(self[leader], effects)
        self.judge_of_rules.follower_fetched(self[leader].replica, fetch, decision)
        return decision

    def consume(self, broker: int, fetch: ConsumerFetch) -> tuple[FetchDecision, list[int]]:
        decision, offsets = super().consume(broker, fetch)
        log = self[broker].log
        batches = log.read(decision.read_from, decision.read_to, EVERYTHING)
        self.judge_of_rules.consumer_read(1001, self[broker].replica, batches, fetch.fetch_offset)
        return decision, offsets
