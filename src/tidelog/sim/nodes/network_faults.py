"""Faults of connections and of the wires they go over."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from tidelog.sim.kernel import WORLD
from tidelog.sim.nodes.fault_kinds import NodeFault
from tidelog.sim.nodes.fault_scene import End, FaultScene, Perform, nothing
from tidelog.sim.nodes.held_connections import HeldConnections
from tidelog.sim.nodes.server import Server
from tidelog.sim.nodes.tcp import WINDOW_BYTES, Internet, Machine

SLOW_NETWORK_FACTOR = 50
CLIENTS_TO_NODE, NODE_TO_CLIENTS = 1, 2
"""Bits of the amount of a `client_cut`."""

Link = tuple[Machine, Machine]


def _cut(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    return _cut_links(scene, _both_ways([server.machine], [_other(scene, fault)]))


def _cut_one_way(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    other = _other(scene, fault)
    return _cut_links(scene, [] if other is server.machine else [(server.machine, other)])


def _isolate(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    others = [each.machine for each in scene.cluster.servers.values() if each is not server]
    if fault.amount % 2 == 1:
        others += scene.client_machines()
    return _cut_links(scene, _both_ways([server.machine], others))


def _split(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    sides: tuple[list[Machine], list[Machine]] = ([], [])
    for node_id, each in scene.cluster.servers.items():
        sides[fault.amount >> node_id - 1 & 1].append(each.machine)
    return _cut_links(scene, _both_ways(*sides))


def _cut_clients(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    links: list[Link] = []
    for client in scene.client_machines():
        if fault.amount & CLIENTS_TO_NODE:
            links.append((client, server.machine))
        if fault.amount & NODE_TO_CLIENTS:
            links.append((server.machine, client))
    return _cut_links(scene, links)


def _cut_controller(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    controller = scene.roles.controller()
    if controller is None or controller is server:
        return None
    return _cut_links(scene, _both_ways([server.machine], [controller.machine]))


def _both_ways(these: Sequence[Machine], those: Sequence[Machine]) -> list[Link]:
    links = [(one, other) for one in these for other in those if one is not other]
    return links + [(other, one) for one, other in links]


def _cut_links(scene: FaultScene, links: list[Link]) -> End | None:
    internet = scene.cluster.internet
    for link in links:
        internet.cut(*link)

    def restore() -> None:
        for link in links:
            internet.restore(*link)

    return restore if links else None


def _flap(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    other = _other(scene, fault)
    if other is server.machine:
        return None
    flapping = Flapping(scene, _both_ways([server.machine], [other]), fault.amount * 1000)
    flapping.turn(None)
    return flapping.end


class Flapping:
    """Links that are cut and restored by turns."""

    __slots__ = ("_ended", "_every_us", "_links", "_restore", "_scene")

    def __init__(self, scene: FaultScene, links: list[Link], every_us: int) -> None:
        self._scene = scene
        self._links = links
        self._every_us = every_us
        self._restore: End | None = None
        self._ended = False

    def turn(self, _: None) -> None:
        if self._ended:
            return
        if self._restore is None:
            self._restore = _cut_links(self._scene, self._links)
        else:
            self._restore()
            self._restore = None
        self._scene.cluster.kernel.call_in(self._every_us, WORLD, self.turn, None)

    def end(self) -> None:
        self._ended = True
        if self._restore is not None:
            self._restore()


def _clog(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    other = _other(scene, fault)
    scene.cluster.internet.clog(server.machine, other, fault.amount)
    return partial(scene.cluster.internet.clog, server.machine, other, 1)


def _slow_down(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    internet: Internet = scene.cluster.internet
    internet.slow_down(server.machine, SLOW_NETWORK_FACTOR)
    return partial(internet.slow_down, server.machine, 1)


def _reset(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    broken = scene.cluster.internet.reset_connections(server.machine, _other(scene, fault))
    return nothing if broken else None


def _reset_all(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    return nothing if scene.cluster.internet.reset_all(server.machine) else None


def _tear(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    return nothing if scene.cluster.internet.tear_connections(server.machine) else None


def _let_wait(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    server.machine.let_wait()
    return partial(server.machine.serve_waiting, drop=fault.amount % 2 == 1)


def _late_proposals(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    held = HeldConnections(b"-alter-partition", incoming=False)
    passing_us = fault.lasts_ms * 10 * fault.amount
    scene.cluster.kernel.call_in(passing_us, WORLD, _let_others_pass, held)
    return _hold(server, held)


def _let_others_pass(held: HeldConnections) -> None:
    held.let_others_pass()


def _late_metadata(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    return _hold(server, HeldConnections(b"quorum-", incoming=True))


def _late_records(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    return _hold(server, HeldConnections(b"-fetcher", incoming=True))


def _late_markers(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    return _hold(server, HeldConnections(b"-markers", incoming=False))


def _hold(server: Server, held: HeldConnections) -> End:
    server.machine.hold(held)
    return partial(server.machine.release, held)


def _slow_handshake(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    server.machine.handshake_us = fault.amount * 1000
    return partial(setattr, server.machine, "handshake_us", 0)


def _narrow_window(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    server.machine.set_window(fault.amount)
    return partial(server.machine.set_window, WINDOW_BYTES)


def _pause_client(scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
    clients, kernel = scene.cluster.clients(), scene.cluster.kernel
    if not clients:
        return None
    owner = clients[fault.amount % len(clients)].machine.owner
    kernel.pause(owner)
    return partial(kernel.resume, owner)


def _other(scene: FaultScene, fault: NodeFault) -> Machine:
    return scene.cluster.servers[fault.other].machine


PERFORMERS: Final[Mapping[str, Perform]] = {
    "cut": _cut,
    "cut_one_way": _cut_one_way,
    "isolate": _isolate,
    "split": _split,
    "client_cut": _cut_clients,
    "controller_cut": _cut_controller,
    "flap": _flap,
    "clog": _clog,
    "slow_network": _slow_down,
    "reset": _reset,
    "reset_all": _reset_all,
    "tear": _tear,
    "let_wait": _let_wait,
    "late_proposals": _late_proposals,
    "late_metadata": _late_metadata,
    "late_records": _late_records,
    "late_markers": _late_markers,
    "slow_handshake": _slow_handshake,
    "narrow_window": _narrow_window,
    "pause_client": _pause_client,
}
