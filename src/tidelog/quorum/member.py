"""A member of the metadata quorum: `core.quorum.QuorumNode` with a log, a network and a clock.

The core decides, this performs, in the order the effects are listed (`core.quorum.effects`).
Whatever goes wrong while an effect is performed is fatal: the core takes it for done, so a member
that carried on would keep promises it has not written down. It halts and says so to `on_failure`.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from tidelog.core.errors import Error
from tidelog.core.failover import Suspicion, confirms_death, suspect
from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.quorum import effects as q
from tidelog.core.quorum import messages as m
from tidelog.core.quorum.leader import Progress
from tidelog.core.quorum.log_view import SnapshotContent
from tidelog.core.quorum.node import QuorumNode
from tidelog.core.quorum.state import NEVER_MS, QuorumLostLog, QuorumState
from tidelog.core.quorum.voters import Voters
from tidelog.core.types import NO_LEADER, NO_OFFSET, LogEntry
from tidelog.host import tasks
from tidelog.host.failures import CannotGoOn
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import (
    CloseReason,
    ConnectionClosed,
    Disk,
    NetworkError,
    PeerConnection,
    PeerRefused,
    PeerReset,
)
from tidelog.host.timers import Timer
from tidelog.quorum.applying import Applying
from tidelog.quorum.committed_image import CommittedImage
from tidelog.quorum.committed_mark import CommittedMark
from tidelog.quorum.conversations import FETCHES, ParkedCalls, Questions
from tidelog.quorum.describe import (
    UNKNOWN_TIME_MS,
    QuorumDescription,
    ReplicaDescription,
    describe_response,
)
from tidelog.quorum.entry_codec import KafkaEntryCodec
from tidelog.quorum.listener import MetadataListener
from tidelog.quorum.membership import Address, QuorumMembership
from tidelog.quorum.probing import probe
from tidelog.quorum.translate import Speaker, request_from_wire
from tidelog.quorum.translate_answers import (
    refusal,
    response_from_wire,
    response_to_wire,
    wrong_partition,
)
from tidelog.rpc import Answer, Call, Handler
from tidelog.storage.metadata_log import DIRECTORY, MetadataLog
from tidelog.storage.pending_sync import PendingSync
from tidelog.storage.quorum_state_file import FILE_NAME, read_quorum_state, write_quorum_state
from tidelog.wire.protocol import ProtocolError
from tidelog.wire.protocol.schemas.describe_quorum_request import DescribeQuorumRequest
from tidelog.wire.records import InvalidBatch

FETCH, VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH = 1, 52, 53, 54
DESCRIBE_QUORUM, FETCH_SNAPSHOT = 55, 59

QUORUM_STATE_PATH = f"{DIRECTORY}/{FILE_NAME}"
PROBE_TIMEOUT_MS = 1_000
FAREWELL_MS = 500
"""How long a member that stops waits for the others to hear that it resigned."""

LOST_LOG_ADVICE = (
    'do not format this node: it may have the last copy. See "A quorum that lost its log" in '
    "docs/operations.md"
)

Decision = Callable[[], Sequence[Any]]


class MemberFailed(Exception):  # noqa: N818 - it says what happened to the member
    """The member had to halt, for the reason that is this exception's cause."""


