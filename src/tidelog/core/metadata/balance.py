"""Leadership back to the preferred leaders, where that is worth it (kraft.md §8).

A broker that was away comes back leading nothing. For each broker, the share of the partitions
that prefer it and are led by others (or by nobody) decides; the image keeps both counts ready,
so a check costs what is displaced and not what exists.
"""

from typing import NamedTuple

from tidelog.core.metadata.image import MetadataImage, PartitionState

MAX_ELECTIONS_PER_BATCH = 1000


class Rebalance(NamedTuple):
    """`full`: the batch limit was reached, look again soon."""

    partitions: tuple[PartitionState, ...]
    full: bool


def anything_displaced(image: MetadataImage) -> bool:
    """Whether the balance timer has to be armed at all."""
    return bool(image.index.displaced_from)


def is_imbalanced(displaced: int, preferred: int, percentage: int) -> bool:
    """Strictly more than the percentage; in whole numbers, so that 10 of 100 is not above 10 %."""
    assert 0 <= displaced <= preferred, f"{displaced} of {preferred} partitions are displaced"
    return displaced * 100 > percentage * preferred


def imbalanced_brokers(image: MetadataImage, percentage: int) -> list[int]:
    index = image.index
    return [
        broker
        for broker, displaced in sorted(index.displaced_from.items())
        if is_imbalanced(len(displaced), len(index.preferred_by[broker]), percentage)
    ]


def may_take_back(image: MetadataImage, partition: PartitionState) -> bool:
    """Its preferred leader is there and in sync: an election for it would be a clean one."""
    preferred = partition.preferred_leader
    return preferred in partition.isr and image.is_active(preferred)


def partitions_to_balance(
    image: MetadataImage, percentage: int, limit: int = MAX_ELECTIONS_PER_BATCH
) -> Rebalance:
    """The partitions to elect PREFERRED leaders for now, at most `limit`."""
    assert limit > 0, f"a batch of {limit} elections"
    chosen: list[PartitionState] = []
    for broker in imbalanced_brokers(image, percentage):
        if not image.is_active(broker):
            continue
        for partition in image.partitions_displaced_from(broker):
            if not may_take_back(image, partition):
                continue
            if len(chosen) == limit:
                return Rebalance(tuple(chosen), full=True)
            chosen.append(partition)
    return Rebalance(tuple(chosen), full=False)
