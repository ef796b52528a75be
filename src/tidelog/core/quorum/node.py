"""One node of the metadata quorum.

Messages and the clock go in, effects come out; see `effects` for the order they must be
performed in. The node reads its log and never writes it. How it answers depends on its role;
`transitions` lists every way from one role to another and is the only place that takes one.
"""

from collections.abc import Callable
from typing import Any

from tidelog.core.errors import Error
from tidelog.core.quorum import rules
from tidelog.core.quorum.effects import Effect, Send
from tidelog.core.quorum.follower import Follower, SnapshotVoters
from tidelog.core.quorum.leader import Leader, Progress
from tidelog.core.quorum.log_view import QuorumLogView
from tidelog.core.quorum.messages import (
    BeginEpochRequest,
    BeginEpochResponse,
    EndEpochRequest,
    EndEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumMessage,
    SnapshotId,
    VoteRequest,
    VoteResponse,
    VoterKey,
    VotersRecord,
)
from tidelog.core.quorum.roles import Campaign, Candidate, Prospective, Resigned, Unattached
from tidelog.core.quorum.state import NEVER_MS, Member, QuorumSettings, QuorumState
from tidelog.core.quorum.transitions import RoleKeeper
from tidelog.core.quorum.voters import (
    VoterHistory,
    Voters,
    read_snapshot,
    scan_log,
    voters_in_records,
)
from tidelog.core.types import NO_EPOCH, NO_LEADER, NO_OFFSET

_ROLES_PER_TICK = 6
"""A sole voter passes through several roles at once."""


