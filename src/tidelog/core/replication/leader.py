"""The leader of one partition (replication.md §4, §6, §8).

The leader appends, followers fetch, and the offset a follower asks for is its acknowledgement
of everything below it. From those offsets the leader derives the high watermark, and from the
time a follower was last caught up its seat in the ISR.

Three rules. A leader never truncates. A fetch that is refused or told to truncate changes
nothing here. The high watermark only moves forward, to an offset that every replica holds
which may be in the ISR.

An object lives for one tenure: from becoming leader until the next become-follower or stop.
After that it refuses everything, so work that outlived the leadership cannot be acknowledged.
"""

from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.events import (
    BecameLeader,
    FetchDiverged,
    HighWatermarkAdvanced,
    IsrChanged,
    IsrProposed,
)
from tidelog.core.metadata.records import RECOVERED
from tidelog.core.replication import isr, reads, selector
from tidelog.core.replication.effects import AnswerProduce, AssignEpoch, Effect, ProposeIsr
from tidelog.core.replication.inputs import (
    ACKS_ALL,
    ACKS_LEADER,
    ACKS_NONE,
    ConsumerFetch,
    FetchDecision,
    FollowerFetch,
    OffsetAnswer,
    ProduceCheck,
    ReplicaView,
)
from tidelog.core.replication.isr import CommittedIsr, IsrState, PendingExpand, PendingShrink
from tidelog.core.replication.parked import ParkedProduces
from tidelog.core.replication.producers import AppendedBatch
from tidelog.core.replication.progress import FollowerProgress
from tidelog.core.replication.state import ReplicaState
from tidelog.core.requests import IsrMember, IsrProposal, IsrResult
from tidelog.core.types import NO_EPOCH, NO_OFFSET, BatchHeader

_APPEND = ProduceCheck(NO_ERROR, None)


