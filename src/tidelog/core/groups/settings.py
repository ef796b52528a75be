"""The knobs of a group coordinator; `config` fills them from the node's settings."""

from collections.abc import Callable
from typing import NamedTuple, Protocol


class GroupSettings(NamedTuple):
    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = (1 << 31) - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
    usual_heartbeat_interval_ms: int = 3_000
    """The default of nearly all clients of the classic protocol."""
    disconnect_grace_ms: int = 500
    """Between the deadline of a member whose connection broke and the second look at it."""
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_max_size: int = (1 << 31) - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The first one is for members that do not ask for any."""


class Rhythm(NamedTuple):
    """How members of a consumer group have to say that they are alive."""

    heartbeat_interval_ms: int
    session_timeout_ms: int


RhythmOf = Callable[[str], Rhythm]
"""By the name of the group: an operator may set it for one group, while that runs."""


def rhythm_of_all(settings: GroupSettings) -> RhythmOf:
    """The same for all groups."""
    rhythm = Rhythm(settings.consumer_heartbeat_interval_ms, settings.consumer_session_timeout_ms)
    assert 0 < rhythm.heartbeat_interval_ms < rhythm.session_timeout_ms, rhythm
    return lambda _group_id: rhythm


class KnownTopic(NamedTuple):
    topic_id: bytes
    partitions: int


class InvalidRegex(Exception):  # noqa: N818 - it names what the member sent
    """A subscription that is not a regular expression; the text says why."""


class TopicsView(Protocol):
    """What a group coordinator may know of the cluster's topics."""

    def find(self, topic: str) -> KnownTopic | None: ...
    def name_of(self, topic_id: bytes) -> str | None: ...
    def matching(self, regex: str) -> tuple[str, ...]:
        """Names of user topics that the expression matches as a whole; raises InvalidRegex."""
