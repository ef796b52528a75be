"""The story of a whole-node run: what happened, beside the state of every node at that time."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.core import events
from tidelog.core.events import Event
from tidelog.core.types import PartitionId
from tidelog.observe.render import Renderer
from tidelog.sim.nodes.cluster import NodeCluster

UP: Final = "."
DOWN: Final = "✗"
PAUSED: Final = "‖"
CUT_OFF: Final = "≠"

CROWN: Final = "♛"
STARTS: Final = "↑"
TRUNCATES: Final = "↓"
ACTS: Final = "•"

LEGEND: Final = (
    "columns: nodes 1, 2, …   . up   ✗ down   ‖ paused   ≠ cut off   ♛ leads now   ↑ starts"
    "   ↓ truncates   • acts"
)

WORLD: Final = 0
"""As the node of what happens to the cluster from outside."""

SILENT: Final = (
    events.RecordsAppended,
    events.HighWatermarkAdvanced,
    events.IsrProposed,
    events.IsrChanged,
    events.BecameFollower,
)
"""True but too many, or told again by a fact that follows; shown on request."""

TOLD_ROLES: Final = ("candidate", "resigned")
"""Of the roles in the quorum. Who leads is an event of its own; the rest is waiting."""

MARKS: Final[dict[type, str]] = {
    events.BecameLeader: CROWN,
    events.QuorumLeaderElected: CROWN,
    events.ControllerClaimed: CROWN,
    events.LogTruncated: TRUNCATES,
    events.IsrCommitted: "",
    events.LeaderElected: "",
    events.BrokerRegistered: "",
    events.BrokerFenced: "",
    events.BrokerUnfenced: "",
    events.ControlledShutdownStarted: "",
}
"""In the column of the node that tells it. What the controller decided is in nobody's."""


class Told(NamedTuple):
    """What is no event of a node: faults, phases, processes, broken rules."""

    kind: str
    text: str


class Moment(NamedTuple):
    at_us: int
    step: int
    node: int
    """0: the world, which breaks things and heals them."""
    happening: Event | Told
    columns: str
    """One character per node."""


class Story:
    """Kept only if somebody wants to read it: a run without one is faster."""

    __slots__ = ("_cluster", "_names", "_renderer", "moments")

    def __init__(self, cluster: NodeCluster) -> None:
        self._cluster = cluster
        self._names: dict[bytes, str] = {}
        """Of topics, by id. The first events of a topic come before any node knows its name."""
        self._renderer = Renderer(self._names.get)
        self.moments: list[Moment] = []

    def event(self, node_id: int, event: Event) -> None:
        partition = getattr(event, "partition", None)
        if isinstance(partition, PartitionId):
            self._learn(partition.topic_id)
        self._add(node_id, MARKS.get(type(event), ACTS), event)

    def life(self, node_id: int, what: str) -> None:
        """A process has started or ended."""
        starts = self._cluster.servers[node_id].running
        self._add(node_id, STARTS if starts else DOWN, Told("Process", f"node {node_id} {what}"))

    def world(self, kind: str, text: str) -> None:
        self._add(WORLD, "", Told(kind, text))

    def lines(self, *, everything: bool) -> Iterator[str]:
        yield LEGEND
        for moment in self._shown(everything):
            columns, text = " ".join(moment.columns), self._text(moment)
            yield f"{moment.at_us / 1_000_000:8.3f}s  {columns}   {text}".rstrip()

    def as_json(self, *, everything: bool) -> list[dict[str, object]]:
        return [
            {
                "at_ms": moment.at_us / 1000,
                "step": moment.step,
                "node": moment.node,
                "event": _kind(moment),
                "text": self._text(moment),
            }
            for moment in self._shown(everything)
        ]

    def _shown(self, everything: bool) -> list[Moment]:
        return [each for each in self.moments if everything or not is_silent(each.happening)]

    def _text(self, moment: Moment) -> str:
        happening = moment.happening
        return happening.text if isinstance(happening, Told) else self._renderer.line(happening)

    def _learn(self, topic_id: bytes) -> None:
        for server in self._cluster.servers.values():
            name = None if server.node is None else server.node.topic_name(topic_id)
            if name is not None:
                self._names[topic_id] = name

    def _add(self, node_id: int, mark: str, happening: Event | Told) -> None:
        columns = [self._state(each) for each in self._cluster.servers]
        if mark and node_id != WORLD:
            columns[node_id - 1] = mark
        kernel = self._cluster.kernel
        self.moments.append(
            Moment(kernel.now_us, kernel.steps, node_id, happening, "".join(columns))
        )

    def _state(self, node_id: int) -> str:
        server = self._cluster.servers[node_id]
        if not server.running:
            return DOWN
        if self._cluster.kernel.is_paused(server.machine.owner):
            return PAUSED
        is_cut, ours = self._cluster.internet.is_cut, server.machine
        others = [each.machine for each in self._cluster.servers.values() if each is not server]
        if others and all(is_cut(ours, each) or is_cut(each, ours) for each in others):
            return CUT_OFF
        return UP


def _kind(moment: Moment) -> str:
    happening = moment.happening
    return happening.kind if isinstance(happening, Told) else type(happening).__name__


def is_silent(event: Event | Told) -> bool:
    """Left out of a story unless everything is asked for."""
    if isinstance(event, events.QuorumRoleChanged):
        return event.role not in TOLD_ROLES
    return isinstance(event, SILENT)
