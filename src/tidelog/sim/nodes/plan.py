"""Everything that one whole-node run will do, drawn from its seed before it starts.

A plan is data: machines, knobs, topics, clients, and every fault with its time. Nothing is drawn
later that is not determined by it, so a plan can be written to a file, made smaller and run again
anywhere. Each section is drawn from streams of its own: a change of one leaves the others as they
were.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from tidelog.sim.entropy import stream
from tidelog.sim.nodes.client_plan import (
    CLIENT_KINDS,
    ClientPlan,
    draw_client_plan,
    with_outsiders,
)
from tidelog.sim.nodes.cluster_plan import DURABILITY, ClusterPlan, draw_cluster
from tidelog.sim.nodes.fault_kinds import NodeFault
from tidelog.sim.nodes.fault_plan import draw_apart, draw_faults
from tidelog.sim.nodes.plots import (
    PLOTS,
    draw_plot,
    draw_plots,
    draw_plots_apart,
    draw_rare_plot,
    draw_some,
)
from tidelog.sim.nodes.topic_plan import TopicPlan, draw_topics

CALM_MS: Final = 4_000
DAMAGE_NEEDS: Final[dict[str, dict[str, str]]] = {
    "bit_flip": {"log.flush.offset.checkpoint.interval.ms": "100"},
    "segment_loss": {
        "log.flush.start.offset.checkpoint.interval.ms": "100",
        "log.roll.ms": "1000",
    },
    "wipe": {"metadata.log.dir": "/metadata"},
}
"""What is synced and where a log starts is on the disk; records are on disks of their own."""


class Phases(NamedTuple):
    """Calm, then faults; then the healing. Times are counted from when the clients begin."""

    calm_ms: int
    chaos_ms: int

    @property
    def duration_ms(self) -> int:
        """Until the healing begins."""
        return self.calm_ms + self.chaos_ms


class NodePlan(NamedTuple):
    seed: int
    cluster: ClusterPlan
    topics: tuple[TopicPlan, ...]
    clients: ClientPlan
    phases: Phases
    faults: tuple[NodeFault, ...]
    """In the order of their times, which are counted from when the clients begin."""

    def headline(self) -> str:
        """The drawn options in one line, printed before a story."""
        partitions = sum(topic.partitions for topic in self.topics)
        counts = Counter(fault.kind.replace("_", " ") for fault in self.faults)
        told = ", ".join(f"{kind} {number}" for kind, number in sorted(counts.items()))
        parts = [
            f"seed {self.seed}",
            self.cluster.headline(),
            f"{partitions} partition{'s' if partitions != 1 else ''}",
            self.clients.headline(),
            f"{len(self.faults)} fault{'s' if len(self.faults) != 1 else ''}"
            f" in {self.phases.chaos_ms / 1000:.0f} s{': ' if told else ''}{told}",
        ]
        return " · ".join(parts)


def draw_node_plan(seed: int, focus: Sequence[str] = ()) -> NodePlan:
    """`focus` names kinds of faults, plots and kinds of clients; any mixture of faults, and of
    clients, without one."""
    cluster = draw_cluster(seed, secured="outcasts" in focus)
    topics = draw_topics(seed, cluster)
    phases = Phases(CALM_MS, stream(seed, "length of whole nodes").randrange(5_000, 20_000))
    clients = draw_client_plan(seed, [name for name in focus if name in CLIENT_KINDS])
    if cluster.secured and not focus:
        clients = with_outsiders(seed, clients)
    if not cluster.racks:
        clients = clients._replace(rack_readers=())
    elif clients.rack_readers:
        cluster = cluster.serving_racks()
    kinds = [name for name in focus if name not in CLIENT_KINDS and name not in PLOTS]
    named = [name for name in focus if name in PLOTS]
    entropy = stream(seed, "plots of whole nodes")
    begin_ms, end_ms = phases.calm_ms, phases.duration_ms
    if focus:
        plots = draw_plots(entropy, cluster, begin_ms, end_ms, named)
    else:
        plots = draw_some(entropy, cluster, begin_ms, end_ms)
        plots += draw_plots_apart(seed, cluster, begin_ms, end_ms)
        if rare := draw_rare_plot(seed, cluster):
            entropy = stream(seed, f"plot {rare}")
            plots += draw_plot(rare, entropy, cluster, entropy.randrange(begin_ms, end_ms))
        entropy = stream(seed, "late markers of whole nodes")
        if clients.late and entropy.random() < 0.3:
            plots += draw_plot("stale_coordinator", entropy, cluster, begin_ms)
    if clients.gambles and cluster.brokers > 1 and (not focus or "gambles" in focus):
        entropy = stream(seed, "plots of gambles")
        plots += draw_plot("gamble", entropy, cluster, entropy.randrange(begin_ms, end_ms))
    faults = list(plots)
    if kinds or not named:
        entropy = stream(seed, "faults of whole nodes")
        faults += draw_faults(entropy, cluster.nodes, phases.calm_ms, phases.chaos_ms, kinds)
    if not focus:
        faults += draw_apart(seed, cluster.nodes, phases.calm_ms, phases.chaos_ms)
    if plots:
        last_ms = max(fault.at_ms + fault.lasts_ms for fault in plots)
        phases = phases._replace(chaos_ms=max(phases.chaos_ms, last_ms - phases.calm_ms))
    cluster = _open_to_damage(_as_durable_as_needed(cluster, faults), faults)
    if clients.access_pause_ms:
        cluster = cluster.guarded()
    return NodePlan(seed, cluster, topics, clients, phases, tuple(sorted(faults)))


def _as_durable_as_needed(cluster: ClusterPlan, faults: Sequence[NodeFault]) -> ClusterPlan:
    """What lies in page caches alone survives crashes of processes, not of machines: where those
    are drawn, acknowledged means synced."""
    if not any(fault.loses_unsynced for fault in faults):
        return cluster
    kept = tuple((name, value) for name, value in cluster.settings if name != DURABILITY)
    return cluster._replace(settings=kept)


def _open_to_damage(cluster: ClusterPlan, faults: Sequence[NodeFault]) -> ClusterPlan:
    """Damage that is drawn can be done: `sim.nodes.damage` declines it elsewhere."""
    needed: dict[str, str] = {}
    for fault in faults:
        needed |= DAMAGE_NEEDS.get(fault.kind, {})
    if not needed:
        return cluster
    settings = {**dict(cluster.settings), **needed}
    return cluster._replace(settings=tuple(sorted(settings.items())))
