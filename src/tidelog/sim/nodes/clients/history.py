"""What the clients of a run did, and what they were told.

Every record has a value of its own, so a value says who wrote it, and where it belongs.
"""

from typing import NamedTuple


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


class History:
    """Filled by clients while the run goes on, and judged when it is over."""

    __slots__ = ("acknowledged", "failed", "found", "sent", "written")

    def __init__(self) -> None:
        self.sent: dict[bytes, Sent] = {}
        self.acknowledged: dict[bytes, Place] = {}
        """By all in-sync replicas: such a record must not be lost."""
        self.written: dict[bytes, Place] = {}
        """By the leader alone: such a record may be lost, but is found nowhere else."""
        self.failed = 0
        """Writes of which the outcome is not known."""
        self.found: dict[bytes, list[Place]] = {}
        """What a reader of everything found when the run was over."""
