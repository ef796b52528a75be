"""Probes of the metadata quorum and of the controllers."""

from typing import Any, cast

from tidelog.controller.open_request import OpenRequest, Refused
from tidelog.core import events
from tidelog.core.metadata.controller import Controller
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.lifecycle import BrokerLifecycle
from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.metadata.replay import replay
from tidelog.core.quorum import messages as m
from tidelog.core.quorum.node import QuorumNode
from tidelog.core.types import LogEntry
from tidelog.quorum import member
from tidelog.quorum.applying import Applying
from tidelog.quorum.member import QuorumMember
from tidelog.sim.judge import Judge
from tidelog.sim.nodes.loop import running_owner
from tidelog.sim.nodes.probes import Method, Probe
from tidelog.sim.nodes.view import Life, NodesView
from tidelog.storage.metadata_log import MetadataLog


class CommittedHearer:
    """Hears committed metadata before the parts of its node do: a `MetadataListener`."""

    __slots__ = ("_judge", "_node", "_view")

    def __init__(self, node: int, judge: Judge, view: NodesView) -> None:
        self._node = node
        self._judge = judge
        self._view = view

    def on_committed(self, entry: LogEntry) -> None:
        if running_owner() is None:
            return
        self._view.metadata_committed(entry)
        self._judge.metadata_committed(self._node, entry)

    def on_snapshot(self, records: tuple[MetadataRecord, ...], end_offset: int) -> None:
        pass

    def on_applied(self, offset: int) -> None:
        pass

    def on_claimable(self, epoch: int, next_offset: int) -> None:
        pass

    def on_lost(self, epoch: int) -> None:
        pass


