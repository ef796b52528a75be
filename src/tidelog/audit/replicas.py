"""Every replica of a cluster compared by its files: what to compare, and doing it.

Bounds come first, then who is in sync, then the files: what was below a high watermark is in the
files of everybody who is in sync later.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import NamedTuple

from tidelog.audit.compacted import compare_compacted
from tidelog.audit.replica_batches import (
    NEVER,
    ReplicaBatches,
    Standing,
    TellBytes,
    no_numbers,
    scan_replica,
)
from tidelog.audit.replica_comparison import Comparison, compare
from tidelog.client import Client
from tidelog.client.offsets import end_offsets
from tidelog.replica_files import (
    DataDirectory,
    Replica,
    find_replicas,
    log_end,
    segments_of,
    shared_end,
)

TopicPartition = tuple[str, int]


class LivePartition(NamedTuple):
    """What the brokers say."""

    high_watermark: int
    topic_id: bytes
    assignment: tuple[int, ...]
    in_sync: tuple[int, ...]


class PartitionWork(NamedTuple):
    """What of one partition to compare."""

    topic: str
    partition: int
    high_watermark: int
    replicas: tuple[tuple[Replica, Standing], ...]
    absent: tuple[tuple[int, Standing], ...] = ()
    """Brokers that should have a replica, and whose directory has none."""

    @property
    def is_compacted(self) -> bool:
        return any(replica.has_gaps for replica, _ in self.replicas)

    @property
    def size_bytes(self) -> int:
        return sum(
            segment.size_bytes
            for replica, _ in self.replicas
            for segment in segments_of(replica.directory)
        )


async def ask_live(
    client: Client, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, LivePartition]:
    """Those that have a leader. High watermarks first: see above."""
    ends = await end_offsets(client, partitions)
    topics = await client.topics(sorted({topic for topic, _ in partitions}))
    return {
        (name, each.partition): LivePartition(
            ends[name, each.partition], topic.topic_id, each.replicas, each.isr
        )
        for name, topic in topics.items()
        for each in topic.partitions
        if (name, each.partition) in ends
    }


def work_of(
    directories: Sequence[DataDirectory],
    partitions: Sequence[TopicPartition],
    live: Mapping[TopicPartition, LivePartition],
) -> list[PartitionWork]:
    """Without a word from the brokers, the highest checkpoint of a partition is its bound."""
    work = []
    nodes = {each.node_id for each in directories}
    for where, found in find_replicas(directories, partitions).items():
        alive = live.get(where)
        replicas = _of_topic(found, alive)
        bound = alive.high_watermark if alive else _highest(replicas)
        in_sync = alive.in_sync if alive else ()
        assigned = set(alive.assignment) if alive else set()
        missing = (assigned & nodes) - {each.node_id for each in replicas}
        work.append(
            PartitionWork(
                *where,
                bound,
                tuple(with_standing(replicas, in_sync)),
                tuple((node, Standing(in_sync=node in in_sync)) for node in sorted(missing)),
            )
        )
    return work


def _of_topic(replicas: Sequence[Replica], live: LivePartition | None) -> list[Replica]:
    """Not those of an older topic of that name, nor of a reassignment that is over."""
    if live is None:
        return list(replicas)
    return [
        each
        for each in replicas
        if each.node_id in live.assignment and each.topic_id in (None, live.topic_id)
    ]


def _highest(replicas: Sequence[Replica]) -> int:
    return max((each.high_watermark for each in replicas), default=0)


def with_standing(
    replicas: Sequence[Replica], in_sync: Sequence[int]
) -> Iterator[tuple[Replica, Standing]]:
    """Whose history counts: one in sync with the latest epoch, and of those the longest."""
    ends = {each: log_end(segments_of(each.directory)) for each in replicas}

    def rank(each: Replica) -> tuple[bool, int, int]:
        return each.node_id in in_sync, each.epochs[-1][0] if each.epochs else -1, ends[each]

    model = max(replicas, key=rank, default=None)
    for each in replicas:
        shared = NEVER
        if model is not None and each is not model and each.epochs and model.epochs:
            shared = shared_end(each, NEVER, model, NEVER)
        yield (
            each,
            Standing(each.high_watermark, shared, each.node_id in in_sync, each.has_gaps),
        )


# ---- doing it here ----


def audit_partition(work: PartitionWork, tell: TellBytes | None = None) -> Comparison:
    """Reads the files and compares them."""
    if work.is_compacted:
        bound = work.high_watermark
        return compare_compacted(work.topic, work.partition, work.replicas, bound, tell)
    scans = [_scan(work, replica, standing, tell) for replica, standing in work.replicas]
    return _compared(work, scans)


def _scan(
    work: PartitionWork, replica: Replica, standing: Standing, tell: TellBytes | None
) -> ReplicaBatches:
    return scan_replica(replica, end=work.high_watermark, standing=standing, tell=tell)


def _compared(work: PartitionWork, scans: Sequence[ReplicaBatches]) -> Comparison:
    return compare(work.topic, work.partition, [*scans, *absent_in(work)], work.high_watermark)


def absent_in(work: PartitionWork) -> list[ReplicaBatches]:
    return [ReplicaBatches(node, no_numbers(), standing=standing) for node, standing in work.absent]


def audit_here(
    work: Sequence[PartitionWork], jobs: int, done: Callable[[Comparison], None], tell: TellBytes
) -> None:
    """On threads: the kernel computes checksums without Python's lock. Files are scanned in
    order, so only the partitions at hand are in memory."""
    with ThreadPoolExecutor(jobs) as pool:
        waiting: dict[Future[ReplicaBatches | Comparison], int] = {}
        scans: dict[int, list[ReplicaBatches]] = {}
        for number, each in enumerate(work):
            if each.is_compacted or not each.replicas:
                waiting[pool.submit(audit_partition, each, tell)] = number
                continue
            scans[number] = []
            for replica, standing in each.replicas:
                waiting[pool.submit(_scan, each, replica, standing, tell)] = number
        try:
            for future in as_completed(waiting):
                number, found = waiting.pop(future), future.result()
                if isinstance(found, Comparison):
                    done(found)
                    continue
                scans[number].append(found)
                if len(scans[number]) == len(work[number].replicas):
                    done(_compared(work[number], scans.pop(number)))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
