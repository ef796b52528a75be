"""Members of a metadata quorum in one event loop, over real sockets and real files."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from tidelog.core.events import Event
from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.quorum.state import QuorumSettings
from tidelog.core.types import LogEntry
from tidelog.host.clock import SystemClock
from tidelog.host.disk import FileDisk
from tidelog.host.entropy import SystemEntropy
from tidelog.host.network import TcpNetwork
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import CloseReason, Listener, PeerConnection, RequestHandler
from tidelog.quorum import QuorumMember, QuorumMembership
from tidelog.rpc import ApiTable, serve
from tidelog.wire.protocol import Listener as ListenerKind

HOST = "127.0.0.1"
CLUSTER_ID = "live-quorum-cluster-01"
STOP_MS = 1_000

BRISK = QuorumSettings(
    election_timeout_ms=150,
    fetch_timeout_ms=600,
    election_backoff_max_ms=100,
    fetch_max_wait_ms=100,
    request_timeout_ms=500,
    retry_backoff_ms=10,
    campaign_stagger_ms=50,
    probe_interval_ms=20,
)


async def until(condition: Callable[[], bool]) -> None:
    """Whoever runs the story bounds it; there is no event for "somebody leads"."""
    while not condition():
        await asyncio.sleep(0.005)


class Journal:
    """A listener that remembers what it was told."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.snapshots: list[tuple[tuple[MetadataRecord, ...], int]] = []
        self.applied_offset = 0
        self.claims: list[tuple[int, int]] = []
        self.losses: list[int] = []

    @property
    def records(self) -> list[object]:
        """Everything since the start or since the last snapshot, without control records."""
        return [record for entry in self.entries if not entry.control for record in entry.records]

    def on_committed(self, entry: LogEntry) -> None:
        if self.entries:
            assert entry.offset == self.entries[-1].next_offset, (self.entries[-1], entry)
        self.entries.append(entry)

    def on_snapshot(self, records: tuple[MetadataRecord, ...], end_offset: int) -> None:
        self.snapshots.append((records, end_offset))
        self.entries.clear()

    def on_applied(self, offset: int) -> None:
        assert offset >= self.applied_offset, (offset, self.applied_offset)
        self.applied_offset = offset

    def on_claimable(self, epoch: int, next_offset: int) -> None:
        self.claims.append((epoch, next_offset))

    def on_lost(self, epoch: int) -> None:
        self.losses.append(epoch)


class LiveMember:
    """One node: the place of a process, with a disk that outlives it."""

    def __init__(self, quorum: "LiveQuorum", node_id: int, directory: Path) -> None:
        directory.mkdir()
        self.quorum = quorum
        self.node_id = node_id
        self.directory = directory
        self.port = 0
        self.events: list[Event] = []
        self.failures: list[Exception] = []
        self.journal = Journal()
        self.running = False
        self._listener: Listener | None = None
        self._network: TcpNetwork | None = None
        self._accept: Callable[[PeerConnection], RequestHandler] | None = None
        self.member: QuorumMember

    async def listen(self) -> None:
        """Before it takes part: only then are the addresses of all voters known."""
        self._network = TcpNetwork(SystemClock())
        self._listener = await self._network.listen(HOST, self.port, self._on_connection)
        self.port = self._listener.port

    def _on_connection(self, connection: PeerConnection) -> RequestHandler:
        assert self._accept is not None, f"node {self.node_id} is asked before it started"
        return self._accept(connection)

    def begin(self) -> None:
        self.prepare()
        self.member.start()
        self.running = True

    def prepare(self) -> None:
        """Everything but to take part."""
        assert self._network is not None
        network = self._network
        host = NodeHost(
            network.wheel.clock, network.wheel, network, SystemEntropy(), self.events.append
        )
        disk = FileDisk(self.directory)
        self.member = QuorumMember.open(self.quorum.place(self.node_id), disk, host)
        self.journal = Journal()
        self.member.listeners.append(self.journal)
        self.member.on_failure = self.failures.append
        table = ApiTable(ListenerKind.CLUSTER, self.member.handlers)
        self._accept = serve(table, "CONTROLLER", on_closed=self._on_closed)

    def _on_closed(self, connection: PeerConnection, reason: CloseReason) -> None:
        self.member.on_connection_closed(connection, reason)

    async def start(self) -> None:
        await self.listen()
        self.begin()

    async def stop(self) -> None:
        """In good order."""
        if self.running:
            await self.member.stop()
        await self._leave()

    async def crash(self) -> None:
        """Nobody is told; what was not synced may be there or not."""
        self.member.halt()
        await self._leave()

    async def _leave(self) -> None:
        self.running = False
        if self._listener is not None:
            await self._listener.stop(timeout_ms=STOP_MS)
            self._listener = None
        if self._network is not None:
            self._network.close()
            self._network = None

    def append(self, *records: MetadataRecord) -> int:
        return self.member.append(records)


class LiveQuorum:
    def __init__(
        self,
        directory: Path,
        *,
        voters: int = 3,
        observers: int = 0,
        settings: QuorumSettings = BRISK,
        snapshot_every_records: int = 10_000,
    ) -> None:
        self.settings = settings
        self.snapshot_every_records = snapshot_every_records
        self.voters = range(1, voters + 1)
        self.nodes = {
            node_id: LiveMember(self, node_id, directory / f"node-{node_id}")
            for node_id in range(1, voters + observers + 1)
        }

    def place(self, node_id: int) -> QuorumMembership:
        return QuorumMembership(
            node_id=node_id,
            directory_id=node_id.to_bytes(16, "big"),
            cluster_id=CLUSTER_ID,
            voters={voter: (HOST, self.nodes[voter].port) for voter in self.voters},
            settings=self.settings,
            snapshot_every_records=self.snapshot_every_records,
        )

    async def __aenter__(self) -> "LiveQuorum":
        for node in self.nodes.values():
            await node.listen()
        for node in self.nodes.values():
            node.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self.nodes.values():
            await node.stop()

    @property
    def running(self) -> list[LiveMember]:
        return [node for node in self.nodes.values() if node.running]

    async def leader(self) -> LiveMember:
        """Whoever may be active controller and is followed by all that run."""
        await until(lambda: self._agreed() is not None)
        agreed = self._agreed()
        assert agreed is not None
        return agreed

    def _agreed(self) -> LiveMember | None:
        for node in self.running:
            epoch = node.member.leader_epoch
            claimed = bool(node.journal.claims) and node.journal.claims[-1][0] == epoch
            if node.member.leads and claimed and self._all_follow(node.node_id, epoch):
                return node
        return None

    def _all_follow(self, leader_id: int, epoch: int) -> bool:
        return all(
            (each.member.leader_id, each.member.leader_epoch) == (leader_id, epoch)
            for each in self.running
        )

    async def all_applied(self, offset: int) -> None:
        await until(lambda: all(each.journal.applied_offset >= offset for each in self.running))