class QuorumMember:
    """Voter or observer; one per node. All of it runs on the event loop, but the log's syncs."""

    __slots__ = (
        "_applying",
        "_armed_ms",
        "_codec",
        "_disk",
        "_host",
        "_log",
        "_mark",
        "_node",
        "_parked",
        "_place",
        "_probes",
        "_questions",
        "_running",
        "_snapshot_offset",
        "_sync_scheduled",
        "_syncer",
        "_syncing",
        "_timer",
        "failure",
        "handlers",
        "listeners",
        "on_failure",
        "snapshot_source",
    )

    def __init__(
        self,
        place: QuorumMembership,
        log: MetadataLog,
        disk: Disk,
        host: NodeHost,
        *,
        codec: KafkaEntryCodec | None = None,
    ) -> None:
        """`codec` is the log's own, so that entries are sent as the bytes they are stored as."""
        self._place = place
        self._log = log
        self._disk = disk
        self._host = host
        self._codec = codec or KafkaEntryCodec()
        speaker = self._speaker
        client_id = f"quorum-{place.node_id}"
        self._parked = ParkedCalls(speaker)
        self._questions = Questions(
            host.to_controllers, speaker, place.settings, client_id, self._on_outcome
        )
        self._node: QuorumNode | None = None
        self._syncer = host.make_workers("metadata-sync", 1)
        self._mark = CommittedMark(disk, host, self._syncer, self._fail)
        self._running = False
        self._armed_ms = 0
        self._timer: Timer | None = None
        self._sync_scheduled = False
        self._syncing: asyncio.Future[None] | None = None
        self._probes: dict[int, asyncio.Task[None]] = {}
        self._snapshot_offset = 0
        self.failure: Exception | None = None
        self.listeners: list[MetadataListener] = []
        self._applying = Applying(
            log, self.listeners, host.network.soon, self._apply, self._on_caught_up
        )
        self.snapshot_source: Callable[[], tuple[MetadataRecord, ...]] | None = None
        """The committed image as of `applied_offset`. Without one the member keeps its own."""
        self.on_failure: Callable[[Exception], None] | None = None
        """Told when the member had to stop: the process must end and start again."""
        self.handlers: dict[int, Handler] = {
            FETCH: self._on_request,
            VOTE: self._on_request,
            BEGIN_QUORUM_EPOCH: self._on_request,
            END_QUORUM_EPOCH: self._on_request,
            DESCRIBE_QUORUM: self._on_describe,
            FETCH_SNAPSHOT: self._on_request,
        }

    @classmethod
    def open(cls, place: QuorumMembership, disk: Disk, host: NodeHost) -> "QuorumMember":
        """With the log that is on this disk, or a new one."""
        codec = KafkaEntryCodec()
        log = MetadataLog.open(disk, codec, clock=host.clock)
        return cls(place, log, disk, host, codec=codec)

    # What others may see -----------------------------------------------------------------

    @property
    def node_id(self) -> int:
        return self._place.node_id

    @property
    def leader_id(self) -> int:
        """Who leads, as far as this node knows; -1 if nobody."""
        return NO_LEADER if self._node is None or not self._running else self._node.leader_id

    @property
    def leader_epoch(self) -> int:
        return 0 if self._node is None else self._node.epoch

    @property
    def role(self) -> str:
        return "not started" if self._node is None else self._node.role

    @property
    def leads(self) -> bool:
        return self._running and self._quorum.role == "leader"

    @property
    def high_watermark(self) -> int:
        return NO_OFFSET if self._node is None else self._node.high_watermark

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    def last_entries(self, count: int) -> tuple[LogEntry, ...]:
        """The end of the log, also what is not committed yet."""
        first = max(self._log.log_start_offset, self._log.log_end_offset - count)
        return tuple(self._log.entries_from(first, count))

    def leader_address(self) -> Address | None:
        """Where the active controller listens; None while nobody is known to lead."""
        return self._place.voters.get(self.leader_id)

    # Life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Read what this node promised, tell the listeners (they are added before) what is on
        disk, begin to take part. MemberFailed, CorruptFile or an OSError if the disk is bad."""
        assert self._node is None, f"member {self.node_id} was started before"
        if self.snapshot_source is None:
            committed = CommittedImage()
            self.listeners.insert(0, committed)
            self.snapshot_source = committed.records
        self._node = self._make_node()
        self._running = True
        if self._log.latest_snapshot is not None:
            self._load_snapshot(self._log.latest_snapshot)
        self._step(lambda: self._quorum.tick(self._host.now_ms()))
        self._check_running()

    def _check_running(self) -> None:
        if not self._running:
            raise MemberFailed(f"member {self.node_id} does not run") from self.failure

    def _make_node(self) -> QuorumNode:
        place, entropy = self._place, self._host.entropy
        stored = read_quorum_state(self._disk, QUORUM_STATE_PATH)
        return QuorumNode(
            key=place.key,
            cluster_id=place.cluster_id,
            voters=place.voter_keys,
            log=self._log,
            stored=QuorumState(0, NO_LEADER, None) if stored is None else QuorumState(*stored),
            settings=place.settings,
            draw_timeout=lambda timeout_ms: timeout_ms + entropy.below(timeout_ms),
            now_ms=self._host.now_ms(),
            snapshot_voters=self._voters_in,
            committed_before=self._mark.read(),
        )

    async def stop(self) -> None:
        """Hand over, make everything durable, close."""
        if not self._running:
            return
        await self._mark.finish(self._committed_offset())
        self._step(lambda: self._quorum.shutdown(self._host.now_ms()))
        with suppress(TimeoutError):
            async with tasks.within(FAREWELL_MS):
                await self._questions.all_answered.wait()
        if self._syncing is not None:
            await asyncio.wait([self._syncing])
        if self._running:  # unless the disk failed in the meantime
            self._leave()
            self._log.close()

    def halt(self) -> None:
        """Stop at once, without a word to anybody and without another write, as in a crash."""
        if self._running:
            self._leave()
            self._log.release()

    def _leave(self) -> None:
        self._running = False
        self._disarm()
        for task in self._probes.values():
            task.cancel()
        self._questions.close()
        self._parked.close()
        self._syncer.close(wait=False)

    def on_connection_closed(self, connection: PeerConnection, _reason: CloseReason) -> None:
        """For `rpc.serve(..., on_closed=)`: nobody waits there for answers any more."""
        self._parked.forget(connection)

    # Deciding and performing -------------------------------------------------------------

    @property
    def _quorum(self) -> QuorumNode:
        assert self._node is not None, f"member {self.node_id} is not started"
        return self._node

    def _step(self, decide: Decision) -> None:
        """One input to the core and everything that follows from it."""
        if not self._running:
            return
        try:
            self._perform(decide())
        except Exception as error:  # the border of a task, timer or connection
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if not self._running:
            return  # it failed inside of this step, and that was told
        if isinstance(error, QuorumLostLog):
            error = CannotGoOn(str(error), advice=LOST_LOG_ADVICE)
        self.failure = error
        self.halt()
        if self.on_failure is not None:
            self.on_failure(error)
            return
        tasks.report(f"member {self.node_id} of the quorum failed", error)

    def _perform(self, effects: Sequence[Any]) -> None:
        claim: q.LeadershipClaimable | None = None
        for effect in effects:
            if not self._running:
                return  # a listener stopped it
            kind = type(effect)
            if kind is q.Send:
                self._send(effect.target, effect.message)
            elif kind is q.CommitAdvanced:
                self._applying.commit(effect.high_watermark)
            elif kind is q.PersistState:
                write_quorum_state(self._disk, QUORUM_STATE_PATH, effect.state)
            elif kind is q.AppendEntries:
                self._log.append(effect.entries)
                self._schedule_sync()
            elif kind is q.TruncateTo:
                self._log.truncate_to(effect.offset)
            elif kind is q.InstallSnapshot:
                self._install_snapshot(effect)
            elif kind is q.LeadershipClaimable:
                claim = effect  # it appends, so it waits until this list is performed
            elif kind is q.LeadershipLost:
                self._tell_lost(effect.epoch)
            else:
                self._host.emit(effect)
        if claim is not None:
            self._applying.then(partial(self._tell_claimable, claim.epoch))
        self._arm()

    def append(self, records: tuple[MetadataRecord, ...]) -> int:
        """Leader only: these records as one atomic entry. Its offset; committed when told so.
        MemberFailed if this node takes part no more."""
        self._check_running()
        base_offset = self._log.log_end_offset

        def decide() -> Sequence[q.Effect]:
            offset, effects = self._quorum.append(records, self._host.now_ms())
            assert offset == base_offset, (offset, base_offset)
            return effects

        self._step(decide)
        self._check_running()
        return base_offset

    def resign(self) -> None:
        """Let another voter lead; nothing happens unless this node does."""
        self._step(lambda: self._quorum.resign(self._host.now_ms()))

    def _tell_claimable(self, epoch: int) -> None:
        next_offset = self._log.log_end_offset
        for listener in self.listeners:
            listener.on_claimable(epoch, next_offset)

    def _tell_lost(self, epoch: int) -> None:
        self._applying.then(None)
        for listener in self.listeners:
            listener.on_lost(epoch)

    # Time --------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Keep one timer at or before the deadline; a timer that comes too early re-arms."""
        deadline_ms = self._quorum.next_deadline_ms
        if not self._running or (self._timer is not None and self._armed_ms <= deadline_ms):
            return
        self._disarm()
        if deadline_ms < NEVER_MS:
            self._armed_ms = deadline_ms
            self._timer = self._host.timers.add(deadline_ms, self._on_timer)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        now_ms = self._host.now_ms()
        if now_ms >= self._quorum.next_deadline_ms:
            self._step(lambda: self._quorum.tick(now_ms))
        self._arm()

    # Messages ----------------------------------------------------------------------------

    @property
    def _speaker(self) -> Speaker:
        place = self._place
        return Speaker(place.cluster_id, place.voters, self._codec, place.listener_name)

    def _send(self, target: int, message: m.QuorumMessage) -> None:
        if isinstance(message, m.QuorumRequest):
            self._questions.ask(target, message)
        else:
            self._parked.answer(target, message, self._host.clock.wall_ms())

    def _on_request(self, call: Call) -> None:
        if not self._running:
            call.close()
            return
        heard = request_from_wire(self._speaker, call.request)
        if heard is None:
            call.answer(wrong_partition(call.request))
            return
        source, message = heard
        if source < 0 or source == self.node_id:
            self._refuse(call, message)
            return
        self._parked.add(source, message, call)
        self._step(lambda: self._quorum.on_message(source, message, self._host.now_ms()))

    def _refuse(self, call: Call, question: m.QuorumRequest) -> None:
        """Somebody without an id, or with ours."""
        response = refusal(question, Error.INVALID_REQUEST)
        call.answer(response_to_wire(self._speaker, response, self._host.clock.wall_ms()))

    def _on_outcome(self, target: int, question: m.QuorumRequest, answer: Answer) -> None:
        if not self._running:
            return
        now_ms = self._host.now_ms()
        if not isinstance(answer, NetworkError):
            try:
                response = response_from_wire(self._speaker, question, answer)
            except (ProtocolError, InvalidBatch) as reason:
                answer = NetworkError(f"node {target} answered nonsense: {reason}")
            else:
                if response.error is Error.INCONSISTENT_CLUSTER_ID:
                    self._questions.note_foreign(target)
                self._step(lambda: self._quorum.on_message(target, response, now_ms))
                return
        self._step(lambda: self._quorum.on_send_failed(target, question, now_ms))
        if isinstance(question, FETCHES):
            self._look_after(target, answer)

    # Leaders that are gone (ADR 0017) ----------------------------------------------------

    def _look_after(self, target: int, error: NetworkError) -> None:
        """A fetch failed as it does when a process dies: connect once more to find out."""
        if target in self._probes or not self._running:
            return
        if not isinstance(error, PeerRefused | PeerReset | ConnectionClosed):
            return
        suspicion = suspect(target, None, self._quorum)
        if suspicion is not None:
            task = tasks.begin(self._probe(suspicion))
            self._probes[target] = task

    async def _probe(self, suspicion: Suspicion) -> None:
        node_id = suspicion.node_id
        try:
            voter = self._place.voters[node_id]
            outcome = await probe(self._host.network, voter, timeout_ms=PROBE_TIMEOUT_MS)
        finally:
            del self._probes[node_id]
        if confirms_death(outcome):
            epoch = suspicion.leader_epoch
            self._step(lambda: self._quorum.on_leader_gone(node_id, epoch, self._host.now_ms()))

    # The log -----------------------------------------------------------------------------

    def _schedule_sync(self) -> None:
        """Soon, for everything that is appended until then, and off the loop."""
        if not self._sync_scheduled:
            self._sync_scheduled = True
            tasks.soon(self._start_sync)

    def _start_sync(self) -> None:
        self._sync_scheduled = False
        if not self._running or self._syncing is not None:
            return  # the one that runs starts another when it ends
        pending = self._log.start_sync()
        if pending is None:
            self._step(lambda: self._quorum.on_durable(self._host.now_ms()))
            return
        self._syncing = self._syncer.run(pending.run)
        self._syncing.add_done_callback(partial(self._finish_sync, pending))

    def _finish_sync(self, pending: PendingSync, future: asyncio.Future[None]) -> None:
        self._syncing = None
        if not self._running:
            return
        self._step(partial(self._synced, pending, future))
        if self._log.durable_offset < self._log.log_end_offset:
            self._schedule_sync()

    def _synced(self, pending: PendingSync, future: asyncio.Future[None]) -> Sequence[q.Effect]:
        error = future.exception()
        if error is not None and not isinstance(error, OSError):
            raise error
        self._log.finish_sync(pending, error)
        return self._quorum.on_durable(self._host.now_ms())

    # Committed metadata ------------------------------------------------------------------

    @property
    def applied_offset(self) -> int:
        """Every entry below it was told to the listeners."""
        return self._applying.offset

    def _apply(self, tell: Callable[[], None]) -> None:
        """One slice of it."""

        def decide() -> Sequence[q.Effect]:
            tell()
            return ()

        self._step(decide)

    def _on_caught_up(self) -> None:
        self._mark.note(self._committed_offset())
        self._maybe_snapshot()

    def _committed_offset(self) -> int:
        return min(self.applied_offset, self._log.durable_offset)

    def _maybe_snapshot(self) -> None:
        """Of committed state only; the log before the previous snapshot is then dropped."""
        offset = self.applied_offset
        if offset - self._snapshot_offset < self._place.snapshot_every_records:
            return
        snapshot = m.SnapshotId(offset, self._log.epochs.epoch_at(offset - 1))
        if not self._quorum.snapshot_allowed(snapshot):
            return
        assert self.snapshot_source is not None, "start gives one"
        control = self._quorum.snapshot_control_records(offset)
        self._log.write_snapshot(snapshot, self.snapshot_source(), control)
        self._snapshot_offset = offset

    def _install_snapshot(self, effect: q.InstallSnapshot) -> None:
        assert isinstance(effect.content, bytes), "chunks of a file"
        self._log.install_snapshot(effect.snapshot, effect.content)
        self._load_snapshot(effect.snapshot)
        self._schedule_sync()

    def _load_snapshot(self, snapshot: m.SnapshotId) -> None:
        records: tuple[Any, ...] = self._log.read_snapshot(snapshot)
        self._snapshot_offset = snapshot.end_offset
        self._applying.start_at(snapshot.end_offset)
        for listener in self.listeners:
            listener.on_snapshot(records, snapshot.end_offset)
        self._applying.tell_applied()

    def _voters_in(self, content: SnapshotContent) -> Voters | None:
        assert isinstance(content, bytes), "chunks of a file"
        _, control = self._codec.decode_snapshot(content)
        for record in control:
            if isinstance(record, m.VotersRecord):
                return record.voters
        return None

    # DescribeQuorum ----------------------------------------------------------------------

    def describe(self) -> QuorumDescription:
        """The quorum as its leader sees it; without replicas on any other node."""
        progress = self._quorum.replicas()
        voters = [self._described(each) for each in progress if each.is_voter]
        if self.leads and self._quorum.is_voter:
            voters.append(self._own_description())
        return QuorumDescription(
            self.leads,
            self.leader_id,
            self.leader_epoch,
            self.high_watermark,
            tuple(sorted(voters)),
            tuple(sorted(self._described(each) for each in progress if not each.is_voter)),
        )

    def _own_description(self) -> ReplicaDescription:
        now_ms = self._host.clock.wall_ms()
        return ReplicaDescription(*self._place.key, self._log.log_end_offset, now_ms, now_ms)

    def _described(self, progress: Progress) -> ReplicaDescription:
        clock = self._host.clock
        wall_offset_ms = clock.wall_ms() - clock.monotonic_ms()

        def wall(at_ms: int) -> int:
            return UNKNOWN_TIME_MS if at_ms <= -NEVER_MS else at_ms + wall_offset_ms

        return ReplicaDescription(
            *progress.key,
            progress.log_end_offset,
            wall(progress.last_fetch_ms),
            wall(progress.last_caught_up_ms),
        )

    def _on_describe(self, call: Call) -> None:
        assert isinstance(call.request, DescribeQuorumRequest), call.request
        if not self._running:
            call.close()
            return
        call.answer(describe_response(call.request, self.describe(), self._place))
