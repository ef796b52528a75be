"""Performs the faults of a plan on a cluster of whole nodes, and heals everything in the end."""

from collections import Counter
from collections.abc import Callable

from tidelog.sim.kernel import WORLD
from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.fault_plan import ALL_NODES, NodeFault
from tidelog.sim.nodes.server import Server
from tidelog.sim.nodes.tcp import Machine

SLOW_DISK_FACTOR = 40
SLOW_NETWORK_FACTOR = 50


class NodeFaults:
    """Every fault knows how it ends; `heal` ends those that still last."""

    __slots__ = ("_cluster", "_elect", "_healed", "_lasting", "_tell", "counts")

    def __init__(
        self, cluster: NodeCluster, elect: Callable[[], None], tell: Callable[[str], None]
    ) -> None:
        """`elect` has preferred leaders elected, by a client; `tell` hears what is done."""
        self._cluster = cluster
        self._elect = elect
        self._tell = tell
        self._lasting: dict[int, Callable[[], None]] = {}
        self._healed = False
        self.counts: Counter[str] = Counter()

    def schedule(self, faults: tuple[NodeFault, ...]) -> None:
        for fault in faults:
            self._cluster.kernel.call_at(fault.at_ms * 1000, WORLD, self._begin, fault)

    def heal(self) -> None:
        """From now on nothing is broken."""
        self._healed = True
        self._tell("everything is healed")
        lasting, self._lasting = self._lasting, {}
        for end in lasting.values():
            end()
        for server in self._cluster.servers.values():
            server.start()

    def _begin(self, fault: NodeFault) -> None:
        if self._healed:
            return
        self._tell(str(fault))
        ends = [self._break(fault, server) for server in self._targets(fault)]
        self.counts[fault.kind] += 1
        number = len(self._lasting) + self._cluster.kernel.steps

        def end() -> None:
            for each in ends:
                each()

        self._lasting[number] = end
        self._cluster.kernel.call_in(fault.lasts_ms * 1000, WORLD, self._end, number)

    def _end(self, number: int) -> None:
        end = self._lasting.pop(number, None)
        if end is not None:
            end()

    def _targets(self, fault: NodeFault) -> list[Server]:
        servers = self._cluster.servers
        return list(servers.values()) if fault.node == ALL_NODES else [servers[fault.node]]

    def _break(self, fault: NodeFault, server: Server) -> Callable[[], None]:
        """Do it; what undoes it."""
        others = [each for each in self._cluster.servers.values() if each is not server]
        machine, internet = server.machine, self._cluster.internet
        other = self._cluster.servers[fault.other].machine
        match fault.kind:
            case "kill":
                server.kill()
                return server.start
            case "power_loss":
                server.lose_power()
                return server.start
            case "stop":
                server.stop()
                return lambda: self._restart(server)
            case "pause":
                server.pause()
                return server.resume
            case "cut":
                return self._cut([(machine, other), (other, machine)])
            case "cut_one_way":
                return self._cut([(machine, other)])
            case "isolate":
                pairs = [(machine, each.machine) for each in others]
                return self._cut([*pairs, *[(b, a) for a, b in pairs]])
            case "reset":
                internet.reset_connections(machine, other)
                return _nothing
            case "slow_disk":
                server.slow_disk(SLOW_DISK_FACTOR)
                return lambda: server.slow_disk(1)
            case "slow_network":
                internet.slow_down(machine, SLOW_NETWORK_FACTOR)
                return lambda: internet.slow_down(machine, 1)
            case _:
                assert fault.kind == "elect", fault
                self._elect()
                return _nothing

    def _restart(self, server: Server) -> None:
        """It was told to stop. Whoever waits too long for that kills it."""
        if server.told_to_stop:
            server.kill()
        server.start()

    def _cut(self, links: list[tuple[Machine, Machine]]) -> Callable[[], None]:
        internet = self._cluster.internet
        for source, target in links:
            internet.cut(source, target)

        def restore() -> None:
            for source, target in links:
                internet.restore(source, target)

        return restore


def _nothing() -> None:
    """How a fault ends that does not last."""
