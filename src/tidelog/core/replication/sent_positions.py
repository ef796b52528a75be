"""Which position an answer to a fetch is about.

A follower tells its leader every position once and then only what changed (KIP-227), so the
answer to a request is about the positions of the whole session as they were when that request was
sent, also of partitions that it did not name. Two requests may be under way: an answer to the
first one can arrive after the second one has said that a partition is in another leader epoch by
now. Judged by the second, a refusal of the old epoch would count as one of the new.
"""

from tidelog.core.replication.inputs import FollowerFetch
from tidelog.core.types import PartitionId


class SentPositions:
    """What the leader knows of one fetch session. Read `newest`; change it by the methods."""

    __slots__ = ("newest", "under_way")

    def __init__(self) -> None:
        self.newest: dict[PartitionId, FollowerFetch] = {}
        self.under_way: list[SentFetch] = []
        """Requests without an answer, oldest first."""

    def put(self, partition: PartitionId, fetch: FollowerFetch) -> None:
        """The next request says this."""
        for sent in self.under_way:
            sent.keep(partition)
        self.newest[partition] = fetch

    def drop(self, partition: PartitionId) -> FollowerFetch | None:
        """The next request leaves it out. The position that the leader has to forget, if any."""
        if partition not in self.newest:
            return None
        for sent in self.under_way:
            sent.keep(partition)
        return self.newest.pop(partition)

    def send(self) -> "SentFetch":
        """A request goes out with everything that was put until now."""
        sent = SentFetch(self)
        self.under_way.append(sent)
        return sent


class SentFetch:
    """One request under way."""

    __slots__ = ("_before", "session")

    def __init__(self, session: SentPositions) -> None:
        self.session = session
        """It may have been given up since."""
        self._before: dict[PartitionId, FollowerFetch | None] = {}
        """Positions that changed after this request was sent, as they were then."""

    def keep(self, partition: PartitionId) -> None:
        self._before.setdefault(partition, self.session.newest.get(partition))

    def position(self, partition: PartitionId) -> FollowerFetch | None:
        """The one that an answer to this request is about; None if it did not ask for any."""
        if partition in self._before:
            return self._before[partition]
        return self.session.newest.get(partition)

    def answered(self) -> None:
        """By now or never: nothing more is kept for it."""
        self.session.under_way.remove(self)
