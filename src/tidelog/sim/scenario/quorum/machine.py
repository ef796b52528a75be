"""A machine of the quorum: a disk that survives and a process that may be gone.

Where a story has controllers and brokers, the process is a production node. Where it has not, it
is production's `QuorumMember` alone: a whole node would write records of its own into the log.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from tidelog.broker.replication.replicas import Replicas
from tidelog.config.node_config import NodeConfig
from tidelog.core import events
from tidelog.core.metadata import records as r
from tidelog.core.metadata.controller import Controller
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.quorum.messages import LeaderChange, SnapshotId, VoterKey
from tidelog.core.quorum.node import QuorumNode
from tidelog.core.types import NO_LEADER, LogEntry
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import Entropy
from tidelog.node.life import STOPPED, until_the_end
from tidelog.node.node import Node
from tidelog.quorum import committed_mark
from tidelog.quorum.entry_codec import KafkaEntryCodec
from tidelog.quorum.member import QUORUM_STATE_PATH, QuorumMember
from tidelog.quorum.membership import QuorumMembership
from tidelog.rpc import ApiTable, serve
from tidelog.sim.disk import SimDisk
from tidelog.sim.disk_state import SyncDirectory
from tidelog.sim.nodes.cluster import DATA
from tidelog.sim.nodes.loop import VirtualLoop
from tidelog.sim.nodes.loop_work import Trap
from tidelog.sim.scenario.process import CLUSTER_ID, StoryServer, controller_address
from tidelog.sim.scenario.quorum.messages import log_text
from tidelog.sim.scenario.script import ArgumentError
from tidelog.storage.committed_offset import write_committed_offset
from tidelog.storage.config import LogConfig
from tidelog.storage.guarded_disk import guard
from tidelog.storage.metadata_log import DIRECTORY, MetadataLog
from tidelog.storage.quorum_state_file import (
    StoredQuorumState,
    read_quorum_state,
    write_quorum_state,
)
from tidelog.wire.protocol import Listener

if TYPE_CHECKING:
    from tidelog.sim.scenario.quorum.stage import QuorumStage

BEFORE_VOTE, AFTER_VOTE, AFTER_SNAPSHOT = (
    "before-storing-vote",
    "after-storing-vote",
    "after-snapshot",
)
REGISTRATION_MS = 1000
TRAPS = (BEFORE_VOTE, AFTER_VOTE, AFTER_SNAPSHOT)
"""Moments inside one step of a process at which a story may let it die."""
FOR_EVER_US = 1 << 60
EVERYTHING = 1 << 30


def stored_log(disk: SimDisk) -> MetadataLog:
    """As it lies there: what a crash interrupted is not finished."""
    disk.make_dir(DIRECTORY)
    log = MetadataLog(guard(disk), KafkaEntryCodec(), LogConfig(), None)
    log._load_entries()
    return log


class StageEntropy:
    """Node n always draws an election timeout of 1 s + n · 100 ms."""

    __slots__ = ("_address", "_stage")

    def __init__(self, stage: QuorumStage, address: int) -> None:
        self._stage = stage
        self._address = address

    def below(self, limit: int) -> int:
        if limit < 1000:
            return limit // 2  # a jitter, not a timeout
        return 0 if self._address == self._stage.campaigner else 100 * min(self._address, 9)

    def uuid(self) -> bytes:
        return self._stage.make_uuid()


class QuorumServer(StoryServer):
    """The process of a machine."""

    __slots__ = ("_machine", "disk_is_slow", "member")

    def __init__(self, machine: Machine, config: NodeConfig) -> None:
        stage = machine.stage
        super().__init__(stage.kernel, stage.wires, config, machine.address)
        self._machine = machine
        self.disk_is_slow = False
        self.member: QuorumMember | None = None

    async def _main(self, loop: VirtualLoop) -> None:
        network = self._make_network(loop)
        host = NodeHost(
            self.clock,
            network.wheel,
            network,
            self._make_entropy(),
            partial(self._hear, loop),
            filesystem=self.files,
            make_workers=self._make_workers,
        )
        if self._machine.stage.has_controllers:
            await self._run_node(host, loop)
        else:
            await self._run_member(host)

    def _hear(self, loop: VirtualLoop, event: events.Event) -> None:
        if loop.alive:
            self._machine.on_event(event)

    async def _run_node(self, host: NodeHost, loop: VirtualLoop) -> None:
        self.node = node = Node(self.config, host)
        self.member = node.quorum
        node.quorum.listeners.insert(0, self._machine)
        node.quorum.listeners.append(AfterCommit(self._machine))
        if node.controller is not None:
            # Stories count offsets: their clusters begin without what later releases brought.
            node.controller.core.settings.features = ()
        if node.broker is not None:
            # It would stop after two sessions; stories wait longer.
            node.broker.link.registering.on_seat_taken = _wait_for_the_seat
            node.broker.changes._replicas = cast(Replicas, NoReplicas())
        await node.start(partial(self._on_ready, loop))
        assert self._stop is not None, "it has not begun"
        if await until_the_end(node, self._stop) == STOPPED:
            self._kernel.call_in(0, self.machine.owner, self._exit, node)
            return
        self._machine.note(f"stops: {await node.failed()}")
        loop.call_soon(self._machine.crash)

    async def _run_member(self, host: NodeHost) -> None:
        stage, machine = self._machine.stage, self._machine
        membership = QuorumMembership(
            self.node_id, machine.directory_id, CLUSTER_ID, stage.voter_addresses, stage.settings
        )
        self.member = member = QuorumMember.open(membership, self.files.open(DATA), host)
        member.listeners.append(machine)
        member.on_failure = machine.on_failure
        table = ApiTable(Listener.CLUSTER, member.handlers)
        accept = serve(table, "CONTROLLER", on_closed=member.on_connection_closed)
        await host.network.listen(*controller_address(self.owner), accept)
        member.start()
        self.ready = True

    def _end(self, *, power_lost: bool) -> None:
        self.member = None
        super()._end(power_lost=power_lost)

    def _make_entropy(self) -> Entropy:
        return StageEntropy(self._machine.stage, self.owner)

    def _work_us(self) -> int:
        return FOR_EVER_US if self.disk_is_slow else 0


class NoReplicas:
    """Brokers of these stories host nothing: what they are told of, they know."""

    works_beside_the_loop = False

    def publish(self, touched: object) -> None: ...
    def tell_about_brokers(self) -> None: ...


def _wait_for_the_seat(_: Exception) -> None:
    """Another process has this node's id, and this one goes on asking."""