class QuorumNode(RoleKeeper):
    """A voter or an observer of the metadata quorum.

    `draw_timeout(t)` returns t plus something random below t. The shell calls `tick` at or
    after `next_deadline_ms`; the first one is due at once and starts the node.
    """

    __slots__ = ("_handlers", "_snapshot_voters", "_start_at_ms")

    def __init__(
        self,
        *,
        key: VoterKey,
        cluster_id: str,
        voters: Voters,
        log: QuorumLogView,
        stored: QuorumState,
        settings: QuorumSettings,
        draw_timeout: Callable[[int], int],
        now_ms: int,
        snapshot_voters: SnapshotVoters = voters_in_records,
        committed_before: int = NO_OFFSET,
    ) -> None:
        """`committed_before`: what an earlier life of this node knew to be committed."""
        assert not rules.snapshot_replaces_log(
            log.latest_snapshot, log.log_start_offset, log.log_end_offset, log.epochs
        ), f"{log.latest_snapshot} must replace a log that ends at {log.log_end_offset}"
        history = VoterHistory(voters)
        content = read_snapshot(log, settings.snapshot_chunk_bytes)
        if content is not None and log.latest_snapshot is not None:
            history.restart_at(log.latest_snapshot.end_offset, snapshot_voters(content))
        scan_log(history, log, settings.max_entries)
        member = Member(key, cluster_id, log, settings, history, committed_before=committed_before)
        super().__init__(member, stored, draw_timeout, now_ms)
        self._snapshot_voters = snapshot_voters
        self._start_at_ms = now_ms
        self._handlers: dict[type, Callable[[int, Any, int], list[Effect]]] = {
            FetchRequest: self._on_fetch,
            FetchResponse: self._on_fetch_response,
            VoteRequest: self._on_vote,
            VoteResponse: self._on_vote_response,
            BeginEpochRequest: self._on_begin_epoch,
            BeginEpochResponse: self._on_epoch_response,
            EndEpochRequest: self._on_end_epoch,
            EndEpochResponse: self._on_epoch_response,
            FetchSnapshotRequest: self._on_fetch_snapshot,
            FetchSnapshotResponse: self._on_snapshot_response,
        }

    # What others may see -----------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        """What this node exposes. A new leader's is unknown (-1) until its own epoch commits."""
        role = self._role
        return role.high_watermark if type(role) is Leader else self._member.high_watermark

    @property
    def voters(self) -> Voters:
        return self._member.voters.current

    @property
    def is_voter(self) -> bool:
        return self._member.is_voter

    @property
    def state(self) -> QuorumState:
        return self._member.state

    @property
    def next_deadline_ms(self) -> int:
        return min(self._start_at_ms, self._role.deadline_ms)

    def follows(self, leader_id: int) -> bool:
        """Is this the leader it fetches from?"""
        return type(self._role) is Follower and self._role.leader_id == leader_id

    def replicas(self) -> tuple[Progress, ...]:
        """What a leader knows of the others (DescribeQuorum); nothing on any other node."""
        role = self._role
        return role.replicas() if type(role) is Leader else ()

    def snapshot_allowed(self, snapshot: SnapshotId) -> bool:
        """May the shell take a snapshot with this id now?"""
        return rules.snapshot_allowed(snapshot, self._member.high_watermark, self._member.log)

    def snapshot_control_records(self, end_offset: int) -> tuple[VotersRecord, ...]:
        """What a snapshot ending here must hold for the quorum itself, before its records."""
        voters = self._member.voters.at(end_offset)
        return () if voters is None else (VotersRecord(voters),)

    # Inputs ------------------------------------------------------------------------------

    def on_message(self, source: int, message: QuorumMessage, now_ms: int) -> list[Effect]:
        return self._handlers[type(message)](source, message, now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        """Do what is due. Afterwards the next deadline lies in the future."""
        effects: list[Effect] = []
        if self._start_at_ms <= now_ms:
            self._start_at_ms = NEVER_MS
            self._start(effects)
        for _ in range(_ROLES_PER_TICK):
            if self._role.deadline_ms > now_ms:
                break
            self._expire(now_ms, effects)
        assert self._role.deadline_ms > now_ms, f"{self.role} is still due at {now_ms}"
        return effects

    def append(self, records: tuple[object, ...], now_ms: int) -> tuple[int, list[Effect]]:
        """Leader only: one atomic entry at the log end; returns its offset."""
        role = self._role
        assert type(role) is Leader, f"append on {self.role} {self._member.node_id}"
        assert now_ms >= 0, f"append at {now_ms}"
        return self._member.log.log_end_offset, role.append(records)

    def on_durable(self, now_ms: int) -> list[Effect]:
        """The log's durable offset moved: a leader may commit, a follower may acknowledge."""
        role = self._role
        if type(role) is Follower:
            return role.on_durable(now_ms)
        if type(role) is Leader:
            return self._after_commit(role, role.advance(), now_ms)
        return []

    def on_send_failed(self, target: int, message: QuorumMessage, now_ms: int) -> list[Effect]:
        """A hint: this message cannot have arrived. Without it the timers do the same later."""
        role = self._role
        if type(role) is Follower and target == role.leader_id:
            role.on_send_failed(message, now_ms)
        elif type(message) is VoteRequest and self._is_open(message):
            assert isinstance(role, Campaign), f"{self.role} asks for votes"
            role.on_not_reached(target, now_ms + self._member.settings.retry_backoff_ms)
        return []

    def _is_open(self, request: VoteRequest) -> bool:
        """Is it a question of the election that goes on?"""
        asks = Prospective if request.pre_vote else Candidate
        return type(self._role) is asks and request.epoch == self._member.epoch

    def on_leader_gone(self, leader_id: int, epoch: int, now_ms: int) -> list[Effect]:
        """The process that led this epoch is known to be gone (ADR 0017).

        What is started in its place never leads this epoch, so nobody need wait for the fetch
        timer: this voter grants pre-votes from now on, and campaigns at once or, if others are
        before it in the voter set, a moment later.
        """
        member = self._member
        role = self._role
        effects: list[Effect] = []
        if type(role) is not Follower or (role.leader_id, member.epoch) != (leader_id, epoch):
            return effects
        if role.leader_gone:
            return effects  # it resigned before it went, and said who campaigns when
        if not member.may_campaign or self._stopping:
            self._become_unattached(epoch, now_ms, effects)
            return effects
        delay_ms = self._campaign_delay_ms(leader_id)
        role.on_leader_resigned(now_ms + delay_ms)
        if delay_ms == 0:
            self._become_prospective(now_ms, effects)
        return effects

    def _campaign_delay_ms(self, gone_leader_id: int) -> int:
        """All voters learn of a death in the same moment; who campaigned in it with another
        would only split the vote."""
        member = self._member
        rivals = [v.node_id for v in member.other_voters if v.node_id != gone_leader_id]
        before = sum(rival < member.node_id for rival in rivals)
        return rules.campaign_delay_ms(before, member.settings.campaign_stagger_ms)

    def resign(self, now_ms: int) -> list[Effect]:
        """Stop leading and hand over to the most caught-up voter; no effect on others."""
        role = self._role
        effects: list[Effect] = []
        if type(role) is Leader:
            self._become_resigned(role, now_ms, effects)
        return effects

    def shutdown(self, now_ms: int) -> list[Effect]:
        """Hand over and never campaign again; still votes and answers until it is gone."""
        self._stopping = True
        effects = self.resign(now_ms)
        if type(self._role) in (Prospective, Candidate):
            self._become_unattached(self._member.epoch, now_ms, effects)
        elif type(self._role) is Unattached:
            self._role.election_deadline_ms = NEVER_MS
        return effects

    def add_voter(self, key: VoterKey, now_ms: int) -> tuple[Error, list[Effect]]:
        """Leader only: let a caught-up observer vote; counts from its record on (KIP-853)."""
        current = self.voters
        role = self._role
        error = self._voter_change_error()
        if error is not Error.NONE or type(role) is not Leader:
            return error, []
        if any(voter.node_id == key.node_id for voter in current):
            return Error.DUPLICATE_VOTER, []
        if not role.is_caught_up(key, now_ms):
            return Error.REQUEST_TIMED_OUT, []
        return Error.NONE, self._change_voters(role, (*current, key), now_ms)

    def remove_voter(self, key: VoterKey, now_ms: int) -> tuple[Error, list[Effect]]:
        """Leader only: a leader may remove itself; it leads until that is committed."""
        current = self.voters
        role = self._role
        error = self._voter_change_error()
        if error is not Error.NONE or type(role) is not Leader:
            return error, []
        if key not in current:
            return Error.VOTER_NOT_FOUND, []
        if len(current) == 1:
            return Error.INVALID_REQUEST, []
        remaining = tuple(voter for voter in current if voter != key)
        return Error.NONE, self._change_voters(role, remaining, now_ms)

    def _voter_change_error(self) -> Error:
        """One change at a time, and only by a leader whose own epoch has committed: otherwise
        two uncommitted sets could have majorities without a common voter."""
        role = self._role
        if type(role) is not Leader:
            return Error.NOT_LEADER_OR_FOLLOWER
        if role.high_watermark <= self._member.voters.last_offset:
            return Error.REQUEST_TIMED_OUT
        return Error.NONE

    def _change_voters(self, role: Leader, voters: Voters, now_ms: int) -> list[Effect]:
        member = self._member
        assert abs(len(voters) - len(member.voters.current)) == 1, f"not one change: {voters}"
        effects = role.append((VotersRecord(voters),), control=True)
        member.voters.append(member.log.log_end_offset, voters)
        member.adopt_voters()
        role.adopt_voters(now_ms)
        return effects

    # Timers ------------------------------------------------------------------------------

    def _start(self, effects: list[Effect]) -> None:
        """Say what a restarted node has to say; fetches and probes are due by themselves."""
        self._persist(effects)
        role = self._role
        if type(role) is Resigned:
            self._send_end_epoch(role, effects)
        elif type(role) is Candidate:
            self._send_vote_requests(effects, pre_vote=False)

    def _expire(self, now_ms: int, effects: list[Effect]) -> None:
        role = self._role
        if type(role) is Follower:
            self._expire_follower(role, now_ms, effects)
        elif type(role) is Leader:
            self._expire_leader(role, now_ms, effects)
        elif type(role) is Unattached:
            if role.election_deadline_ms <= now_ms:
                self._become_prospective(now_ms, effects)
            else:
                self._probe(role, now_ms, effects)
        elif isinstance(role, Campaign) and role.election_deadline_ms > now_ms:
            pre_vote = type(role) is Prospective
            self._send_vote_requests(effects, pre_vote=pre_vote, only=role.take_not_reached())
        elif type(role) is Prospective:
            self._give_up(now_ms, effects)
        elif type(role) is Candidate:
            self._become_prospective(now_ms, effects)
        else:
            self._become_unattached(self._member.epoch + 1, now_ms, effects)

    def _expire_follower(self, role: Follower, now_ms: int, effects: list[Effect]) -> None:
        if role.fetch_deadline_ms > now_ms:
            effects += role.send_fetch(now_ms)
        elif self._member.may_campaign and not self._stopping:
            self._become_prospective(now_ms, effects)
        else:
            self._become_unattached(self._member.epoch, now_ms, effects)

    def _expire_leader(self, role: Leader, now_ms: int, effects: list[Effect]) -> None:
        role.count_contacts()
        if role.check_quorum_deadline_ms <= now_ms:
            self._become_resigned(role, now_ms, effects)
            return
        if role.begin_at_ms <= now_ms:
            effects += role.announce(now_ms)
        effects += role.answer_expired(now_ms)

    def _probe(self, role: Unattached, now_ms: int, effects: list[Effect]) -> None:
        """An observer asks the voters, one after the other, who leads."""
        member = self._member
        role.probe_at_ms = now_ms + member.settings.probe_interval_ms
        log = member.log
        if log.durable_offset < log.log_end_offset:
            return  # a fetch acknowledges, even one that only asks for the leader
        targets = [voter.node_id for voter in member.other_voters]
        targets += [v.node_id for v in member.voters.configured if v.node_id not in targets]
        target = targets[role.next_probe % len(targets)]
        role.next_probe += 1
        if target != member.node_id:
            epoch, offset = member.durable_position()
            request = FetchRequest(
                member.cluster_id,
                member.epoch,
                member.key,
                offset,
                epoch,
                member.high_watermark,
                max_wait_ms=0,
            )
            effects.append(Send(target, request))

    # Elections ---------------------------------------------------------------------------

    def _on_vote(self, source: int, request: VoteRequest, now_ms: int) -> list[Effect]:
        member = self._member
        effects: list[Effect] = []
        error, granted = Error.NONE, False
        if request.cluster_id != member.cluster_id:
            error = Error.INCONSISTENT_CLUSTER_ID
        elif request.epoch < member.epoch:
            error = Error.FENCED_LEADER_EPOCH
        elif rules.vote_is_malformed(request):
            error = Error.INVALID_REQUEST
        else:
            if request.epoch > member.epoch:
                self._become_unattached(request.epoch, now_ms, effects)
            if request.voter != member.key:
                error = Error.INVALID_VOTER_KEY
            else:
                granted = self._decide_vote(request, now_ms, effects)
        response = VoteResponse(error, *self._standing(error), granted, request.pre_vote)
        effects.append(Send(source, response))
        return effects

    def _decide_vote(self, request: VoteRequest, now_ms: int, effects: list[Effect]) -> bool:
        member = self._member
        role = self._role
        claimed = (request.last_epoch, request.last_offset)
        up_to_date = rules.up_to_date(claimed, member.durable_position())
        if request.pre_vote:
            return role.may_grant_pre_vote(up_to_date)
        if not role.may_grant_vote(member, request.candidate, up_to_date):
            return False
        if member.voted is None:
            assert isinstance(role, Unattached | Prospective), f"{role.name} votes"
            member.voted = request.candidate
            role.on_vote_granted(self._election_deadline_ms(now_ms))
            self._persist_vote(effects)
        return True

    def _persist_vote(self, effects: list[Effect]) -> None:
        """A vote is a promise: it is on disk before the candidate hears of it (§12 rule 2)."""
        self._persist(effects)

    def _on_vote_response(self, source: int, response: VoteResponse, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if not self._learn(response.epoch, response.leader_id, now_ms, effects):
            return effects
        role = self._role
        if response.pre_vote and type(role) is Prospective:
            if response.error is Error.UNSUPPORTED_VERSION:
                self._become_candidate(now_ms, effects)  # a voter that knows no pre-vote
                return effects
            role.ballot.record(source, response.granted)
            if role.ballot.won:
                self._become_candidate(now_ms, effects)
            elif role.ballot.lost:
                self._give_up(now_ms, effects)
        elif not response.pre_vote and type(role) is Candidate:
            role.ballot.record(source, response.granted)
            if role.ballot.won:
                self._become_leader(role.ballot, now_ms, effects)
        return effects

    # Epochs ------------------------------------------------------------------------------

    def _on_begin_epoch(self, source: int, request: BeginEpochRequest, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        error = self._epoch_request_error(request.cluster_id, request.epoch, request.leader_id)
        if error is Error.NONE:
            self._learn(request.epoch, request.leader_id, now_ms, effects)
            if type(self._role) in (Prospective, Unattached):
                # The leader it gave up is alive after all.
                self._become_follower(request.epoch, request.leader_id, now_ms, effects)
        effects.append(Send(source, BeginEpochResponse(error, *self._standing(error))))
        return effects

    def _on_end_epoch(self, source: int, request: EndEpochRequest, now_ms: int) -> list[Effect]:
        """The leader resigned: campaign after a delay that depends on how caught up we are."""
        member = self._member
        effects: list[Effect] = []
        error = self._epoch_request_error(request.cluster_id, request.epoch, request.leader_id)
        if error is Error.NONE:
            self._learn(request.epoch, request.leader_id, now_ms, effects)
            role = self._role
            if type(role) is Follower and member.may_campaign:
                candidates = request.preferred_candidates
                listed = member.node_id in candidates
                position = candidates.index(member.node_id) if listed else -1
                delay_ms = rules.handover_delay_ms(
                    position, len(candidates), member.settings.election_backoff_max_ms
                )
                role.on_leader_resigned(now_ms + delay_ms)
        effects.append(Send(source, EndEpochResponse(error, *self._standing(error))))
        return effects

    def _standing(self, error: Error) -> tuple[int, int]:
        """The epoch and leader an answer names; another cluster must not learn ours."""
        if error is Error.INCONSISTENT_CLUSTER_ID:
            return NO_EPOCH, NO_LEADER
        return self._member.epoch, self.leader_id

    def _epoch_request_error(self, cluster_id: str, epoch: int, leader_id: int) -> Error:
        member = self._member
        if cluster_id != member.cluster_id:
            return Error.INCONSISTENT_CLUSTER_ID
        if epoch < member.epoch:
            return Error.FENCED_LEADER_EPOCH
        if leader_id in (NO_LEADER, member.node_id):
            return Error.INVALID_REQUEST
        return Error.NONE

    def _on_epoch_response(
        self, source: int, response: BeginEpochResponse | EndEpochResponse, now_ms: int
    ) -> list[Effect]:
        assert source != self._member.node_id, f"{source} answers itself"
        effects: list[Effect] = []
        self._learn(response.epoch, response.leader_id, now_ms, effects)
        return effects

    # Replication -------------------------------------------------------------------------

    def _after_commit(self, role: Leader, effects: list[Effect], now_ms: int) -> list[Effect]:
        """A leader outside the committed voter set has done its last duty (§10)."""
        if role.removed:
            self._become_resigned(role, now_ms, effects)
        return effects

    def _on_fetch(self, source: int, request: FetchRequest, now_ms: int) -> list[Effect]:
        role = self._role
        error = self._fetch_error(request.cluster_id, request.epoch)
        if error is Error.NONE:
            malformed = (
                request.fetch_offset < 0 or not 0 <= request.last_fetched_epoch <= request.epoch
            )
            if not malformed:
                assert type(role) is Leader, f"{role.name} serves a fetch"
                return self._after_commit(role, role.on_fetch(source, request, now_ms), now_ms)
            error = Error.INVALID_REQUEST
        response = FetchResponse(
            error,
            *self._standing(error),
            request.fetch_offset,
            NO_OFFSET,
            last_fetched_epoch=request.last_fetched_epoch,
        )
        return [Send(source, response)]

    def _fetch_error(self, cluster_id: str, epoch: int) -> Error:
        """Only the leader of exactly this epoch answers (kraft.md §2)."""
        member = self._member
        if cluster_id != member.cluster_id:
            return Error.INCONSISTENT_CLUSTER_ID
        if epoch < member.epoch:
            return Error.FENCED_LEADER_EPOCH
        if epoch > member.epoch:
            return Error.UNKNOWN_LEADER_EPOCH
        if type(self._role) is Leader:
            return Error.NONE
        return Error.BROKER_NOT_AVAILABLE if self._stopping else Error.NOT_LEADER_OR_FOLLOWER

    def _on_fetch_response(self, source: int, response: FetchResponse, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if not self._learn(response.epoch, response.leader_id, now_ms, effects):
            return effects
        role = self._role
        if type(role) is Follower:
            first = not role.has_fetched and not role.leader_gone
            effects += role.on_fetch_response(source, response, now_ms)
            if first:
                self._replace_former_leader(role, now_ms)
            self._leave_resigned_leader(role, now_ms, effects)
        elif type(role) is Unattached and not response.error and source == response.leader_id:
            # The leader an observer gave up answers again.
            self._become_follower(response.epoch, source, now_ms, effects)
        return effects

    def _leave_resigned_leader(self, role: Follower, now_ms: int, effects: list[Effect]) -> None:
        """Voters were told to elect another; an observer has to look for it."""
        if role.leader_gone and not self._member.is_voter:
            self._become_unattached(self._member.epoch, now_ms, effects)

    def _replace_former_leader(self, role: Follower, now_ms: int) -> None:
        """It said itself that it leads no more, in the first answer that this voter got: who
        was down when it resigned has not heard who shall campaign when."""
        member = self._member
        if role.leader_gone and member.may_campaign and not self._stopping:
            delay_ms = self._campaign_delay_ms(role.leader_id) + member.settings.campaign_stagger_ms
            role.on_leader_resigned(now_ms + delay_ms)

    def _on_fetch_snapshot(
        self, source: int, request: FetchSnapshotRequest, now_ms: int
    ) -> list[Effect]:
        role = self._role
        error = self._fetch_error(request.cluster_id, request.epoch)
        if error is Error.NONE:
            assert type(role) is Leader, f"{role.name} serves a snapshot"
            return role.on_fetch_snapshot(source, request, now_ms)
        response = FetchSnapshotResponse(
            error,
            *self._standing(error),
            request.snapshot,
            0,
            request.position,
            (),
        )
        return [Send(source, response)]

    def _on_snapshot_response(
        self, source: int, response: FetchSnapshotResponse, now_ms: int
    ) -> list[Effect]:
        effects: list[Effect] = []
        if not self._learn(response.epoch, response.leader_id, now_ms, effects):
            return effects
        role = self._role
        if type(role) is Follower:
            effects += role.on_snapshot_response(source, response, now_ms, self._snapshot_voters)
            self._leave_resigned_leader(role, now_ms, effects)
        return effects
