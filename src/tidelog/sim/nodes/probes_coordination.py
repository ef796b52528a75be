"""Probes of the coordinators of groups and transactions."""

from typing import Any, NamedTuple, cast

from tidelog.broker.coordination.internal_log import InternalLog
from tidelog.coordinators.shard import Shard
from tidelog.core import events
from tidelog.core.coordination import Outcome
from tidelog.core.groups.requests import (
    ConsumerHeartbeat,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    SyncGroup,
)
from tidelog.core.types import PartitionId
from tidelog.sim.judge import Judge
from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.loop import running_owner
from tidelog.sim.nodes.probes import Method, Probe
from tidelog.sim.nodes.view import NodesView
from tidelog.sim.nodes.view_transactions import TransactionsSeen

MEMBERS_SAY = JoinGroup | SyncGroup | Heartbeat | ConsumerHeartbeat


class Question(NamedTuple):
    """A request that a coordinator has not answered yet."""

    request: Any
    floor: int
    """What was committed when it was asked: the answer must not know less."""
    asked_ms: int
    """By the clock of the coordinator."""


class CoordinationProbes:
    """Tells the judge what coordinators are asked and what they answer."""

    def __init__(self, judge: Judge, view: NodesView, cluster: NodeCluster) -> None:
        self._judge = judge
        self._view = view
        self._servers = cluster.servers
        self._asked: dict[object, Question] = {}
        self.transactions = TransactionsSeen(view)

    def all(self) -> list[Probe]:
        return [
            Probe(Shard, "request", self._around_request),
            Probe(Shard, "finish_loading", self._around_finish_loading),
            Probe(Shard, "_release", self._around_release),
        ]

    def on_event(self, node: int, event: events.Event) -> None:
        if isinstance(event, events.MemberLeft):
            now_ms = self._servers[node].clock.monotonic_ms()
            self._judge.member_left(node, event, now_ms)

    def _around_finish_loading(self, original: Method) -> Method:
        def finish_loading(shard: Shard) -> None:
            node = running_owner()
            if node is not None:
                self._judge.coordinator_began(node, partition_of(shard))
            original(shard)

        return finish_loading

    def _around_request(self, original: Method) -> Method:
        def request(shard: Shard, request: object, token: object) -> None:
            node = running_owner()
            if node is not None:
                self._ask(shard, node, request, token)
            original(shard, request, token)

        return request

    def _ask(self, shard: Shard, node: int, request: object, token: object) -> None:
        if isinstance(request, JoinGroup):
            self._judge.member_joining(node, request)
        asked_ms = shard._port.now().monotonic_ms
        partition = partition_of(shard)
        # A leader that does not know of its successor may be late with what it tells, never with
        # what it accepts.
        if isinstance(request, FetchOffsets):
            floor = shard._log.committed_offset()
        else:
            assert self._judge.chronicle is not None, "asked before there is a judge"
            floor = self._judge.chronicle.facts(partition).committed_end
        self._asked[token] = Question(request, floor, asked_ms)
        self.transactions.on_asked(request)

    def _around_release(self, original: Method) -> Method:
        def release(shard: Shard, outcome: Outcome) -> None:
            node = running_owner()
            if node is not None:
                for answer in outcome.answers:
                    question = self._asked.pop(answer.token, None)
                    if question is not None:
                        self._answered(shard, node, question, answer.response)
            original(shard, outcome)

        return release

    def _answered(self, shard: Shard, node: int, question: Question, response: Any) -> None:
        request = question.request
        self.transactions.on_answered(request, response)
        partition = partition_of(shard)
        self._judge.coordinator_answered(partition, request, response, question.floor)
        if isinstance(request, MEMBERS_SAY):
            self._judge.member_heard(node, request, response, question.asked_ms)


def partition_of(shard: Shard) -> PartitionId:
    return cast(InternalLog, shard._log)._hosted.partition