class Machine:
    """Hears what its process commits, as a `MetadataListener`."""

    def __init__(self, stage: QuorumStage, address: int, node_id: int, name: str) -> None:
        self.stage = stage
        self.address = address
        self.name = name
        self.is_broker = False
        self.directory_id = (1 << 64 | address << 16).to_bytes(16, "big")
        self.server = QuorumServer(self, stage.config_for(self, node_id))
        self.server.report_to(lambda node_id, event: None, self._on_problem)
        self.applied: list[object] = []
        self.committed_offset = 0
        self._began_told = True
        self._began: StoredQuorumState | None = None
        self._log_seen: tuple[LogEntry, ...] = ()
        self._snapshot_seen: SnapshotId | None = None
        self._start_seen = 0

    # -- looking at it

    @property
    def node_id(self) -> int:
        return self.server.node_id

    @property
    def member(self) -> QuorumMember | None:
        return self.server.member

    @property
    def node(self) -> QuorumNode | None:
        """The quorum's part of it, if it runs."""
        return None if self.member is None else self.member._node

    @property
    def running(self) -> QuorumNode:
        assert self.node is not None, f"{self.name} is down"
        return self.node

    @property
    def key(self) -> VoterKey:
        return VoterKey(self.node_id, self.directory_id)

    @property
    def log(self) -> MetadataLog:
        """On its disk, if it does not run."""
        if self.member is not None:
            return self.member._log
        return stored_log(self.server.files.open(DATA).copy())

    @property
    def stored(self) -> StoredQuorumState:
        stored = read_quorum_state(self.server.files.open(DATA), QUORUM_STATE_PATH)
        return stored or StoredQuorumState(0, -1, None)

    @property
    def entries(self) -> tuple[LogEntry, ...]:
        log = self.log
        return log.entries_from(log.log_start_offset, EVERYTHING)

    def note(self, text: str) -> None:
        self.stage.note(self, text)

    # -- life

    def write_epoch(self, epoch: int) -> None:
        """The last one that this voter has heard of."""
        disk = self.server.files.open(DATA)
        disk.make_dir(DIRECTORY)
        write_quorum_state(disk, QUORUM_STATE_PATH, (epoch, NO_LEADER, None))

    def start(self) -> None:
        self._began_told, self._began = self.is_broker, self.stored
        self.applied, self.committed_offset = [], 0
        self._see_log()
        self.server.start()
        self.stage.settle()
        self.tell_start(None)

    def tell_start(self, role: str | None) -> None:
        """Before anything else that the new process does."""
        if self._began_told or self.node is None:
            return
        self._began_told = True
        assert self._began is not None, "a process that did not begin"
        latest, start = self.log.latest_snapshot, self.log.log_start_offset
        if latest is not None and start > self._start_seen:
            self.note(f"drops its log and starts at snapshot={tuple(latest)}")
            self._log_seen, self._start_seen, self._snapshot_seen = (), start, latest
        self.note(f"starts as {role or self.node.role} in epoch={self._began.epoch}")
        self.notice()

    def start_serving(self) -> None:
        """A broker starts, and a moment passes in which it may register and be unfenced."""
        if self.address == self.node_id:  # a second process of a node finds its machine running
            self.stage.wires.booting = self.address
        self.start()
        self.stage.wires.booting = None
        self.stage.run_until(self.stage.now_ms + REGISTRATION_MS, lambda: self.server.ready)

    def crash(self, *, lose_tail: bool = False) -> None:
        """The process is gone. With the power also what was not synced."""
        durable = self.log.durable_offset
        self.server.disk_is_slow = False
        if self.member is not None:
            committed = self.member._committed_offset()  # the mark had just been written
            write_committed_offset(self.server.files.open(DATA), committed_mark.PATH, committed)
        self.server.kill()
        self.stage.on_gone(self)
        if lose_tail:
            log = MetadataLog.open(self.server.files.open(DATA), KafkaEntryCodec())
            log.truncate_to(durable)
            log.close()

    def on_failure(self, error: Exception) -> None:
        self.note(f"stops: {error}")
        self.stage.later(self.server.kill)

    def set_trap(self, name: str) -> None:
        kinds = () if name == BEFORE_VOTE else (SyncDirectory,)
        self.server.set_trap(Trap(partial(self._spring, name), 0, kinds))

    def _spring(self, name: str) -> None:
        stored, snapshot = self.stored, self._stored_snapshot()
        too_early = stored.voted is None if name == AFTER_VOTE else snapshot is None
        if name != BEFORE_VOTE and too_early:
            self.set_trap(name)  # something else has changed
            return
        if name == AFTER_VOTE and stored.voted is not None:
            self.note(f"stores its vote for {stored.voted.node_id} in epoch={stored.epoch}")
        elif name == AFTER_SNAPSHOT:
            self.note(f"stores snapshot={tuple(cast(SnapshotId, snapshot))}")
        self.note("dies")
        self.server.crash_now(power_lost=False)

    def _stored_snapshot(self) -> SnapshotId | None:
        return stored_log(self.server.files.open(DATA).copy()).latest_snapshot

    # -- what it does, noticed from outside

    def notice(self) -> None:
        """What has become of its log and of what it knows to be committed."""
        if self.member is None or self.node is None or not self._began_told:
            return
        log = self.member._log
        if log.log_end_offset != self._end_seen or log.latest_snapshot != self._snapshot_seen:
            self._tell_log(log)
        before, now = self.committed_offset, self.node.high_watermark
        if now > before and self.node.role == "leader" and self.stage.tells_entries:
            self.note(f"high-watermark {before} -> {now}")
        self.committed_offset = max(before, now)

    @property
    def _end_seen(self) -> int:
        return self._log_seen[-1].next_offset if self._log_seen else self._start_seen

    def _tell_log(self, log: MetadataLog) -> None:
        seen, snapshot = self._log_seen, log.latest_snapshot
        end = self._end_seen
        installed = snapshot != self._snapshot_seen and snapshot is not None
        if (installed and snapshot is not None and snapshot.end_offset > end) or (
            installed and log.log_start_offset > end
        ):
            self.note(f"installs snapshot={tuple(cast(SnapshotId, snapshot))}")
            seen = ()
        entries = log.entries_from(log.log_start_offset, EVERYTHING)
        self._see_log()
        if self.is_broker or (self.node is not None and self.node.role == "leader"):
            return
        kept = {entry.offset: entry for entry in entries}
        gone = [e for e in seen if e.offset >= log.log_start_offset and kept.get(e.offset) != e]
        if gone:
            self.note(f"truncate {end} -> {gone[0].offset}")
        known = {entry.offset: entry for entry in seen}
        new = [e for e in entries if known.get(e.offset) != e]
        telling = [e for e in new if not isinstance(e.records[0], LeaderChange)]
        if telling and self.stage.tells_entries:
            self.note(f"append {log_text(telling)}")

    def _see_log(self) -> None:
        log = self.log
        self._start_seen, self._snapshot_seen = log.log_start_offset, log.latest_snapshot
        self._log_seen = log.entries_from(log.log_start_offset, EVERYTHING)

    def _on_problem(self, node_id: int, text: str) -> None:
        self.stage.problems.append(f"{self.name}: {text}")

    def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.QuorumLeaderElected):
            self.tell_start(None)
            self.stage.history.on_elected(self.address, event.leader_epoch)
            self.note(f"leads epoch={event.leader_epoch} from offset={event.start_offset}")
        elif isinstance(event, events.QuorumRoleChanged):
            self.tell_start(event.previous)
            self._tell_role(event)
        elif isinstance(event, events.ControllerClaimed):
            self.note(f"is the active controller in epoch={event.controller_epoch}")
        elif isinstance(event, events.ControllerRenounced):
            self.stage.wires.after_turns(4, lambda: self.note("is no longer the active controller"))

    def _tell_role(self, event: events.QuorumRoleChanged) -> None:
        epoch = f"epoch={event.leader_epoch}"
        if self.is_broker or not self.running.is_voter:
            return
        if event.role == "prospective":
            self.note(f"asks for pre-votes in {epoch}")
        elif event.role == "candidate":
            self.note(f"candidate in {epoch}")
        elif event.role == "resigned":
            self.note(f"resigns from {epoch}")
        elif event.previous == "prospective":
            self.note("gives up" if event.role == "unattached" else "goes back to its leader")
        elif event.previous in ("candidate", "leader", "resigned") and event.role != "leader":
            led_by = f" led by {self.running.leader_id}" if event.role == "follower" else ""
            self.note(f"{event.role} in {epoch}{led_by}")

    def is_heard(self) -> bool:
        """Whether the active controller knows a connection of this broker."""
        active = self.stage.active_machine()
        node = None if active is None else active.server.node
        controller = None if node is None else node.controller
        return controller is not None and self.node_id in controller.liveness._heard_on

    # -- orders

    def append(self, records: tuple[r.MetadataRecord, ...]) -> int:
        member = self._member()
        offsets: list[int] = []
        assert self.server.loop is not None, f"{self.name} is down"
        self.server.loop.perform(lambda: offsets.append(member.append(records)))
        return offsets[0]

    def hand_over(self) -> None:
        """What a voter does first when it is told to stop."""
        member, node = self._member(), self.running
        assert self.server.loop is not None, f"{self.name} is down"
        self.server.loop.perform(lambda: member._step(lambda: node.shutdown(self.stage.now_ms)))

    def change_voters(self, change: str, key: VoterKey) -> str:
        """The error, or nothing."""
        member, node, now_ms = self._member(), self.running, self.stage.now_ms
        told: list[str] = []

        def decide() -> None:
            error, effects = getattr(node, change)(key, now_ms)
            member._perform(effects)
            told.append(error.name if error else "")

        assert self.server.loop is not None, f"{self.name} is down"
        self.server.loop.perform(decide)
        return told[0]

    def take_snapshot(self) -> None:
        """Of everything that is known to be committed; the log before it is dropped."""
        member, node, log = self._member(), self.running, self.log
        end_offset = member.applied_offset
        snapshot = SnapshotId(end_offset, log.epochs.epoch_at(end_offset - 1))
        if not node.snapshot_allowed(snapshot):
            raise ArgumentError(f"{self.name} may not take a snapshot at {end_offset}")
        assert member.snapshot_source is not None, "start gives one"
        control = node.snapshot_control_records(end_offset)
        log.write_snapshot(snapshot, member.snapshot_source(), control)
        self._see_log()
        self.note(f"takes snapshot={tuple(snapshot)}, log starts at {log.log_start_offset}")

    def _member(self) -> QuorumMember:
        assert self.member is not None, f"{self.name} is down"
        return self.member

    # -- MetadataListener

    @property
    def controller(self) -> Controller | None:
        node = self.server.node
        return None if node is None or node.controller is None else node.controller.core

    @property
    def image(self) -> MetadataImage:
        """The committed metadata as its process knows it."""
        node = self.server.node
        if node is not None and node.broker is not None:
            return node.broker.image
        if self.controller is None:
            raise ArgumentError(f"{self.name} keeps no metadata")
        return self.controller.committed

    def on_committed(self, entry: LogEntry) -> None:
        self.stage.history.on_committed(self.address, entry)
        if not entry.control:
            self.applied += entry.records
        if self.controller is not None and self.controller.active:
            self.stage.telling.remember(self.controller, entry)

    def on_snapshot(self, records: tuple[r.MetadataRecord, ...], end_offset: int) -> None:
        self.applied = list(records)
        self.committed_offset = max(self.committed_offset, end_offset)

    def on_applied(self, offset: int) -> None: ...
    def on_claimable(self, epoch: int, next_offset: int) -> None: ...
    def on_lost(self, epoch: int) -> None: ...


class AfterCommit:
    """Told after the controller of its node has heard of an entry."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def on_committed(self, entry: LogEntry) -> None:
        controller = self._machine.controller
        if controller is not None and controller.active and not entry.control:
            self._machine.stage.telling.tell(controller, entry)

    def on_snapshot(self, records: tuple[r.MetadataRecord, ...], end_offset: int) -> None: ...
    def on_applied(self, offset: int) -> None: ...
    def on_claimable(self, epoch: int, next_offset: int) -> None: ...
    def on_lost(self, epoch: int) -> None: ...
