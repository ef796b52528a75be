"""The fetch that a follower sends again and again: new positions within a session (KIP-227).

Between two brokers nearly all requests are these, most of them with one position or none. All but
the positions stays the same for the life of a session, so it is put together once; the bytes are
those that `encode_parts` makes of the same FetchRequest.
"""

from collections.abc import Iterable
from struct import Struct as Layout
from typing import NamedTuple

from tidelog.wire.protocol.varints import varint

FETCH = 1
VERSION = 18

_BEGIN = Layout(">iiibi")
_EPOCH = Layout(">i")
_POSITION = Layout(">iiqiqix")
_SENDER = Layout(">BBBBBiqx")
_END_OF_TOPIC = b"\0"


Position = tuple[bytes, int, int, int, int, int]
"""Topic id, partition, leader epoch, fetch offset, last fetched epoch, log start offset."""


class SessionFetchLimits(NamedTuple):
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


class SessionFetch:
    """The bodies of the fetches of one session."""

    __slots__ = ("_begin", "_end", "_partition_max_bytes", "replica_epoch")

    def __init__(
        self, limits: SessionFetchLimits, session_id: int, replica_id: int, replica_epoch: int
    ) -> None:
        self.replica_epoch = replica_epoch
        self._begin = _BEGIN.pack(
            limits.max_wait_ms, limits.min_bytes, limits.max_bytes, 0, session_id
        )
        # Nothing forgotten, no rack; one tag, which is number 1 and says in 13 bytes who asks.
        self._end = _SENDER.pack(1, 1, 1, 1, 13, replica_id, replica_epoch)
        self._partition_max_bytes = limits.partition_max_bytes

    def body(self, session_epoch: int, moved: Iterable[Position]) -> bytes:
        """The request with this number, of which the positions are new."""
        topics: dict[bytes, list[bytes]] = {}
        for topic_id, *position in moved:
            packed = _POSITION.pack(*position, self._partition_max_bytes)
            topics.setdefault(topic_id, []).append(packed)
        parts = [self._begin, _EPOCH.pack(session_epoch), varint(len(topics) + 1)]
        for topic_id, positions in topics.items():
            assert len(topic_id) == 16, topic_id
            parts += (topic_id, varint(len(positions) + 1), *positions, _END_OF_TOPIC)
        parts.append(self._end)
        return b"".join(parts)
