"""Which partitions of fetch sessions wait for which partition of this broker to move."""

from tidelog.broker.fetch.fetch_sessions import FetchSession, PartitionFetch
from tidelog.core.types import PartitionId


class WaitingLists:
    """One list for each partition that somebody waits for."""

    __slots__ = ("by_partition",)

    def __init__(self) -> None:
        self.by_partition: dict[PartitionId, dict[PartitionFetch, FetchSession]] = {}

    def __len__(self) -> int:
        return len(self.by_partition)

    def watch(self, session: FetchSession, fetch: PartitionFetch, partition: PartitionId) -> None:
        self.unwatch(fetch)
        fetch.watched = partition
        self.by_partition.setdefault(partition, {})[fetch] = session

    def unwatch(self, fetch: PartitionFetch) -> None:
        partition, fetch.watched = fetch.watched, None
        if partition is not None:
            watchers = self.by_partition[partition]
            del watchers[fetch]
            if not watchers:
                del self.by_partition[partition]

    def unwatch_all(self, session: FetchSession) -> None:
        for fetch in session.partitions.values():
            self.unwatch(fetch)