class LeaderReplica:
    __slots__ = (
        "isr_state",
        "leader_epoch_start_offset",
        "parked",
        "progress",
        "state",
        "tenure",
    )

    def __init__(self, state: ReplicaState, committed_isr: tuple[int, ...]) -> None:
        assert state.leader == state.broker_id, f"{state.broker_id} leads for {state.leader}"
        self.state = state
        self.tenure = state.tenure
        self.isr_state: IsrState = CommittedIsr(committed_isr)
        self.leader_epoch_start_offset = state.log.log_end_offset
        self.progress: dict[int, FollowerProgress] = {}
        self.parked = ParkedProduces()

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed in-sync set."""
        return self.isr_state.isr

    @property
    def is_under_replicated(self) -> bool:
        """Replicas that are only being added do not count as missing."""
        wanted = len(self.state.replicas) - len(self.state.adding_replicas)
        return len(self.isr_state.isr) < wanted

    # ---- becoming leader, and metadata while leading (§8.1) ----

    def begin(self, now_ms: int) -> list[Effect]:
        """Take over. The log stays whole and the high watermark stays what this replica knew as
        a follower: a lower bound of the true one, until the ISR has fetched."""
        for progress in self._assigned_progress():
            in_isr = progress.replica_id in self.isr_state.isr
            progress.start_leadership(in_isr=in_isr, now_ms=now_ms)
        return self._begin_epoch(now_ms)

    def on_metadata(
        self, committed_isr: tuple[int, ...], *, is_newer: bool, is_new_epoch: bool, now_ms: int
    ) -> list[Effect]:
        """Metadata replaces what we believed, also a change in flight. Except the very version
        that change was proposed on: it comes again after an AlterPartition answer told it, and
        cannot know of a proposal made since."""
        effects: list[Effect] = []
        if is_newer or not self.has_change_in_flight():
            self._commit_isr(committed_isr, effects)
        for progress in self._assigned_progress():
            if is_new_epoch:
                progress.continue_leadership(
                    in_isr=progress.replica_id in self.isr_state.isr,
                    leader_end=self.state.log.log_end_offset,
                    now_ms=now_ms,
                )
        if is_new_epoch:
            return effects + self._begin_epoch(now_ms)
        self._advance_high_watermark(now_ms, effects)
        return effects

    def retire(self) -> list[Effect]:
        """Somebody else leads. What was not committed may be truncated: nobody gets a NONE."""
        assert not self.leads(), f"tenure {self.tenure} retired while it lasts"
        partition = self.state.partition
        return [
            AnswerProduce(partition, token, Error.NOT_LEADER_OR_FOLLOWER)
            for token in self.parked.take_all()
        ]

    def leads(self) -> bool:
        return self.tenure == self.state.tenure

    def _begin_epoch(self, now_ms: int) -> list[Effect]:
        state = self.state
        start_offset = self.leader_epoch_start_offset = state.log.log_end_offset
        # Entered at once, without data: it must exceed any epoch a follower can ask about.
        effects: list[Effect] = [
            AssignEpoch(state.partition, state.leader_epoch, start_offset),
            BecameLeader(
                state.partition,
                state.broker_id,
                state.leader_epoch,
                start_offset,
                state.high_watermark,
            ),
        ]
        self._advance_high_watermark(now_ms, effects)
        return effects

    def _assigned_progress(self) -> list[FollowerProgress]:
        """Exactly the assigned followers: one that left the assignment never counts again."""
        state, known = self.state, self.progress
        self.progress = {
            replica_id: known.get(replica_id) or FollowerProgress(replica_id)
            for replica_id in state.replicas
            if replica_id != state.broker_id
        }
        return list(self.progress.values())

    # ---- produce (§4) ----

    def check_produce(
        self, header: BatchHeader, acks: int, *, verified: bool = False
    ) -> ProduceCheck:
        """May this batch be appended? Nothing changes here, whatever the answer."""
        if acks not in (ACKS_ALL, ACKS_LEADER, ACKS_NONE):
            return ProduceCheck(Error.INVALID_REQUIRED_ACKS, None)
        if not self.leads():
            return ProduceCheck(Error.NOT_LEADER_OR_FOLLOWER, None)
        if acks == ACKS_ALL and not self.enough_replicas_to_append():
            return ProduceCheck(Error.NOT_ENOUGH_REPLICAS, None)
        if header.producer_id < 0:
            return _APPEND
        sequence = self.state.log.producers.check(header, verified=verified)
        return ProduceCheck(sequence.error, sequence.duplicate)

    def check_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> Error:
        """May this end marker be appended? It has to be as safe as an acks=all produce: the
        coordinator forgets the transaction when it hears that all markers are there."""
        if not self.leads():
            return Error.NOT_LEADER_OR_FOLLOWER
        if not self.enough_replicas_to_append():
            return Error.NOT_ENOUGH_REPLICAS
        return self.state.log.producers.check_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )

    def on_appended(self, now_ms: int) -> list[Effect]:
        """The shell has appended. Alone in the ISR, the leader commits by itself; otherwise what
        is new is held by nobody else, and commits nothing before it is fetched."""
        if len(self.maximal_isr()) > 1:
            return []
        return self._retry_high_watermark(now_ms)

    def on_durable(self, now_ms: int) -> list[Effect]:
        """The log is synced further: only now the leader's own copy counts."""
        effects: list[Effect] = []
        self._advance_high_watermark(now_ms, effects)
        return effects

    def await_commit(self, token: object, required_offset: int, now_ms: int) -> list[Effect]:
        """An acks=all produce waits until everything below `required_offset` is committed. Call
        it on the object the batch was appended under, so that a lost tenure is noticed."""
        if not self.leads():
            return [self._answer(token, Error.NOT_LEADER_OR_FOLLOWER)]
        if self.is_committed(required_offset):
            return [self._answer(token, self.commit_error())]
        self.parked.park(token, required_offset)
        return []

    def await_duplicate(self, token: object, duplicate: AppendedBatch, now_ms: int) -> list[Effect]:
        """A repeated acks=all produce owes the same wait as the first one: its records may be
        on this broker alone."""
        return self.await_commit(token, duplicate.last_offset + 1, now_ms)

    def on_produce_timeout(self, token: object, now_ms: int) -> list[Effect]:
        """The records stay in the log and may yet be committed; the client retries."""
        if self.parked.withdraw(token):
            return [self._answer(token, Error.REQUEST_TIMED_OUT)]
        return []

    def awaits_only_its_own_sync(self) -> bool:
        """Alone in the ISR, and enough: what it has appended is committed as soon as it is
        synced. In page-cache mode that is at once."""
        log = self.state.log
        return (
            log.durable_offset < log.log_end_offset
            and len(self.maximal_isr()) == 1
            and self.enough_replicas_to_commit(self.isr_state.isr)
        )

    def is_committed(self, required_offset: int) -> bool:
        return self.state.high_watermark >= required_offset

    def commit_error(self) -> Error:
        """The ISR may have shrunk below its minimum since the append."""
        if self.enough_replicas_to_commit(self.maximal_isr()):
            return NO_ERROR
        return Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def enough_replicas_to_append(self) -> bool:
        """Before the append the committed ISR decides: a proposed member is not one yet."""
        return len(self.isr_state.isr) >= self.effective_min_isr()

    def enough_replicas_to_commit(self, in_sync: tuple[int, ...]) -> bool:
        return len(in_sync) >= self.effective_min_isr()

    def effective_min_isr(self) -> int:
        wanted, assigned = self.state.settings.min_insync_replicas, len(self.state.replicas)
        return wanted if wanted < assigned else assigned

    def _answer(self, token: object, error: Error) -> AnswerProduce:
        return AnswerProduce(self.state.partition, token, error)

    # ---- deleting records (§9) ----

    def check_delete_records(self, offset: int) -> OffsetAnswer:
        """Records up to `offset` may go, the high watermark if it is -1: never uncommitted ones."""
        state = self.state
        if not self.leads():
            return OffsetAnswer(Error.NOT_LEADER_OR_FOLLOWER)
        target = state.high_watermark if offset == NO_OFFSET else offset
        if not 0 <= target <= state.high_watermark:
            return OffsetAnswer(Error.OFFSET_OUT_OF_RANGE)
        return OffsetAnswer(NO_ERROR, target, state.leader_epoch)

    def low_watermark(self) -> int:
        """No live replica holds an offset below it: a deletion is finished when it got there."""
        lowest = self.state.log.log_start_offset
        for progress in self.progress.values():
            status = self.state.brokers.get(progress.replica_id)
            if status is not None and status.active:
                lowest = min(lowest, progress.log_start_offset)
        return lowest

    # ---- follower fetch (§6) ----

    def on_follower_fetch(
        self, fetch: FollowerFetch, now_ms: int
    ) -> tuple[FetchDecision, list[Effect]]:
        """The offset a follower asks for is its acknowledgement of everything below it."""
        effects: list[Effect] = []
        decision = self.serve_parked(fetch)
        if decision.diverging is not None:
            effects.append(self._diverged(fetch, decision))
        if not self.counts_as_progress(decision):
            return decision, effects
        progress = self.progress[fetch.replica_id]
        if self.is_stale_incarnation(progress, fetch.replica_epoch):
            return reads.refused(self.state, Error.NOT_LEADER_OR_FOLLOWER), effects

        high_watermark = self.state.high_watermark
        moved = progress.acknowledge(fetch, self.state.log.log_end_offset, now_ms)
        if fetch.replica_id not in self.isr_state.isr and self.may_join_isr(progress):
            self._propose_expand(progress, effects)
        if moved:
            self._advance_high_watermark(now_ms, effects)
        if self.state.high_watermark != high_watermark:
            decision = reads.served(self.state, fetch.fetch_offset, decision.read_to)
        return decision, effects

    def count_quiet_fetch(self, fetch: FollowerFetch, now_ms: int) -> bool:
        """A follower in sync fetches again from the log end: all that can come of it is that it
        was seen. Otherwise False, nothing is counted, and `on_follower_fetch` has to judge."""
        state = self.state
        log_end_offset = state.log.log_end_offset
        progress = self.progress.get(fetch.replica_id)
        if (
            progress is None
            or not log_end_offset == fetch.fetch_offset == progress.log_end_offset
            or fetch.replica_id not in self.isr_state.isr
            or self.check_follower(fetch) is not NO_ERROR
            or self.is_stale_incarnation(progress, fetch.replica_epoch)
            or not reads.check_position(
                state.log, log_end_offset, fetch.last_fetched_epoch
            ).is_sound
        ):
            return False
        progress.acknowledge(fetch, log_end_offset, now_ms)
        return True

    def serve_parked(self, fetch: FollowerFetch) -> FetchDecision:
        """Judge a follower's fetch without counting it, in the order of replication.md §6."""
        state = self.state
        error = self.check_follower(fetch)
        if error is not NO_ERROR:
            return reads.refused(state, error)
        position = reads.check_position(state.log, fetch.fetch_offset, fetch.last_fetched_epoch)
        if position.error is not NO_ERROR:
            return reads.refused(state, position.error)
        if position.diverging is not None:
            return reads.told_to_truncate(state, position.diverging)
        return reads.served(state, fetch.fetch_offset, state.log.log_end_offset)

    def check_follower(self, fetch: FollowerFetch) -> Error:
        """Rows 2 to 5: same leader epoch, we lead, and it is one of the replicas."""
        if not self.leads():
            return Error.NOT_LEADER_OR_FOLLOWER
        error = reads.fence(fetch.leader_epoch, self.state.leader_epoch)
        if error is not NO_ERROR:
            return error
        if fetch.replica_id not in self.progress:
            # A replica that is being added may know its assignment before we do.
            carries_epoch = fetch.leader_epoch != NO_EPOCH
            return Error.UNKNOWN_LEADER_EPOCH if carries_epoch else Error.NOT_LEADER_OR_FOLLOWER
        return NO_ERROR

    def counts_as_progress(self, decision: FetchDecision) -> bool:
        """KAFKA-13141: a follower told to truncate holds less than it asked for."""
        return decision.error is NO_ERROR and decision.diverging is None

    def is_stale_incarnation(self, progress: FollowerProgress, replica_epoch: int) -> bool:
        """KIP-903: a fetch from before the follower's restart says nothing about its log now."""
        if replica_epoch == NO_EPOCH:
            return False
        status = self.state.brokers.get(progress.replica_id)
        if status is not None and replica_epoch < status.broker_epoch:
            return True
        return replica_epoch < progress.broker_epoch

    def _diverged(self, fetch: FollowerFetch, decision: FetchDecision) -> FetchDiverged:
        assert decision.diverging is not None, f"{fetch} does not diverge"
        return FetchDiverged(
            self.state.partition,
            self.state.broker_id,
            fetch.replica_id,
            fetch.fetch_offset,
            fetch.last_fetched_epoch,
            decision.diverging.leader_epoch,
            decision.diverging.end_offset,
        )

    # ---- high watermark (§8.2) ----

    def maximal_isr(self) -> tuple[int, ...]:
        """Everyone who may be in the ISR, whatever becomes of the change in flight."""
        return self.isr_state.maximal_isr

    def committed_offset(self, now_ms: int) -> int:
        """The offset below which every replica that has to has everything. The leader counts
        itself only as far as its log is durable."""
        committed = self.state.log.durable_offset
        maximal_isr = self.maximal_isr()
        for progress in self.progress.values():
            if progress.log_end_offset < committed and (
                progress.replica_id in maximal_isr or self.is_about_to_join(progress, now_ms)
            ):
                committed = progress.log_end_offset
        return committed

    def is_about_to_join(self, progress: FollowerProgress, now_ms: int) -> bool:
        """Or the high watermark would outrun a replica that is one fetch away from the ISR. Not
        for a replica that may not join: it would freeze the high watermark (KAFKA-15021)."""
        return self.is_caught_up(progress, now_ms) and self.is_isr_eligible(progress)

    def is_caught_up(self, progress: FollowerProgress, now_ms: int) -> bool:
        return (
            progress.log_end_offset == self.state.log.log_end_offset
            or now_ms - progress.last_caught_up_ms <= self.state.settings.replica_lag_time_max_ms
        )

    def on_settings_changed(self, now_ms: int) -> list[Effect]:
        """Raising min ISR freezes the high watermark, lowering it may release it."""
        return self._retry_high_watermark(now_ms)

    def on_brokers_changed(self, now_ms: int) -> list[Effect]:
        """A replica that was about to join may no longer be eligible."""
        return self._retry_high_watermark(now_ms)

    def _retry_high_watermark(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        self._advance_high_watermark(now_ms, effects)
        return effects

    def _advance_high_watermark(self, now_ms: int, effects: list[Effect]) -> None:
        state = self.state
        previous = state.high_watermark
        if state.log.durable_offset <= previous or not self.leads():
            return
        # Strict min ISR (KIP-966): too few replicas commit nothing, not even acks=1 records.
        if not self.enough_replicas_to_commit(self.isr_state.isr):
            return
        committed = self.committed_offset(now_ms)
        if committed <= previous:
            return
        state.move_high_watermark(committed)
        effects.append(HighWatermarkAdvanced(state.partition, state.broker_id, previous, committed))
        if self.parked:
            error = self.commit_error()
            for token in self.parked.take_reached(committed):
                effects.append(self._answer(token, error))

    # ---- in-sync set (§8.3 to §8.5) ----

    def has_change_in_flight(self) -> bool:
        return type(self.isr_state) is not CommittedIsr

    def may_propose(self) -> bool:
        """One change at a time: its outcome is the ground the next one stands on."""
        return not self.has_change_in_flight() and self.leads()

    def check_isr(self, now_ms: int) -> list[Effect]:
        """Every half lag time: propose to drop followers that have not been caught up within
        it. Until that is committed the high watermark keeps waiting for them."""
        effects = self._retry_high_watermark(now_ms)  # somebody may have stopped being near
        if self.may_propose():
            lagging = self.out_of_sync(now_ms)
            if lagging:
                self._propose_shrink(lagging, effects)
        return effects

    def out_of_sync(self, now_ms: int) -> tuple[int, ...]:
        return tuple(
            replica_id
            for replica_id in self.isr_state.isr
            if replica_id in self.progress
            and not self.is_caught_up(self.progress[replica_id], now_ms)
        )

    def may_join_isr(self, progress: FollowerProgress) -> bool:
        """It holds everything committed, is a replica the controller would accept, and nothing
        else is in flight."""
        return (
            self.may_propose()
            and progress.log_end_offset >= self.state.high_watermark
            and self.has_reached_epoch_start(progress)
            and self.is_isr_eligible(progress)
        )

    def has_reached_epoch_start(self, progress: FollowerProgress) -> bool:
        """KAFKA-7128: a new leader's high watermark may lag, its epoch start covers everything
        that can have been committed before it."""
        return progress.log_end_offset >= self.leader_epoch_start_offset

    def is_isr_eligible(self, progress: FollowerProgress) -> bool:
        """KIP-841: neither fenced nor shutting down. KIP-903: the registered incarnation."""
        status = self.state.brokers.get(progress.replica_id)
        if status is None or not status.active:
            return False
        return progress.broker_epoch in (NO_EPOCH, status.broker_epoch)

    def on_isr_result(self, result: IsrResult, now_ms: int) -> list[Effect]:
        """The controller's answer to the change in flight; after metadata overtook it, ignored."""
        effects: list[Effect] = []
        pending = self.isr_state
        if isinstance(pending, CommittedIsr) or not self.leads():
            return effects
        decision = isr.outcome(pending, result, partition_epoch=self.state.partition_epoch)
        if decision == isr.ADOPT:
            self.state.partition_epoch = result.partition_epoch
            self.state.leader_recovery_state = result.leader_recovery_state
            self._commit_isr(result.isr, effects)
        elif decision == isr.REVERT:
            self.isr_state = CommittedIsr(pending.isr)
        else:
            return effects
        self._advance_high_watermark(now_ms, effects)
        return effects

    def _commit_isr(self, committed_isr: tuple[int, ...], effects: list[Effect]) -> None:
        state, previous = self.state, self.isr_state.isr
        self.isr_state = CommittedIsr(committed_isr)
        if committed_isr != previous:
            effects.append(
                IsrChanged(
                    state.partition,
                    state.broker_id,
                    previous,
                    committed_isr,
                    state.partition_epoch,
                )
            )

    def _propose_expand(self, progress: FollowerProgress, effects: list[Effect]) -> None:
        proposed = (*self.isr_state.isr, progress.replica_id)
        proposal = self._proposal(proposed)
        self.isr_state = PendingExpand(self.isr_state.isr, proposed, proposal)
        self._announce(proposed, proposal, effects)

    def _propose_shrink(self, leaving: tuple[int, ...], effects: list[Effect]) -> None:
        proposed = tuple(r for r in self.isr_state.isr if r not in leaving)
        assert self.state.broker_id in proposed, f"{self.state.broker_id} not in {proposed}"
        proposal = self._proposal(proposed)
        self.isr_state = PendingShrink(self.isr_state.isr, proposed, proposal)
        self._announce(proposed, proposal, effects)

    def _announce(
        self, proposed: tuple[int, ...], proposal: IsrProposal, effects: list[Effect]
    ) -> None:
        state = self.state
        effects.append(IsrProposed(state.partition, state.broker_id, self.isr_state.isr, proposed))
        effects.append(ProposeIsr(proposal))

    def _proposal(self, proposed: tuple[int, ...]) -> IsrProposal:
        """Broker epochs say which incarnation was seen to be in sync. The first proposal after
        an unclean election also reports that this leader has recovered."""
        state = self.state
        members = tuple(
            IsrMember(
                replica_id,
                state.broker_epoch
                if replica_id == state.broker_id
                else self.progress[replica_id].broker_epoch,
            )
            for replica_id in proposed
        )
        return IsrProposal(
            state.partition, state.leader_epoch, state.partition_epoch, members, RECOVERED
        )

    # ---- consumer reads (§8.2, §9) ----

    def read_limit(self, read_committed: bool) -> int:
        return reads.consumer_limit(self.state, read_committed)

    def is_awaiting_high_watermark(self, fetch_offset: int) -> bool:
        return reads.is_awaiting_high_watermark(
            fetch_offset,
            high_watermark=self.state.high_watermark,
            leader_epoch_start_offset=self.leader_epoch_start_offset,
        )

    def preferred_replica(self, fetch: ConsumerFetch, now_ms: int) -> int:
        """The replica this consumer should read from: ourselves unless a selector says other."""
        state = self.state
        select = state.settings.replica_selector
        if select is None or fetch.rack is None:
            return state.broker_id
        log = state.log
        own = ReplicaView(
            state.broker_id,
            self._rack_of(state.broker_id),
            log.log_start_offset,
            log.log_end_offset,
            now_ms,
        )
        others = [
            view
            for view in map(self._view, self.progress.values())
            if view.broker_id in self.isr_state.isr and selector.may_serve(view, fetch.fetch_offset)
        ]
        return select(fetch.rack, own, others)

    def _view(self, progress: FollowerProgress) -> ReplicaView:
        return ReplicaView(
            progress.replica_id,
            self._rack_of(progress.replica_id),
            progress.log_start_offset,
            progress.log_end_offset,
            progress.last_caught_up_ms,
        )

    def _rack_of(self, broker_id: int) -> str | None:
        status = self.state.brokers.get(broker_id)
        return status.rack if status is not None else None
