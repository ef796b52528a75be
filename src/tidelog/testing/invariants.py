"""What must hold of a cluster whatever a test has done to it.

- Below its own high watermark every replica has the batches of the leader, byte for byte.
- What was once committed is still there: the leader's log does not end below any high watermark
  that was seen. Of a partition that had an unclean election nothing is expected any more: the
  cluster was told that it may lose records, and said that it did.
- No node has ended by itself. On virtual time also: no callback of a node failed, a leader epoch
  has one leader, and no replica cut what it knew to be committed.

Records that were acknowledged are committed, so nothing acknowledged can be lost without one of
these being broken. (With `acks=1` a leader acknowledges before that, as everybody knows.)
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tidelog.audit.replica_comparison import DIVERGING
from tidelog.audit.replicas import ask_live, audit_partition, work_of
from tidelog.client import Client
from tidelog.core.types import PartitionId
from tidelog.node.node import Node
from tidelog.replica_files import DataDirectory
from tidelog.testing.in_process import InProcessNodes
from tidelog.wire.records import iter_batches

READ_BYTES = 1 << 20

Batch = tuple[int, int, int, int]
"""Last offset, leader epoch, checksum, size."""


class InvariantBroken(AssertionError):  # noqa: N818 - it names what is so
    """The cluster did what it must never do. Its message lists all of it."""

    def __init__(self, broken: Sequence[str]) -> None:
        super().__init__("\n".join(["the cluster broke a promise:", *(f"- {b}" for b in broken)]))
        self.broken = list(broken)


class SeenReplica(NamedTuple):
    """A replica as its own node sees it."""

    name: str
    leads: bool
    leader_epoch: int
    log_start: int
    log_end: int
    high_watermark: int
    has_gaps: bool
    """Compaction takes batches away on each replica for itself."""


# ---- nodes in this process: their logs are asked


def broken_in_process(nodes: InProcessNodes) -> list[str]:
    return [*nodes.broken_by_itself(), *_replicas_broken(nodes)]


def _replicas_broken(nodes: InProcessNodes) -> Iterator[str]:
    seen = {node_id: nodes.look(node_id, _replicas_of) or {} for node_id in nodes.node_ids}
    partitions = sorted({partition for replicas in seen.values() for partition in replicas})
    committed, elected = _committed(nodes), _elected(nodes)
    for partition in partitions:
        replicas = {node: found[partition] for node, found in seen.items() if partition in found}
        leaders = [node for node, replica in replicas.items() if replica.leads]
        if not leaders:
            continue
        leader = max(leaders, key=lambda node: replicas[node].leader_epoch)
        if replicas[leader].leader_epoch < elected.get(partition, 0):
            continue  # it was replaced and has not heard of it; whoever leads now cannot be seen
        yield from _lost(replicas[leader], leader, committed.get(partition, 0))
        yield from _different(nodes, partition, replicas, leader)


def _lost(leader: SeenReplica, node_id: int, committed: int) -> Iterator[str]:
    if leader.log_end < committed:
        yield (
            f"{leader.name}: offsets up to {committed - 1} were committed, and the log of its"
            f" leader {node_id} ends at {leader.log_end}"
        )


def _different(
    nodes: InProcessNodes, partition: PartitionId, replicas: Mapping[int, SeenReplica], leader: int
) -> Iterator[str]:
    ours = replicas[leader]
    for node_id, theirs in replicas.items():
        start = max(ours.log_start, theirs.log_start)
        end = min(ours.log_end, theirs.high_watermark, theirs.log_end)
        if node_id == leader or start >= end or ours.has_gaps or theirs.has_gaps:
            continue
        here = _batches(nodes, leader, partition, start, end)
        there = _batches(nodes, node_id, partition, start, end)
        if here is None or there is None:
            continue  # somebody stands still now, or hosts it no more
        for base in sorted(here.keys() | there.keys()):
            if here.get(base) != there.get(base):
                yield (
                    f"{ours.name}: broker {node_id} differs from its leader {leader} at offset"
                    f" {base}, below the high watermark {theirs.high_watermark}:"
                    f" {_told(there.get(base))} there, {_told(here.get(base))} at the leader"
                )
                break


def _told(batch: Batch | None) -> str:
    if batch is None:
        return "no batch"
    last, epoch, crc, _ = batch
    return f"a batch up to {last} of epoch {epoch} with checksum {crc:08x}"


def _replicas_of(node: Node) -> dict[PartitionId, SeenReplica]:
    if node.broker is None:
        return {}
    return {
        partition: SeenReplica(
            f"{hosted.topic}-{hosted.index}",
            hosted.leader is not None,
            hosted.replica.leader_epoch,
            hosted.log.log_start_offset,
            hosted.log.log_end_offset,
            hosted.replica.high_watermark,
            hosted.log.may_have_gaps,
        )
        for partition, hosted in node.broker.replicas.hosted.items()
    }


def _batches(
    nodes: InProcessNodes, node_id: int, partition: PartitionId, start: int, end: int
) -> dict[int, Batch] | None:
    """By base offset, from `start` to `end`; None if nobody can tell. One look for each piece:
    the node serves its clients in between."""
    found: dict[int, Batch] = {}
    position = start
    while position < end:
        piece = nodes.look(node_id, partial(_read, partition, position, end))
        if not piece:
            return found if piece is not None else None
        found.update(piece)
        position = max(last for last, _, _, _ in piece.values()) + 1
    return found


def _read(partition: PartitionId, start: int, end: int, node: Node) -> dict[int, Batch] | None:
    hosted = None if node.broker is None else node.broker.replicas.hosted.get(partition)
    if hosted is None or not hosted.log.log_start_offset <= start <= hosted.log.log_end_offset:
        return None
    return {
        header.base_offset: (header.last_offset, header.leader_epoch, header.crc, header.size_bytes)
        for piece in hosted.log.read(start, end, READ_BYTES)
        for _, header in iter_batches(piece)
    }


def _committed(nodes: InProcessNodes) -> dict[PartitionId, int]:
    """The highest high watermark that any node has seen."""
    highest: dict[PartitionId, int] = {}
    unclean: set[PartitionId] = set()
    for node_id in nodes.node_ids:
        promises = nodes.promises(node_id)
        unclean |= promises.unclean.copy()
        for partition, high_watermark in promises.committed.copy().items():
            highest[partition] = max(highest.get(partition, 0), high_watermark)
    return {each: highest[each] for each in highest if each not in unclean}


def _elected(nodes: InProcessNodes) -> dict[PartitionId, int]:
    """The newest leader epoch that any controller has told of."""
    newest: dict[PartitionId, int] = {}
    for node_id in nodes.node_ids:
        for partition, epoch in nodes.promises(node_id).elected.copy().items():
            newest[partition] = max(newest.get(partition, 0), epoch)
    return newest


# ---- processes: their files are read


async def broken_in_files(client: Client, directories: Mapping[int, Path]) -> list[str]:
    """Also of nodes that do not run: their files are there."""
    found = [DataDirectory(path, node_id) for node_id, path in directories.items()]
    seen = await client.view()
    partitions = [
        (name, each.partition) for name, topic in seen.topics.items() for each in topic.partitions
    ]
    live = await ask_live(client, partitions)
    work = work_of(found, [each for each in partitions if each in live], live)
    return [
        f"{comparison.name}: {finding.told()}"
        for comparison in map(audit_partition, work)
        if comparison.verdict == DIVERGING
        for finding in comparison.findings
    ]
