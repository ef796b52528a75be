"""Which replica should a consumer read from (replication.md §9, KIP-392)?"""

from collections.abc import Sequence

from tidelog.core.replication.inputs import ReplicaView


def rack_aware(rack: str | None, leader: ReplicaView, others: Sequence[ReplicaView]) -> int:
    """A replica in the consumer's rack, the leader if it is there or if nobody is.

    Among several the most caught up wins; the id decides ties, so that every leader would
    choose the same.
    """
    if rack is None or leader.rack == rack:
        return leader.broker_id
    nearby = [view for view in others if view.rack == rack]
    if not nearby:
        return leader.broker_id
    return max(nearby, key=_most_caught_up).broker_id


def may_serve(view: ReplicaView, fetch_offset: int) -> bool:
    """It holds the offset, as far as the leader knows."""
    return view.log_start_offset <= fetch_offset <= view.log_end_offset


def _most_caught_up(view: ReplicaView) -> tuple[int, int, int]:
    return view.log_end_offset, view.last_caught_up_ms, view.broker_id
