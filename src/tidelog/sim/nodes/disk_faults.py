"""Faults of disks. A process that ends itself because of one is started again."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from tidelog.sim.disk import Operation
from tidelog.sim.nodes.fault_kinds import NodeFault
from tidelog.sim.nodes.fault_scene import End, FaultScene, Perform, nothing
from tidelog.sim.nodes.server import Server


def _slow_down(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    server.slow_disk(fault.amount)
    return partial(server.slow_disk, 1)


def _fill(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    server.files.fill(fault.amount)
    return server.files.heal


def _fail(operation: Operation, scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    if not server.running:
        return None
    server.files.fail(operation, fault.amount)
    return server.files.heal


def _flip_bit(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    return nothing if scene.ledger.flip_bit(server, fault.amount) else None


def _lose_segment(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    """The process dies with it: as long as it runs, it has the file and misses nothing."""
    if not scene.ledger.lose_segment(server):
        return None
    if server.running:
        server.kill()
    return server.start


def _wipe(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    return server.start if scene.ledger.wipe(server) else None


PERFORMERS: Final[Mapping[str, Perform]] = {
    "slow_disk": _slow_down,
    "disk_full": _fill,
    "sync_error": partial(_fail, "sync"),
    "write_error": partial(_fail, "write"),
    "read_error": partial(_fail, "read"),
    "bit_flip": _flip_bit,
    "segment_loss": _lose_segment,
    "wipe": _wipe,
}
