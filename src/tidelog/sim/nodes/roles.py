"""Who has which role in a cluster of whole nodes, at this moment."""

from tidelog.broker.coordination.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.types import NO_LEADER
from tidelog.sim.nodes import fault_kinds
from tidelog.sim.nodes.server import Server

_INTERNAL = (CONSUMER_OFFSETS, TRANSACTION_STATE)


class Roles:
    """Looks into the nodes: no client could know so well."""

    __slots__ = ("_servers",)

    def __init__(self, servers: dict[int, Server]) -> None:
        self._servers = servers

    def controller(self) -> Server | None:
        """The active one; of two that think so, the one of the later epoch."""
        active = [
            (server.node.quorum.leader_epoch, server.node_id)
            for server in self._servers.values()
            if server.node is not None
            and server.node.controller is not None
            and server.node.controller.active
        ]
        return self._servers[max(active)[1]] if active else None

    def image(self) -> MetadataImage | None:
        """What the active controller knows, or any broker if there is none."""
        controller = self.controller()
        if controller is not None and controller.node is not None:
            assert controller.node.controller is not None, "it is the active one"
            return controller.node.controller.image
        brokers = (server.node.broker for server in self._servers.values() if server.node)
        return next((broker.image for broker in brokers if broker is not None), None)

    def find(self, aim: str, partition: int, fallback: Server) -> Server:
        """Whoever has the role that is aimed at."""
        if aim == fault_kinds.CONTROLLER:
            return self.controller() or fallback
        state = self._partition(aim, partition) if aim else None
        if state is None or state.leader == NO_LEADER:
            return fallback
        if aim == fault_kinds.FOLLOWER:
            hit = [node for node in state.isr if node != state.leader]
        elif aim == fault_kinds.OUTSIDER:
            hit = [node for node in state.replicas if node not in state.isr]
        else:
            hit = [state.leader]
        # Rather one that nothing has happened to yet.
        hit.sort(key=lambda node: not self._servers[node].works)
        return self._servers[hit[0]] if hit else fallback

    def _partition(self, aim: str, number: int) -> PartitionState | None:
        image = self.image()
        if image is None:
            return None
        topic = {
            fault_kinds.COORDINATOR: CONSUMER_OFFSETS,
            fault_kinds.TRANSACTIONS: TRANSACTION_STATE,
        }.get(aim)
        states = [
            state
            for each in image.topics.values()
            for state in each.partitions.values()
            if (each.name == topic if topic else each.name not in _INTERNAL)
        ]
        return states[number % len(states)] if states else None
