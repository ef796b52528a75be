"""The nodes of a simulated cluster, as every cluster of tests has its nodes."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tidelog.cluster.layout import Shape
from tidelog.cluster.nodes import LAST_LINES, NodeFailed, Stopped
from tidelog.cluster.state import ClusterState, NodeState
from tidelog.core.events import Event
from tidelog.node.node import Node
from tidelog.node.scripted_answers import Script
from tidelog.sim.nodes.cluster import BROKER_PORT, CONTROLLER_PORT, HTTP_PORT
from tidelog.sim.nodes.rules import EventRules
from tidelog.sim.nodes.server import CLUSTER_ID
from tidelog.sim.nodes.tcp import Machine
from tidelog.testing.in_process import InProcessNodes, Promises, brokers_known
from tidelog.testing.simulated.machines import TestedServer, plan_of
from tidelog.testing.simulated.story import KeptStory, SimJournal
from tidelog.testing.simulated.world import World

Found = TypeVar("Found")

HOST = "simulated"


class SimNodeState(NodeState):
    """Of a node that has a virtual loop instead of a process."""

    __slots__ = ("server", "world")

    server: TestedServer
    world: World

    @property
    def state(self) -> str:
        if not self.server.running:
            return "gone"
        return "running" if self.server.works else "paused"


class SimNodes:
    """Implements `testing.in_process.InProcessNodes`."""

    __slots__ = (
        "_broken",
        "_cuts",
        "_journal",
        "_promises",
        "_rules",
        "directory",
        "state",
        "story",
        "world",
    )

    def __init__(self, shape: Shape, seed: int) -> None:
        plan = plan_of(shape)
        self.directory = Path("/") / HOST
        self.world = World(seed, plan)
        self.story = KeptStory(self.world.machines)
        self._journal = SimJournal(self.world.kernel, self.story)
        self._promises = {node_id: Promises() for node_id in self.world.machines.servers}
        self._broken: list[str] = []
        self._cuts: dict[tuple[Machine, Machine], None] = {}
        self._rules = EventRules(self._on_broken, lambda partition: True)
        for server in self.world.machines.servers.values():
            server.report_to(self._on_event, self._on_problem, self.story.life)
        self.state = ClusterState("test", CLUSTER_ID, HOST, self._states(), ephemeral=True)

    def _states(self) -> dict[int, NodeState]:
        plan = self.world.machines.plan
        states: dict[int, NodeState] = {}
        for node_id, server in self.world.machines.servers.items():
            is_broker, votes = node_id in plan.broker_ids, node_id in plan.voter_ids
            roles = (*(("broker",) if is_broker else ()), *(("controller",) if votes else ()))
            port = BROKER_PORT if is_broker else CONTROLLER_PORT
            voter_port = CONTROLLER_PORT if votes else None
            rack = plan.rack(node_id) or None
            made = SimNodeState(node_id, roles, port, voter_port, HTTP_PORT, rack)
            made.server, made.world = server, self.world
            states[node_id] = made
        return states

    # -- what nodes tell

    def _on_event(self, node_id: int, event: Event) -> None:
        self.world.kernel.digest.add_happening((node_id, *event))
        self.story.event(node_id, event)
        self._promises[node_id].note(event)
        self._rules.on_event(event)

    def _on_problem(self, node_id: int, text: str) -> None:
        self._on_broken("", f"node {node_id}: {text}")

    def _on_broken(self, rule: str, text: str) -> None:
        told = f"{rule}: {text}" if rule else text
        self._broken.append(f"at {self.world.kernel.now_us / 1_000_000:.3f} s, {told}")
        self.story.world("PromiseBroken", f"BROKEN {told}")

    # -- ClusterNodes

    @property
    def node_ids(self) -> list[int]:
        return list(self.state.nodes)

    def node(self, node_id: int) -> NodeState:
        return self.state.nodes[node_id]

    def server(self, node_id: int) -> TestedServer:
        return self.world.machines.servers[node_id]

    def start(self, node_ids: Iterable[int]) -> None:
        self._journal.open()
        for node_id in node_ids:
            self.world.perform(self.server(node_id).start)

    def kill(self, node_id: int) -> bool:
        server = self.server(node_id)
        was_running = server.running
        if was_running:
            self.world.perform(server.crash)
        return was_running

    def pause(self, node_id: int) -> bool:
        return self._if_running(node_id, self.server(node_id).pause)

    def resume(self, node_id: int) -> bool:
        return self._if_running(node_id, self.server(node_id).resume)

    def _if_running(self, node_id: int, change: Callable[[], None]) -> bool:
        running = self.server(node_id).running
        if running:
            self.world.perform(change)
        return running

    def stop(self, node_ids: Iterable[int], *, timeout_ms: int) -> list[Stopped]:
        stopped = []
        for node_id in node_ids:
            server = self.server(node_id)
            if not server.running:
                continue
            self.resume(node_id)
            self.world.perform(server.stop)
            deadline_us = self.world.kernel.now_us + timeout_ms * 1000
            in_time = self.world.drive(partial(_is_gone, server), deadline_us)
            if not in_time:
                self.kill(node_id)
            stopped.append(Stopped(node_id, in_time))
        return stopped

    def save(self) -> None:
        """Nobody but us reads it."""

    def exit_status(self, node_id: int) -> str:
        return "ended"

    def log_text(self, node_id: int) -> str:
        return "".join(f"{line}\n" for line in self.story.lines_of(node_id))

    def last_lines(self, node_id: int, count: int = LAST_LINES) -> list[str]:
        return self.story.lines_of(node_id)[-count:]

    def close(self) -> None:
        self.world.close()
        self._journal.close()

    # -- InProcessNodes

    def look(self, node_id: int, at: Callable[[Node], Found]) -> Found | None:
        """Also at a node that is paused: nothing of it runs by being looked at."""
        server = self.server(node_id)
        loop, node = server.loop, server.node
        if loop is None or node is None:
            return None
        found: list[Found] = []
        self.world.perform(lambda: loop.perform(lambda: found.append(at(node))))
        server.work.forget()
        return found[0]

    def promises(self, node_id: int) -> Promises:
        return self._promises[node_id]

    def broken_by_itself(self) -> list[str]:
        return list(self._broken)

    def wait_ready(self, node_ids: Iterable[int], timeout_s: float) -> None:
        wanted = frozenset(node_ids)
        broken_before = len(self._broken)
        deadline_us = self.world.kernel.now_us + round(timeout_s * 1_000_000)
        for node_id in sorted(wanted):
            while not self._serves(node_id, wanted):
                if len(self._broken) > broken_before:
                    raise NodeFailed(node_id, self._broken[-1], self.last_lines(node_id))
                if self.world.kernel.now_us >= deadline_us:
                    reason = "does not serve, or does not know all others yet"
                    raise NodeFailed(node_id, reason, self.last_lines(node_id))
                self.world.advance(1_000)

    def _serves(self, node_id: int, others: frozenset[int]) -> bool:
        known = self.look(node_id, brokers_known) if self.server(node_id).ready else None
        return known is not None and others <= known

    def script(self, script: Script, node_id: int | None) -> None:
        for each in self.node_ids if node_id is None else [node_id]:
            looking = self.server(each).looking
            if looking is not None and looking.answers is not None:
                looking.answers.add(script)

    def clear_scripts(self) -> None:
        for each in self.node_ids:
            looking = self.server(each).looking
            if looking is not None and looking.answers is not None:
                looking.answers.clear()

    # -- the wires between nodes

    def cut(self, groups: Sequence[Sequence[int]]) -> None:
        for group in groups:
            for node_id in group:
                others = {each for other in groups if other is not group for each in other}
                node = self.node(node_id)
                node.blocked = sorted({*node.blocked, *others})
                for other_id in sorted(others):
                    self._cut_wire(self.server(node_id).machine, self.server(other_id).machine)

    def _cut_wire(self, source: Machine, target: Machine) -> None:
        if (source, target) not in self._cuts:
            self._cuts[source, target] = None
            self.world.machines.internet.cut(source, target)

    def slow(self, node_id: int, latency_ms: int) -> None:
        for other_id in self.node_ids:
            if other_id != node_id:
                self._slow_wire(node_id, other_id, latency_ms)
                self._slow_wire(other_id, node_id, latency_ms)

    def _slow_wire(self, source_id: int, target_id: int, latency_ms: int) -> None:
        told = self.node(target_id).latency_ms
        told.pop(str(source_id), None)
        if latency_ms:
            told[str(source_id)] = latency_ms
        source, target = self.server(source_id).machine, self.server(target_id).machine
        self.world.machines.internet.delay(source, target, latency_ms * 1000)

    def heal(self) -> None:
        cuts, self._cuts = self._cuts, {}
        for source, target in cuts:
            self.world.perform(partial(self.world.machines.internet.restore, source, target))
        for node in self.state.nodes.values():
            node.blocked.clear()
        for node_id in self.node_ids:
            self.slow(node_id, 0)


def _is_gone(server: TestedServer) -> bool:
    return not server.running


if TYPE_CHECKING:
    _NODES: type[InProcessNodes] = SimNodes  # the type checker compares them
