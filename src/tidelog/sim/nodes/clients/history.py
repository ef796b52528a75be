"""What the clients of a run did, and what they were told.

Every record has a value of its own, so a value says who wrote it, and where it belongs.
"""

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

TopicPartition = tuple[str, int]

OPEN = "open"
"""Nobody asked for an end, so it must be aborted."""
ASKED = "asked"
"""To commit, and nobody heard the answer: it is committed, or it is not."""
COMMITTED = "committed"
ABORTED = "aborted"


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int


class Sent(NamedTuple):
    """One record, as its writer meant it."""

    writer: str
    number: int
    """In the order of the writer's records."""
    topic: str
    partition: int
    once: bool
    """It is numbered, or sent only once: nothing can write it twice."""


class Transaction:
    """What one transaction wrote, and what its writer knows of its end."""

    __slots__ = ("name", "outcome", "values")

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: list[bytes] = []
        self.outcome = OPEN


class ReaderLog:
    """What one reader was given, in its order."""

    __slots__ = ("committed", "name", "positions", "reads")

    def __init__(self, name: str, *, committed: bool) -> None:
        self.name = name
        self.committed = committed
        """It read what is committed alone."""
        self.reads: dict[TopicPartition, list[tuple[int, bytes]]] = {}
        """(offset, value)"""
        self.positions: dict[TopicPartition, int] = {}
        """Where it would read next."""


class Began(NamedTuple):
    """A member of a group began to read a partition."""

    group: str
    where: TopicPartition
    offset: int
    least: int
    """What was acknowledged as committed before the member asked where to begin."""


class GroupLog:
    """What the members of one group did together."""

    __slots__ = ("began", "committed", "ended_at", "exactly_once", "name", "owners", "processed")

    def __init__(self, name: str, *, exactly_once: bool) -> None:
        self.name = name
        self.exactly_once = exactly_once
        """Its members write `outputs` in transactions."""
        self.began: list[Began] = []
        self.committed: dict[TopicPartition, int] = {}
        """The highest offset of which a member was told that it is committed."""
        self.processed: dict[TopicPartition, dict[int, None]] = {}
        """Offsets that some member has read."""
        self.owners: dict[tuple[int, str, int], dict[str, None]] = {}
        """Members by generation, topic and partition."""
        self.ended_at: dict[TopicPartition, int] = {}
        """What the group had committed when the run was over."""

    def note_commit(self, offsets: dict[TopicPartition, int]) -> None:
        for where, offset in offsets.items():
            self.committed[where] = max(offset, self.committed.get(where, 0))

    def note_owner(self, generation: int, where: TopicPartition, member_id: str) -> None:
        self.owners.setdefault((generation, *where), {})[member_id] = None


class History:
    """Filled by clients while the run goes on, and judged when it is over."""

    __slots__ = (
        "acknowledged",
        "done",
        "failed",
        "found",
        "granted",
        "groups",
        "readers",
        "sent",
        "transactions",
        "written",
    )

    def __init__(self) -> None:
        self.sent: dict[bytes, Sent] = {}
        self.acknowledged: dict[bytes, Place] = {}
        """By all in-sync replicas: such a record must not be lost."""
        self.written: dict[bytes, Place] = {}
        """By the leader alone: such a record may be lost, but is found nowhere else."""
        self.failed = 0
        """Writes of which the outcome is not known."""
        self.found: dict[bytes, list[Place]] = {}
        """What a reader of committed records found when the run was over."""
        self.done: Counter[str] = Counter()
        """What was really done of that which leaves no records: `reassign`, `garbage`, `api 3`."""
        self.granted: list[str] = []
        """What somebody was allowed who may do nothing."""
        self.transactions: list[Transaction] = []
        self.readers: list[ReaderLog] = []
        self.groups: dict[str, GroupLog] = {}

    def forfeit(self, partitions: Collection[TopicPartition]) -> int:
        """Anything may be lost there, so nothing is promised any more: forget what was told. How
        many acknowledged records really are gone."""
        gone = 0
        for told in (self.acknowledged, self.written):
            for value in [value for value, place in told.items() if place[:2] in partitions]:
                gone += told is self.acknowledged and value not in self.found
                del told[value]
        for reader in self.readers:
            for where in partitions:
                reader.reads.pop(where, None)
        return gone
