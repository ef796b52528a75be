"""Faults of disks: a flipped bit, a lost file, no space, a sync that fails. Byte depth only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.types import PartitionId
from tidelog.sim.byte_disk import ByteNodeDisk

if TYPE_CHECKING:
    from tidelog.sim.node import SimNode
    from tidelog.sim.world import World


class DiskFaults:
    """Each method says False when it makes no sense now, or would break what we promise."""

    __slots__ = ("_world",)

    def __init__(self, world: World) -> None:
        self._world = world

    def flip_bit(self, node: SimNode, partition: PartitionId, permille: int, bit: int) -> bool:
        disk = self._may_rot(node, partition)
        if disk is None or not disk.flip_bit(partition, permille=permille, bit=bit):
            return False
        self._world.ledger.rot(partition, node.id)
        return True

    def lose_segment(self, node: SimNode, partition: PartitionId) -> bool:
        disk = self._may_rot(node, partition)
        if disk is None or not disk.lose_segment(partition):
            return False
        self._world.ledger.rot(partition, node.id)
        return True

    def _may_rot(self, node: SimNode, partition: PartitionId) -> ByteNodeDisk | None:
        """The disk, if others keep an intact copy of the partition."""
        disk = node.disk
        if not isinstance(disk, ByteNodeDisk) or not node.running or partition not in disk.logs:
            return None
        survives = self._world.ledger.survives_rot(self._world.image, partition, node.id)
        return disk if survives else None

    def fill(self, node: SimNode, partial_bytes: int) -> bool:
        disk = node.disk
        if not isinstance(disk, ByteNodeDisk) or disk.full:
            return False
        disk.fill(partial_bytes)
        return True

    def fail_sync(self, node: SimNode, after: int) -> bool:
        disk = node.disk
        if not isinstance(disk, ByteNodeDisk) or not node.running or disk.sync_fails:
            return False
        disk.fail_sync(after)
        return True

    def heal(self, node: SimNode) -> None:
        if isinstance(node.disk, ByteNodeDisk):
            node.disk.heal()
