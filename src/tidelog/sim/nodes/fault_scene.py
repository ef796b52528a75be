"""What faults are performed with: a cluster, who has which role in it, what may still break."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.damage import DamageLedger
from tidelog.sim.nodes.fault_kinds import NodeFault
from tidelog.sim.nodes.roles import Roles
from tidelog.sim.nodes.server import Server
from tidelog.sim.nodes.tcp import Machine

End = Callable[[], None]
"""What undoes a fault. It may be called when the fault has long been overtaken by another."""


class FaultScene(NamedTuple):
    cluster: NodeCluster
    roles: Roles
    ledger: DamageLedger
    restart_later: Callable[[Server], None]
    """For processes that died at a moment that no fault's end knows of."""
    is_healed: Callable[[], bool]
    """From then on nothing may break, not even at the end of a fault."""

    def client_machines(self) -> list[Machine]:
        return [loop.machine for loop in self.cluster.clients()]


Perform = Callable[[FaultScene, NodeFault, Server], End | None]
"""Do it to a server; None if it makes no sense now, or would break what is promised."""


def nothing() -> None:
    """The end of a fault that does not last."""
