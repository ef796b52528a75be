"""Which replica of a partition to read, and how far.

Below the high watermark all replicas that follow the same history have the same records. One
that is not in sync may have parted from that history and not know it yet, so it is believed only
as far as its leader epochs agree (KIP-101).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidelog.replica_files import (
    Replica,
    last_stable_offset,
    log_end,
    segments_of,
    shared_end,
)
from tidelog.spark.failure import TidelogError


class LiveBounds(NamedTuple):
    """What the brokers say of a partition, asked before the files are looked at."""

    high_watermark: int
    last_stable_offset: int
    topic_id: bytes
    leader: int | None
    in_sync: tuple[int, ...]
    shared: Mapping[int, int] = {}
    """By replicas that are not in sync: up to where the leader has the same records."""


class Chosen(NamedTuple):
    """A replica to read, between two offsets."""

    replica: Replica
    epochs: tuple[tuple[int, int], ...]
    """The epoch history to believe."""
    start: int
    end: int
    """Excluded: the high watermark, or the last stable offset."""
    committed_end: int
    """The high watermark. Beyond `reach` there is no replica among those given."""
    reach: int
    others: tuple[Replica, ...] = ()
    """They reach as far, and begin no later."""

    @property
    def is_short(self) -> bool:
        return self.reach < self.committed_end


class _Candidate(NamedTuple):
    replica: Replica
    start: int
    end: int


def choose(
    replicas: Sequence[Replica], *, committed: bool, live: LiveBounds | None = None
) -> Chosen | None:
    """The replica that reaches farthest along the history; None if there is none.

    `committed` bounds it by the last stable offset, else by the high watermark alone.
    """
    candidates = [_look(each) for each in _of_one_topic(replicas, live)]
    if not candidates:
        return None
    model = _to_believe(candidates, live)
    bound = live.high_watermark if live else max(each.replica.high_watermark for each in candidates)

    def reach_of(candidate: _Candidate) -> int:
        if candidate is model:
            shared = candidate.end
        else:
            shared = shared_end(candidate.replica, candidate.end, model.replica, model.end)
        if live is not None:
            shared = min(shared, live.shared.get(candidate.replica.node_id, shared))
        return min(shared, bound)

    best = max(candidates, key=lambda each: (reach_of(each), each is model, -each.start))
    reach = end = reach_of(best)
    if committed and live is not None and reach >= live.high_watermark:
        end = min(end, live.last_stable_offset)
    elif committed:
        end = last_stable_offset(best.replica, reach)
    start = min(best.start, end)
    others = tuple(
        each.replica
        for each in candidates
        if each is not best and reach_of(each) >= reach and each.start <= start
    )
    return Chosen(best.replica, model.replica.epochs, start, end, bound, reach, others)


def _look(replica: Replica) -> _Candidate:
    segments = segments_of(replica.directory)
    first = segments[0].base_offset if segments else 0
    return _Candidate(replica, max(first, replica.log_start), log_end(segments))


def _of_one_topic(replicas: Sequence[Replica], live: LiveBounds | None) -> list[Replica]:
    """A topic that was deleted and made again has another id: its old records do not count."""
    if live is not None:
        return [each for each in replicas if each.topic_id in (None, live.topic_id)]
    ids = {each.topic_id for each in replicas if each.topic_id is not None}
    if len(ids) > 1:
        places = ", ".join(each.directory for each in replicas)
        raise TidelogError(
            f"{replicas[0].name} is of different topics of that name in {places}",
            "leave out the directory of the old one, or give kafka.bootstrap.servers",
        )
    return list(replicas)


def _to_believe(candidates: list[_Candidate], live: LiveBounds | None) -> _Candidate:
    """Whose epoch history counts: the leader's, else that of one in sync, else the latest."""

    def rank(each: _Candidate) -> tuple[bool, bool, int, int]:
        node_id = each.replica.node_id
        is_leader = live is not None and node_id == live.leader
        in_sync = live is not None and node_id in live.in_sync
        epochs = each.replica.epochs
        return is_leader, in_sync, epochs[-1][0] if epochs else -1, each.end

    return max(candidates, key=rank)
