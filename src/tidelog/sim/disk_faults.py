"""Faults of disks: a flipped bit, no space, a sync that fails. Byte depth only."""

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
        disk, ledger = node.disk, self._world.ledger
        if not isinstance(disk, ByteNodeDisk) or not node.running or partition not in disk.logs:
            return False
        if not ledger.survives_rot(self._world.image, partition, node.id):
            return False
        if not disk.flip_bit(partition, permille=permille, bit=bit):
            return False
        ledger.rot(partition, node.id)
        return True

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
