"""Follower side: fetch loops towards the brokers that lead what we follow.

A partition belongs to one loop for each leader, by a hash that every incarnation computes alike.
A loop speaks in an incremental session (KIP-227): only positions that changed are sent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

from tidelog.broker.replication.fetcher import Fetcher, FetcherSurroundings
from tidelog.core.errors import NO_ERROR
from tidelog.core.replication.effects import AskLeaderOffsets
from tidelog.core.replication.follower import ASKING, FollowerReplica
from tidelog.core.replication.inputs import EARLIEST, LATEST
from tidelog.core.types import NO_LEADER, NO_OFFSET, PartitionId
from tidelog.host.ports import NetworkError
from tidelog.rpc import Answer
from tidelog.wire.protocol.schemas.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.protocol.schemas.list_offsets_response import ListOffsetsResponse

if TYPE_CHECKING:
    from tidelog.broker.replication.broker_connections import BrokerConnections
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.leaving_isr import LeavingIsr

LIST_OFFSETS_VERSION = 9


class Fetchers:
    """Which partition is fetched from whom. One per broker."""

    __slots__ = ("_askers", "_leaving_isr", "_loop_of", "_loops", "_questions", "_surroundings")

    def __init__(
        self, surroundings: FetcherSurroundings, leaving_isr: LeavingIsr, askers: BrokerConnections
    ) -> None:
        self._surroundings = surroundings
        self._leaving_isr = leaving_isr
        self._loops: dict[tuple[int, int], Fetcher] = {}
        self._loop_of: dict[PartitionId, Fetcher] = {}
        self._askers = askers
        self._questions: dict[PartitionId, OffsetsQuestion] = {}
        """The latest question for the leader's offsets; answers to earlier ones do not count."""

    def follow(self, hosted: Hosted) -> None:
        """Fetch from the replica's present leader; from nobody if there is none, or if the
        replica stands aside."""
        self.drop(hosted.partition)
        leader = hosted.replica.leader
        if leader == NO_LEADER or self._leaving_isr.is_aside(hosted):
            return
        key = leader, loop_number(hosted.partition, self._surroundings.settings.fetchers)
        fetcher = self._loops.get(key)
        if fetcher is None:
            fetcher = self._loops[key] = Fetcher(leader, self._surroundings)
        fetcher.add(hosted)
        self._loop_of[hosted.partition] = fetcher

    def drop(self, partition: PartitionId) -> None:
        """Fetch this partition no more."""
        self._questions.pop(partition, None)
        fetcher = self._loop_of.pop(partition, None)
        if fetcher is not None:
            fetcher.remove(partition)

    def is_fetched(self, partition: PartitionId) -> bool:
        return partition in self._loop_of

    def wake(self, partition: PartitionId) -> None:
        """Something that a fetch of this partition waited for may have come."""
        fetcher = self._loop_of.get(partition)
        if fetcher is not None:
            fetcher.note_changed(partition)
            fetcher.wake()

    def wake_all(self) -> None:
        """Metadata was applied."""
        for fetcher in list(self._loops.values()):
            fetcher.wake()

    def revive(self, now_ms: int) -> None:
        """Called now and then: no loop stands still for good, whatever has happened to it."""
        for fetcher in list(self._loops.values()):
            fetcher.revive(now_ms)

    async def stop(self) -> None:
        """Fetch nothing more, close the connections."""
        self._loop_of.clear()
        for fetcher in self._loops.values():
            fetcher.stop()
        self._askers.close()

    # -- out of range: where does the leader's log start and end?

    def ask_leader_offsets(self, hosted: Hosted, effect: AskLeaderOffsets) -> None:
        """Ask the leader where its log starts and ends; the replica hears the answer. The
        partition is out of the fetch loop meanwhile, so no answer has to wake it too."""
        role = hosted.follower
        assert role is not None, f"{hosted} asks {effect.leader} without following it"
        peer = self._askers.to(effect.leader)
        question = OffsetsQuestion(hosted, role, self._on_offsets)
        self._questions[hosted.partition] = question
        if peer is None:
            self._surroundings.host.timers.after(0, question.give_up)
            return
        own_id = self._surroundings.metadata.own_id
        for which in (EARLIEST, LATEST):
            partition = ListOffsetsPartition(
                partition_index=hosted.index,
                current_leader_epoch=effect.leader_epoch,
                timestamp=which,
            )
            topic = ListOffsetsTopic(name=hosted.topic, partitions=[partition])
            peer.send(
                ListOffsetsRequest(replica_id=own_id, topics=[topic]),
                LIST_OFFSETS_VERSION,
                partial(question.on_answer, which),
                timeout_ms=self._surroundings.settings.socket_timeout_ms,
            )

    def _on_offsets(self, question: OffsetsQuestion) -> None:
        cuts = self._surroundings.cuts
        if cuts.may_begin():
            self._follow_offsets(question)
        else:
            cuts.later(partial(self._follow_offsets, question))

    def _follow_offsets(self, question: OffsetsQuestion) -> None:
        hosted, role = question.hosted, question.role
        if self._questions.get(hosted.partition) is not question:
            return  # it follows anew, or has given up waiting, and asks for itself
        del self._questions[hosted.partition]
        if hosted.replica.role is not role or role.phase != ASKING:
            return
        now = self._surroundings.host.now_ms()
        start, end = question.offsets.get(EARLIEST), question.offsets.get(LATEST)
        if start is None or end is None:
            role.on_fetch_failed(now)
        else:
            self._surroundings.replicas.perform(hosted, role.on_leader_offsets(start, end, now))
        self.wake(hosted.partition)


class OffsetsQuestion:
    """Two requests, because one may not name a partition twice; done with both or a failure."""

    __slots__ = ("_done", "_on_done", "hosted", "offsets", "role")

    def __init__(
        self,
        hosted: Hosted,
        role: FollowerReplica,
        on_done: Callable[[OffsetsQuestion], None],
    ) -> None:
        self.hosted = hosted
        self.role = role
        self.offsets: dict[int, int] = {}
        self._on_done = on_done
        self._done = False

    def on_answer(self, which: int, answer: Answer) -> None:
        offset = NO_OFFSET if isinstance(answer, NetworkError) else _offset_in(answer)
        if offset == NO_OFFSET:
            self.give_up()
            return
        self.offsets[which] = offset
        if len(self.offsets) == 2:
            self._finish()

    def give_up(self) -> None:
        self.offsets.clear()
        self._finish()

    def _finish(self) -> None:
        if not self._done:
            self._done = True
            self._on_done(self)


def _offset_in(answer: object) -> int:
    assert isinstance(answer, ListOffsetsResponse), answer
    for topic in answer.topics:
        for partition in topic.partitions:
            return partition.offset if partition.error_code == NO_ERROR else NO_OFFSET
    return NO_OFFSET


def loop_number(partition: PartitionId, loops: int) -> int:
    """The same in every process, so that the connections of a cluster can be told."""
    return crc32(partition.partition.to_bytes(4, "big"), crc32(partition.topic_id)) % loops
