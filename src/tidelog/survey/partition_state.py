"""How well a partition is, in words that everybody uses: text, json and `--only`."""

from collections.abc import Collection
from typing import NamedTuple

from tidelog.client.view import PartitionView

HEALTHY = "healthy"
UNDER_REPLICATED = "under-replicated"
UNDER_MIN_ISR = "under-min-isr"
OFFLINE = "offline"
STATES = (UNDER_REPLICATED, UNDER_MIN_ISR, OFFLINE)


class Judgement(NamedTuple):
    state: str
    reason: str

    def __str__(self) -> str:
        return f"{self.state}: {self.reason}" if self.reason else self.state


def judge(partition: PartitionView, alive: Collection[int], min_isr: int | None) -> Judgement:
    """The worst that is so. `min_isr` is None where the cluster does not say."""
    reason = missing(partition, alive)
    if partition.leader is None:
        return Judgement(OFFLINE, reason or "nobody can lead")
    needed = min(min_isr or 0, len(partition.replicas))
    if len(partition.isr) < needed:
        return Judgement(UNDER_MIN_ISR, f"{len(partition.isr)} of {needed} needed; {reason}")
    if partition.out_of_sync:
        return Judgement(UNDER_REPLICATED, reason)
    return Judgement(HEALTHY, "")


def missing(partition: PartitionView, alive: Collection[int]) -> str:
    """`1 down, 3 lags`"""
    gone = [str(each) for each in partition.out_of_sync if each not in alive]
    behind = [str(each) for each in partition.out_of_sync if each in alive]
    parts = [f"{','.join(gone)} down"] if gone else []
    if behind:
        parts.append(f"{','.join(behind)} {'lags' if len(behind) == 1 else 'lag'}")
    return ", ".join(parts)


def leader_words(partition: PartitionView) -> str:
    """`3 (pref. 1)`, `2`, `none`."""
    if partition.leader is None:
        return "none"
    if partition.preferred not in (None, partition.leader):
        return f"{partition.leader} (pref. {partition.preferred})"
    return str(partition.leader)
