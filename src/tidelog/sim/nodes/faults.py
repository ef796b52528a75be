"""Performs the faults of a plan on a cluster of whole nodes, and heals everything in the end."""

from collections import Counter
from collections.abc import Callable

from tidelog.sim.kernel import WORLD
from tidelog.sim.nodes import disk_faults, network_faults, process_faults
from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.damage import DamageLedger
from tidelog.sim.nodes.fault_kinds import ALL_NODES, KINDS, NodeFault
from tidelog.sim.nodes.fault_scene import End, FaultScene, Perform, nothing
from tidelog.sim.nodes.roles import Roles
from tidelog.sim.nodes.server import Server

RESTART_US = 300_000
"""Until somebody starts a process again that ended because of its disk."""


class NodeFaults:
    """Every fault knows how it ends; `heal` ends those that still last."""

    __slots__ = (
        "_cluster",
        "_elect",
        "_healed",
        "_lasting",
        "_performers",
        "_scene",
        "_tell",
        "counts",
        "declined",
    )

    def __init__(
        self, cluster: NodeCluster, elect: Callable[[bool], bool], tell: Callable[[str], None]
    ) -> None:
        """`elect` has leaders elected by a client, preferred ones or uncleanly; False if there is
        nothing to elect. `tell` hears what is done."""
        self._cluster = cluster
        self._elect = elect
        self._tell = tell
        self._lasting: dict[int, End] = {}
        self._healed: tuple[int, ...] = ()
        roles = Roles(cluster.servers)
        ledger = DamageLedger(cluster.servers, roles)
        self._scene = FaultScene(
            cluster, roles, ledger, self._restart_later, lambda: bool(self._healed)
        )
        self._performers: dict[str, Perform] = {
            **process_faults.PERFORMERS,
            **disk_faults.PERFORMERS,
            **network_faults.PERFORMERS,
            "elect": self._elect_leaders,
            "unclean_election": self._elect_uncleanly,
        }
        assert self._performers.keys() == KINDS.keys(), "a kind that nobody performs"
        for server in cluster.servers.values():
            server.on_gone = self._on_gone
        self.counts: Counter[str] = Counter()
        self.declined: Counter[str] = Counter()
        """Those that made no sense then, or would have broken what we promise."""

    def schedule(self, faults: tuple[NodeFault, ...]) -> None:
        for fault in faults:
            self._cluster.kernel.call_at(fault.at_ms * 1000, WORLD, self._begin, fault)

    def heal(self, nodes: tuple[int, ...]) -> None:
        """From now on nothing is broken, and these nodes are up. The others are down."""
        self._healed = nodes
        lasting, self._lasting = self._lasting, {}
        for end in lasting.values():
            end()
        for server in self._cluster.servers.values():
            server.set_trap(None)
            if server.node_id in nodes:
                server.start()
            else:
                server.kill()

    def _begin(self, fault: NodeFault) -> None:
        if self._healed:
            return
        targets = self._targets(fault)
        # Told before it happens, so that a story reads in order of cause and effect.
        self._tell(_words(fault, targets))
        perform = self._performers[fault.kind]
        ends = [perform(self._scene, fault, server) for server in targets]
        performed = [end for end in ends if end is not None]
        for server in self._cluster.servers.values():
            server.work.forget()
        if not performed:
            self.declined[fault.kind] += 1
            self._tell("declined: it makes no sense now, or is more than we promise to survive")
            return
        self.counts[fault.kind] += 1
        number = self.counts.total()

        def end_all() -> None:
            for end in performed:
                end()

        self._lasting[number] = end_all
        self._cluster.kernel.call_in(fault.lasts_ms * 1000, WORLD, self._end, number)

    def _end(self, number: int) -> None:
        end = self._lasting.pop(number, None)
        if end is not None:
            end()

    def _targets(self, fault: NodeFault) -> list[Server]:
        servers = self._cluster.servers
        if fault.node == ALL_NODES:
            return list(servers.values())
        return [self._scene.roles.find(fault.aim, fault.partition, servers[fault.node])]

    def _elect_leaders(self, scene: FaultScene, fault: NodeFault, server: Server) -> End:
        self._elect(False)
        return nothing

    def _elect_uncleanly(self, scene: FaultScene, fault: NodeFault, server: Server) -> End | None:
        return nothing if self._elect(True) else None

    # -- processes that end by themselves

    def _on_gone(self, server: Server) -> None:
        self._tell(f"node {server.node_id} has ended: its disk failed")
        self._restart_later(server)

    def _restart_later(self, server: Server) -> None:
        if server.node_id in self._healed:
            server.start()
        elif not self._healed:
            self._cluster.kernel.call_in(RESTART_US, WORLD, self._restart, server)

    def _restart(self, server: Server) -> None:
        if not self._healed or server.node_id in self._healed:
            server.start()


def _words(fault: NodeFault, targets: list[Server]) -> str:
    """With whom it meets, if that was left open."""
    found = f": node {targets[0].node_id}" if fault.aim else ""
    return f"{fault}{found}"
