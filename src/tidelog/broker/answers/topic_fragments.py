"""The encoded parts of Metadata answers, kept from one request to the next.

Metadata is the one expensive answer of the control plane: encoding 100 topics takes most of a
millisecond, and after a change of leaders all clients ask at the same time. So each topic is
encoded once and kept until it changes. A change of a partition raises its partition epoch by one,
so the number of partitions and the sum of their epochs tell whether a topic changed.

The body of an answer is put together as head, count of topics, fragments, tail. A test asserts, for
every version, that the codec itself would write the same.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from tidelog.broker.answers import authorized_operations
from tidelog.broker.answers.neighbours import Neighbour, offline_replicas, seen_leader
from tidelog.broker.coordination.internal_topics import INTERNAL_TOPICS
from tidelog.core.errors import Error
from tidelog.core.metadata.image import MetadataImage, PartitionState, TopicState
from tidelog.wire.protocol import encode
from tidelog.wire.protocol.schemas.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.protocol.varints import varint

FIRST_FLEXIBLE = 9
FIRST_WITH_LISTENER_ERROR = 6
"""Older clients do not know LISTENER_NOT_FOUND."""


class View(NamedTuple):
    """What answers to different clients may differ in."""

    version: int
    listener: str
    with_operations: bool


class Fragment:
    __slots__ = ("data", "fingerprint", "offset")

    def __init__(self, data: bytes, fingerprint: tuple[int, int], offset: int) -> None:
        self.data = data
        self.fingerprint = fingerprint
        self.offset = offset
        """Of the metadata it was last compared with."""


class TopicFragments:
    """The fragments for one view. They are all dropped when a broker comes or goes."""

    __slots__ = ("_fragments", "_live", "_view")

    def __init__(self, view: View) -> None:
        self._view = view
        self._live: dict[int, Neighbour] = {}
        self._fragments: dict[bytes, Fragment] = {}

    def see(self, live: dict[int, Neighbour]) -> None:
        """Tell who is live; fragments name leaders and offline replicas."""
        if live is not self._live and live != self._live:
            self._fragments.clear()
        self._live = live

    def of(self, image: MetadataImage, topic: TopicState, offset: int) -> bytes:
        kept = self._fragments.get(topic.topic_id)
        if kept is not None and kept.offset == offset:
            return kept.data
        fingerprint = _fingerprint(topic)
        if kept is not None and kept.fingerprint == fingerprint:
            kept.offset = offset
            return kept.data
        data = encode_topic(described(image, topic, self._live, self._view), self._view.version)
        self._fragments[topic.topic_id] = Fragment(data, fingerprint, offset)
        if len(self._fragments) > len(image.topics):
            self._forget_deleted(image)
        return data

    def _forget_deleted(self, image: MetadataImage) -> None:
        self._fragments = {
            topic_id: each for topic_id, each in self._fragments.items() if topic_id in image.topics
        }


def described(
    image: MetadataImage, topic: TopicState, live: dict[int, Neighbour], view: View
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _described_partition(image, state, live, view.version)
            for state in topic.partitions.values()
        ],
        topic_authorized_operations=authorized_operations.on_topic(asked=view.with_operations),
    )


def encode_topic(topic: MetadataResponseTopic, version: int) -> bytes:
    """The bytes of a topic within an answer."""
    alone = encode(MetadataResponse(topics=[topic]), version)
    return alone[head_bytes(version) : len(alone) - tail_bytes(version)]


@cache
def head_bytes(version: int) -> int:
    """What precedes the topics of an answer without brokers."""
    return len(encode(MetadataResponse(), version)) - tail_bytes(version)


def assemble(envelope: MetadataResponse, fragments: Sequence[bytes], version: int) -> bytes:
    """The body of an answer: an envelope without topics, and the topics."""
    assert not envelope.topics, f"{len(envelope.topics)} topics twice"
    whole = encode(envelope, version)
    end = len(whole) - tail_bytes(version)
    if version >= FIRST_FLEXIBLE:
        head, count = whole[: end - 1], varint(len(fragments) + 1)
    else:
        head, count = whole[: end - 4], len(fragments).to_bytes(4, "big")
    return b"".join((head, count, *fragments, whole[end:]))


def tail_bytes(version: int) -> int:
    """What follows the topics: an error code, the operations on the cluster, no tags."""
    error = 2 if version >= 13 else 0
    operations = 4 if 8 <= version <= 10 else 0
    return error + operations + (1 if version >= FIRST_FLEXIBLE else 0)


def _described_partition(
    image: MetadataImage, state: PartitionState, live: dict[int, Neighbour], version: int
) -> MetadataResponsePartition:
    leader, error = seen_leader(image, state, live)
    if error is Error.LISTENER_NOT_FOUND and version < FIRST_WITH_LISTENER_ERROR:
        error = Error.LEADER_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=state.id.partition,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        offline_replicas=offline_replicas(state, live),
    )


def _fingerprint(topic: TopicState) -> tuple[int, int]:
    partitions = topic.partitions
    return len(partitions), sum([state.partition_epoch for state in partitions.values()])
