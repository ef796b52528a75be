"""Faults of processes, of their machines and of their clocks."""

from collections.abc import Mapping
from typing import Final

from tidelog.sim.disk_state import SyncFile, Truncate
from tidelog.sim.kernel import WORLD
from tidelog.sim.nodes.fault_kinds import NodeFault
from tidelog.sim.nodes.fault_scene import End, FaultScene, Perform
from tidelog.sim.nodes.loop_work import Trap
from tidelog.sim.nodes.server import Server
from tidelog.storage.segment import LOG_SUFFIX


def _kill(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    if not server.running:
        return None
    server.kill()
    return server.start


def _lose_power(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    if not server.machine.up:
        return None
    server.lose_power()
    return server.start


def _stop(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    if not server.running or server.told_to_stop:
        return None
    server.stop()
    return lambda: _start_after_stop(server)


def _start_after_stop(server: Server) -> None:
    """It was told to stop. Whoever waits too long for that kills it."""
    if server.told_to_stop:
        server.kill()
    server.start()


def _pause(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    if not server.works:
        return None
    server.pause()
    return server.resume


def _crash_at_sync(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    """Power fails around a sync: just before it, or when it is done and nobody knows yet."""
    number, is_after = divmod(fault.amount, 2)

    def crash() -> None:
        if is_after:
            scene.cluster.kernel.call_in(0, WORLD, _crash_soon, (scene, server, server.starts))
        else:
            server.crash_now(power_lost=True)
            scene.restart_later(server)

    return _set_trap(server, Trap(crash, number, (SyncFile,)))


def _crash_soon(crash: tuple[FaultScene, Server, int]) -> None:
    scene, server, starts = crash
    if server.running and server.starts == starts:
        server.lose_power()
        scene.restart_later(server)


def _crash_at_change(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    return _set_trap(server, Trap(_crash(scene, server, power_lost=False), fault.amount))


def _crash_at_cut(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    """Of records: indexes are cut whenever a log rolls."""
    crash = _crash(scene, server, power_lost=True)
    return _set_trap(server, Trap(crash, fault.amount, (Truncate,), LOG_SUFFIX))


def _set_trap(server: Server, trap: Trap) -> End | None:
    if not server.running or server.work.trap is not None:
        return None
    server.set_trap(trap)

    def disarm() -> None:
        if server.work.trap is trap:
            server.set_trap(None)

    return disarm


def _crash(scene: FaultScene, server: Server, *, power_lost: bool) -> End:
    def crash() -> None:
        server.crash_now(power_lost=power_lost)
        scene.restart_later(server)

    return crash


def _crash_in_start(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    """What the second process leaves half done is what the third finds."""
    if not server.running:
        return None
    power_lost = fault.loses_unsynced
    if power_lost:
        server.lose_power()
    else:
        server.kill()

    def start_into_a_trap() -> None:
        if not server.running and not scene.is_healed():
            server.set_trap(Trap(_crash(scene, server, power_lost=power_lost), fault.amount // 2))
            server.start()

    return start_into_a_trap


def _kill_in_start(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    if not server.running:
        return None
    server.kill()

    def start_and_die() -> None:
        if not server.running:
            server.start()
            again = (scene, server, server.starts)
            scene.cluster.kernel.call_in(fault.amount * 1000, WORLD, _kill_early, again)

    return start_and_die


def _kill_early(again: tuple[FaultScene, Server, int]) -> None:
    scene, server, starts = again
    if server.running and server.starts == starts and not scene.is_healed():
        server.kill()
        scene.restart_later(server)


def _crash_in_stop(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    if not server.running or server.told_to_stop:
        return None
    server.stop()
    scene.cluster.kernel.call_in(fault.amount * 1000, WORLD, _lose_power_in_stop, server)
    return lambda: _start_after_stop(server)


def _lose_power_in_stop(server: Server) -> None:
    if server.running and server.told_to_stop:
        server.lose_power()


def _stall_worker(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    stalled = server.stall_worker(fault.amount, fault.lasts_ms * 1000)
    return None if stalled is None else stalled.release


def _jump(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    server.clock.jump(fault.amount)
    return lambda: server.clock.jump(-fault.amount)


def _change_rate(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    before = server.clock.rate
    server.clock.run_at(fault.amount)
    return lambda: server.clock.run_at(before)


PERFORMERS: Final[Mapping[str, Perform]] = {
    "kill": _kill,
    "power_loss": _lose_power,
    "stop": _stop,
    "pause": _pause,
    "crash_at_sync": _crash_at_sync,
    "crash_at_change": _crash_at_change,
    "crash_at_cut": _crash_at_cut,
    "crash_in_start": _crash_in_start,
    "kill_in_start": _kill_in_start,
    "crash_in_stop": _crash_in_stop,
    "stall_worker": _stall_worker,
    "clock_jump": _jump,
    "clock_rate": _change_rate,
}
