"""Puts the rules to work on a whole-node run: the view, the probes, and the judge between them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from tidelog.core.events import Event, StraySetAside
from tidelog.sim.judge import Judge
from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.damage import DamageLedger
from tidelog.sim.nodes.marks import NodeMarks, Witnesses
from tidelog.sim.nodes.marks_shell import ShellMarks
from tidelog.sim.nodes.probes import Method, Probe, attached
from tidelog.sim.nodes.probes_access import AccessProbes
from tidelog.sim.nodes.probes_control import ControlProbes
from tidelog.sim.nodes.probes_coordination import CoordinationProbes
from tidelog.sim.nodes.probes_data import DataProbes
from tidelog.sim.nodes.server import Server
from tidelog.sim.nodes.view import NodesView
from tidelog.sim.rules import ALL_RULES
from tidelog.sim.rules.group_rules import NothingSkipped
from tidelog.sim.rules.view import Report, WorldView

SWEEP_EVERY_STEPS = 512
SHOWN_OF_ID = 8
"""So many characters of a topic's id are in the text of a rule."""

NODE_RULES = tuple(rule for rule in ALL_RULES if rule is not NothingSkipped)
"""What a group has processed only its members know: the clients of a run judge that."""


class Judging:
    """The rules of `sim.rules` on the production nodes of one run."""

    def __init__(self, cluster: NodeCluster, report: Report) -> None:
        self._kernel: Kernel = cluster.kernel
        self._report = report
        servers = cluster.servers
        self.view = NodesView(
            cluster.kernel,
            list(servers),
            check_quorum_ms(cluster),
            is_stopping=lambda node: servers[node].told_to_stop,
        )
        self.judge = Judge(self._report_named)
        self._data = DataProbes(self.judge, self.view)
        self._control = ControlProbes(self.judge, self.view)
        self._coordination = CoordinationProbes(self.judge, self.view, cluster)
        self._access = AccessProbes(report)
        self.marks = NodeMarks()
        self._witnesses = Witnesses(cluster, self.view, self.marks)
        self._shell = ShellMarks(self.marks, self.view, self._witnesses)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While this lasts, the view knows what metadata is committed, and nothing is judged."""
        with attached(self._control.committed_metadata()):
            yield

    @contextmanager
    def attending(self) -> Iterator[None]:
        """While this lasts, whatever nodes do is judged."""
        witnesses = (self._coordination.transactions, *self._witnesses.all, self._shell)
        self.judge.attend(cast(WorldView, self.view), NODE_RULES, witnesses=witnesses)
        assert self.judge.chronicle is not None, "a judge attends with its chronicle"
        self._witnesses.attend(self.judge.chronicle)
        self._shell.attend(self.judge.chronicle)
        probes = [
            *self._data.all(),
            *self._control.committed_metadata(),
            *self._control.all(),
            *self._coordination.all(),
            *self._access.all(),
            Probe(Server, "start", self._around_start),
            Probe(Server, "_end", self._around_end),
            Probe(Server, "_lose_unsynced", self._around_lose_unsynced),
            Probe(Server, "replace_data", self._around_replace_data),
            Probe(DamageLedger, "flip_bit", self._around_damage),
            Probe(DamageLedger, "lose_segment", self._around_damage),
            *self._shell.all(),  # last, so that they look before the view has forgotten a process
        ]
        with attached(probes):
            self._kernel.every_steps(SWEEP_EVERY_STEPS, self.judge.sweep)
            yield

    def on_event(self, node: int, event: Event) -> None:
        if self.judge.chronicle is None:
            return  # it does not attend
        if isinstance(event, StraySetAside):
            self.view.set_aside(node, event.partition)
        self._data.on_event(node, event)
        self._control.on_event(node, event)
        self._coordination.on_event(node, event)
        self._witnesses.on_event(event)

    def finish(self) -> None:
        """Everything has settled: the last word."""
        self.judge.sweep()
        self.judge.finish()

    def _report_named(self, rule: str, text: str) -> None:
        """Rules know a topic by its id; who reads the report knows it by its name."""
        for topic in self.view.image.topics.values():
            text = text.replace(topic.topic_id.hex()[:SHOWN_OF_ID], topic.name)
        self._report(rule, text)

    # -- processes

    def _around_start(self, original: Method) -> Method:
        def start(server: Server) -> None:
            if not server.running:
                self.view.started(server.node_id)
                self.judge.node_started(server.node_id)
            original(server)

        return start

    def _around_end(self, original: Method) -> Method:
        def end(server: Server, *, power_lost: bool) -> Any:
            if server.running:
                self.view.stopped(server.node_id)
                kind = "power_loss" if power_lost else "crash"
                self.judge.node_stopped(server.node_id, kind)
            return original(server, power_lost=power_lost)

        return end

    def _around_lose_unsynced(self, original: Method) -> Method:
        def lose_unsynced(server: Server) -> None:
            self.view.lost_unsynced(server.node_id)
            original(server)

        return lose_unsynced

    def _around_replace_data(self, original: Method) -> Method:
        def replace_data(server: Server) -> None:
            self.view.wiped(server.node_id)
            original(server)

        return replace_data

    def _around_damage(self, original: Method) -> Method:
        def damage(ledger: DamageLedger, server: Server, *choice: int) -> bool:
            done: bool = original(ledger, server, *choice)
            if done:
                self.view.damaged(server.node_id)
            return done

        return damage


def check_quorum_ms(cluster: NodeCluster) -> int:
    """How long a leader may go on without a majority, by true time: the slowest clock included."""
    server = next(iter(cluster.servers.values()))
    return server.config.quorum_settings().fetch_timeout_ms * 3 // 2 * 5 // 4