class ControlProbes:
    """Tells the judge what members of the quorum and controllers do."""

    def __init__(self, judge: Judge, view: NodesView) -> None:
        self._judge = judge
        self._view = view

    def committed_metadata(self) -> list[Probe]:
        """What keeps the image of the view up to date."""
        return [Probe(QuorumMember, "start", self._around_start)]

    def all(self) -> list[Probe]:
        """The others."""
        return [
            Probe(QuorumMember, "_send", self._around_send),
            Probe(QuorumMember, "_install_snapshot", self._around_install),
            Probe(QuorumNode, "__init__", self._around_quorum_node),
            Probe(member, "write_quorum_state", self._around_persist),
            Probe(Applying, "commit", self._around_commit),
            Probe(MetadataLog, "append", self._around_append),
            Probe(MetadataLog, "truncate_to", self._around_truncate),
            Probe(MetadataLog, "write_snapshot", self._around_write_snapshot),
            Probe(Controller, "__init__", self._around_controller),
            Probe(Controller, "claim", self._around_claim),
            Probe(Controller, "renounce", self._around_renounce),
            Probe(Controller, "on_broker_gone", self._around_gone),
            Probe(OpenRequest, "settle", self._around_settle),
            Probe(BrokerLifecycle, "__init__", self._around_lifecycle),
        ]

    def on_event(self, node: int, event: events.Event) -> None:
        if isinstance(event, events.QuorumLeaderElected):
            self._judge.quorum_leader(node, event.leader_epoch, event.start_offset)

    # -- the quorum

    def _around_start(self, original: Method) -> Method:
        def start(self_: QuorumMember) -> None:
            self_.listeners.insert(0, CommittedHearer(self_.node_id, self._judge, self._view))
            original(self_)

        return start

    def _around_quorum_node(self, original: Method) -> Method:
        def make(node: QuorumNode, **named: Any) -> None:
            original(node, **named)
            life = self._life()
            if life is not None:
                life.quorum = node

        return make

    def _around_send(self, original: Method) -> Method:
        def send(self_: QuorumMember, target: int, message: Any) -> None:
            node = running_owner()
            if node is None:
                return
            if type(message) is m.FetchRequest:
                durable_offset = self_._log.durable_offset
                self._judge.quorum_fetch_sent(node, message.fetch_offset, durable_offset)
            elif type(message) is m.VoteResponse and message.granted and not message.pre_vote:
                self._judge.vote_sent(node, message.epoch, target)
            original(self_, target, message)

        return send

    def _around_persist(self, original: Method) -> Method:
        def write_quorum_state(disk: Any, path: str, state: Any) -> None:
            # Before it is done: a crash in the middle may leave it on the disk.
            node = running_owner()
            if node is not None:
                self._judge.quorum_state_persisted(node, state)
            stored = False
            try:
                original(disk, path, state)
                stored = running_owner() == node
            finally:
                if node is not None and not stored:  # its disk failed, or it ended in the middle
                    self._judge.quorum_state_unsure(node)

        return write_quorum_state

    def _around_commit(self, original: Method) -> Method:
        def commit(applying: Applying, high_watermark: int) -> None:
            node = running_owner()
            if node is not None:
                self._judge.quorum_high_watermark(node, high_watermark)
            original(applying, high_watermark)

        return commit

    def _around_append(self, original: Method) -> Method:
        def append(log: MetadataLog, entries: tuple[LogEntry, ...]) -> None:
            node = running_owner()
            if node is not None:
                for entry in entries:
                    self._judge.metadata_appended(node, entry)
            original(log, entries)

        return append

    def _around_truncate(self, original: Method) -> Method:
        def truncate_to(log: MetadataLog, offset: int) -> None:
            original(log, offset)
            node = running_owner()
            if node is not None:
                self._judge.metadata_truncated(node, offset, self._high_watermark(node))

        return truncate_to

    def _around_write_snapshot(self, original: Method) -> Method:
        def write_snapshot(log: MetadataLog, snapshot: Any, records: Any, control: Any) -> None:
            node = running_owner()
            if node is not None:
                high_watermark = self._high_watermark(node)
                self._judge.snapshot_taken(node, snapshot.end_offset, records, high_watermark)
            original(log, snapshot, records, control)

        return write_snapshot

    def _around_install(self, original: Method) -> Method:
        def install_snapshot(self_: QuorumMember, effect: Any) -> None:
            original(self_, effect)
            life = self._life()
            if life is not None:
                image = _installed(self_, effect.snapshot, life.controller)
                end_offset = effect.snapshot.end_offset
                self._judge.snapshot_installed(self_.node_id, end_offset, image)

        return install_snapshot

    def _life(self) -> Life | None:
        node = running_owner()
        return None if node is None else self._view.lives.get(node)

    def _high_watermark(self, node: int) -> int:
        life = self._view.lives[node]
        assert life is not None, f"node {node} does not run"
        assert life.quorum is not None, f"node {node} has a log and takes no part"
        return life.quorum.high_watermark

    # -- controllers

    def _around_controller(self, original: Method) -> Method:
        def make(controller: Controller, *arguments: Any, **named: Any) -> None:
            original(controller, *arguments, **named)
            life = self._life()
            if life is not None:
                life.controller = controller

        return make

    def _around_claim(self, original: Method) -> Method:
        def claim(controller: Controller, epoch: int, next_offset: int, now_ms: int) -> Any:
            if running_owner() is not None:
                self._judge.controller_claimed(controller.node_id, epoch)
            return original(controller, epoch, next_offset, now_ms)

        return claim

    def _around_renounce(self, original: Method) -> Method:
        def renounce(controller: Controller, now_ms: int) -> Any:
            was_active, epoch = controller.active, controller.epoch
            effects = original(controller, now_ms)
            if was_active and running_owner() is not None:
                self._judge.controller_renounced(controller.node_id, epoch, controller)
            return effects

        return renounce

    def _around_gone(self, original: Method) -> Method:
        def on_broker_gone(
            controller: Controller, broker_id: int, broker_epoch: int, now_ms: int
        ) -> Any:
            effects = original(controller, broker_id, broker_epoch, now_ms)
            if effects and controller.current is not None and running_owner() is not None:
                incarnation_id = controller.current.brokers[broker_id].incarnation_id
                self._judge.fenced_by_hint(controller.node_id, broker_id, incarnation_id)
            return effects

        return on_broker_gone

    def _around_settle(self, original: Method) -> Method:
        def settle(asked: OpenRequest, index: int, response: Any) -> None:
            step, node = asked._steps[index], running_owner()
            is_new = asked._responses[index] is None and not isinstance(step, Refused)
            if is_new and node is not None:
                self._judge.controller_answered(node, step, response)
            original(asked, index, response)

        return settle

    def _around_lifecycle(self, original: Method) -> Method:
        def make(lifecycle: BrokerLifecycle, *arguments: Any, **named: Any) -> None:
            original(lifecycle, *arguments, **named)
            life = self._life()
            if life is not None:
                life.incarnation_id = lifecycle.incarnation_id

        return make


def _installed(
    quorum: QuorumMember, snapshot: m.SnapshotId, controller: Controller | None
) -> MetadataImage:
    """What the controller made of a snapshot; of a node without one, what it was given."""
    if controller is not None:
        return controller.committed
    image = MetadataImage()
    for record in cast("tuple[MetadataRecord, ...]", quorum._log.read_snapshot(snapshot)):
        replay(image, record)
    return image
