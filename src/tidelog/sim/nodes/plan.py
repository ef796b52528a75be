"""What happens in one whole-node run, drawn from its seed."""

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from tidelog.sim.entropy import stream
from tidelog.sim.nodes.client_plan import ClientPlan, draw_client_plan
from tidelog.sim.nodes.fault_plan import NodeFault, draw_faults

SHORT_SESSIONS: Final = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "4000",
}
"""So that members of groups are expelled, and the others hear of it, before a run is over."""


class NodePlan(NamedTuple):
    seed: int
    brokers: int
    partitions: int
    clients: ClientPlan
    settings: tuple[tuple[str, str], ...]
    faults: tuple[NodeFault, ...]
    calm_ms: int
    chaos_ms: int

    def headline(self) -> str:
        counts: dict[str, int] = {}
        for fault in self.faults:
            counts[fault.kind] = counts.get(fault.kind, 0) + 1
        told = ", ".join(f"{kind} {number}" for kind, number in sorted(counts.items()))
        return (
            f"seed {self.seed}: {self.brokers} whole nodes, {self.partitions} partitions, "
            f"{self.clients.headline()}, {self.chaos_ms / 1000:.0f} s of faults: {told}"
        )


def draw_node_plan(seed: int, focus: Sequence[str] = ()) -> NodePlan:
    """`focus` names the kinds of faults; any mixture without it."""
    entropy = stream(seed, "plan of whole nodes")
    brokers = entropy.choice((3, 3, 3, 5))
    chaos_ms = entropy.randrange(5_000, 20_000)
    calm_ms = 4_000
    return NodePlan(
        seed=seed,
        brokers=brokers,
        partitions=entropy.choice((1, 3, 8, 16, 40)),
        clients=draw_client_plan(seed),
        settings=_draw_settings(entropy),
        faults=draw_faults(entropy, brokers, calm_ms, chaos_ms, focus),
        calm_ms=calm_ms,
        chaos_ms=chaos_ms,
    )


def _draw_settings(entropy: Random) -> tuple[tuple[str, str], ...]:
    settings = {
        "log.segment.bytes": entropy.choice(("1048576", "1073741824")),
        "auto.leader.rebalance.enable": entropy.choice(("true", "false")),
    }
    return tuple(sorted({**settings, **SHORT_SESSIONS}.items()))
