"""DeleteRecords v0 to v2: hide the oldest records of partitions (KIP-107).

The leader raises its log start and answers the fetches that followers have parked, so that they
learn of it immediately. The answer waits until every live replica has followed, or until the
client's timeout.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.fetch import own_writes
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.types import NO_OFFSET
from tidelog.host import tasks
from tidelog.wire.protocol.schemas.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
)
from tidelog.wire.protocol.schemas.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.fetch.fetches import Fetches
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.core.replication.leader import LeaderReplica
    from tidelog.core.types import PartitionId
    from tidelog.host.node_host import NodeHost
    from tidelog.rpc import Call

AT_ONCE = 200
"""Partitions whose log start is raised in one turn of the loop, with one writing to the disk."""
LOOK_AGAIN_MS = 20
"""Nobody reports a follower's log start; an operator's request can afford to look for it."""


class Parts(NamedTuple):
    """What this handler uses."""

    replicas: Replicas
    fetches: Fetches
    host: NodeHost


def handle(parts: Parts, call: Call) -> None:
    request = call.request
    assert isinstance(request, DeleteRecordsRequest), request
    deadline_ms = parts.host.now_ms() + max(request.timeout_ms, 0)
    begin = partial(_delete_records, parts, call, request, deadline_ms)
    own_writes.when_readable(
        parts.replicas, parts.host.timers, _not_committed_yet(parts, request), begin
    )


def _not_committed_yet(parts: Parts, request: DeleteRecordsRequest) -> Iterator[Hosted]:
    """Partitions of which records are to go that are in the log and not committed."""
    for topic in request.topics:
        for asked in topic.partitions:
            hosted = parts.replicas.named(topic.name, asked.partition_index)
            if hosted is None:
                continue
            committed, end = hosted.replica.high_watermark, hosted.log.log_end_offset
            if asked.offset == NO_OFFSET or committed < asked.offset <= end:
                yield hosted


def _delete_records(
    parts: Parts, call: Call, request: DeleteRecordsRequest, deadline_ms: int
) -> None:
    Deletion(parts, call, request, deadline_ms).go_on()


class Waiting:
    """A partition whose followers still show what was deleted."""

    __slots__ = ("offset", "result", "role")

    def __init__(
        self, role: LeaderReplica, offset: int, result: DeleteRecordsPartitionResult
    ) -> None:
        self.role = role
        self.offset = offset
        self.result = result


class Deletion:
    """One request; it answers once, when every partition is decided."""

    __slots__ = ("_call", "_deadline_ms", "_parts", "_results", "_topics", "_waiting")

    def __init__(
        self, parts: Parts, call: Call, request: DeleteRecordsRequest, deadline_ms: int
    ) -> None:
        self._parts = parts
        self._call = call
        self._deadline_ms = deadline_ms
        self._waiting: list[Waiting] = []
        self._topics: list[DeleteRecordsTopicResult] = []
        self._results = self._begin_all(request)

    def go_on(self) -> None:
        """Delete from some partitions, and in the next turn from more; then look at followers."""
        begun = len(list(islice(self._results, AT_ONCE)))
        self._parts.replicas.log_starts.settle()
        if begun == AT_ONCE:
            tasks.soon(self.go_on)
        else:
            self._look()

    def _begin_all(self, request: DeleteRecordsRequest) -> Iterator[DeleteRecordsPartitionResult]:
        """One partition per step, so that others can be served in between."""
        for topic in request.topics:
            results: list[DeleteRecordsPartitionResult] = []
            self._topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
            for asked in topic.partitions:
                results.append(self._begin(topic.name, asked))
                yield results[-1]

    def _begin(self, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        result = DeleteRecordsPartitionResult(
            partition_index=asked.partition_index, low_watermark=NO_OFFSET
        )
        hosted = self._parts.replicas.named(topic, asked.partition_index)
        if hosted is None:
            result.error_code = self._parts.replicas.why_not_led_here(topic, asked.partition_index)
        else:
            result.error_code = self._delete(hosted, asked.offset, result)
        return result

    def _look(self) -> None:
        """Answer, or look again a little later."""
        now_ms = self._parts.host.now_ms()
        is_over = now_ms >= self._deadline_ms
        self._waiting = [each for each in self._waiting if not _decide(each, is_over=is_over)]
        if self._waiting:
            self._parts.host.timers.add(min(now_ms + LOOK_AGAIN_MS, self._deadline_ms), self._look)
        else:
            self._call.answer(DeleteRecordsResponse(topics=self._topics))

    def _delete(self, hosted: Hosted, offset: int, result: DeleteRecordsPartitionResult) -> Error:
        role = hosted.leader
        if role is None:
            return Error.NOT_LEADER_OR_FOLLOWER
        if not hosted.log.config.deletes:
            return Error.POLICY_VIOLATION  # compaction alone decides what may go
        answer = role.check_delete_records(offset)
        if answer.error is not NO_ERROR:
            return answer.error
        waiting = Waiting(role, answer.offset, result)
        done = partial(self._raised, hosted.partition, waiting)
        self._parts.replicas.log_starts.raise_later(hosted, answer.offset, done)
        return NO_ERROR

    def _raised(self, partition: PartitionId, waiting: Waiting, error: Error) -> None:
        if error is NO_ERROR:
            self._parts.fetches.answer_followers(partition)
            self._waiting.append(waiting)
        else:
            waiting.result.error_code = error


def _decide(waiting: Waiting, *, is_over: bool) -> bool:
    """True when its result is final."""
    result = waiting.result
    if not waiting.role.leads():
        result.error_code = Error.NOT_LEADER_OR_FOLLOWER
        return True
    result.low_watermark = waiting.role.low_watermark()
    if result.low_watermark >= waiting.offset:
        return True
    if is_over:
        result.error_code = Error.REQUEST_TIMED_OUT
    return is_over
