"""Slow, obvious judges of kraft.md §12, rules 1 to 10.

They see every effect before it is performed and every message as it arrives, they read the
disks of all machines, dead ones too, and share no code with the nodes they judge.
"""

from support.quorum_cluster import Host
from tidelog.core.events import QuorumLeaderElected
from tidelog.core.quorum.effects import (
    AppendEntries,
    CommitAdvanced,
    Effect,
    InstallSnapshot,
    PersistState,
    Send,
    TruncateTo,
)
from tidelog.core.quorum.messages import (
    FetchRequest,
    FetchSnapshotRequest,
    QuorumMessage,
    VoteRequest,
    VoteResponse,
    VoterKey,
    VotersRecord,
)
from tidelog.core.quorum.state import QuorumState
from tidelog.core.types import LogEntry


class RuleBroken(AssertionError):  # noqa: N818  (reads as what happened)
    """Carries the number of the rule, so that a mutant is known by what it breaks."""

    def __init__(self, rule: int, text: str) -> None:
        super().__init__(f"rule {rule}: {text}")
        self.rule = rule


def require(holds: bool, rule: int, text: str) -> None:
    if not holds:
        raise RuleBroken(rule, text)


class Oracle:
    def __init__(self, hosts: dict[int, Host]) -> None:
        self.hosts = hosts
        self.leaders: dict[int, int] = {}  # epoch -> node
        self.votes: dict[tuple[int, int], int] = {}  # (voter, epoch) -> candidate
        self.sent_epoch: dict[int, int] = {}
        self.written: dict[tuple[int, int], tuple[tuple[object, ...], int]] = {}
        self.committed: dict[int, LogEntry] = {}  # offset of an entry -> entry
        self.committed_end = 0
        self.high_watermark: dict[int, int] = {}  # of a running node
        self.contacts: dict[tuple[int, int], dict[int, int]] = {}
        self.leading_since: dict[int, tuple[int, int, tuple[VoterKey, ...]]] = {}

    # Before an effect --------------------------------------------------------------------

    def before(self, host: Host, effect: Effect, now_ms: int) -> None:
        if type(effect) is Send:
            self._before_send(host, effect.target, effect.message)
        elif type(effect) is PersistState:
            self._before_persist(host, effect.state)
        elif type(effect) is AppendEntries:
            self._before_append(host, effect.entries)
        elif type(effect) is TruncateTo:
            high_watermark = self.high_watermark.get(host.node_id, 0)
            require(effect.offset >= high_watermark, 6, f"cut {effect} < {high_watermark}")
            require(self._role(host) != "leader", 3, f"leader {host.node_id} truncates")
        elif type(effect) is CommitAdvanced:
            self._before_commit(host, effect.high_watermark)
        elif type(effect) is InstallSnapshot:
            self._before_install(host, effect)
        elif type(effect) is QuorumLeaderElected:
            self._on_elected(host, effect)

    def _role(self, host: Host) -> str:
        return host.node.role if host.node else "down"

    def _before_send(self, host: Host, target: int, message: QuorumMessage) -> None:
        node_id, stored = host.node_id, host.stored
        require(message.epoch <= stored.epoch, 2, f"{node_id} says {message}, stored {stored}")
        last = self.sent_epoch.get(node_id, 0)
        require(message.epoch >= last, 2, f"{node_id} said {last} before {message}")
        self.sent_epoch[node_id] = message.epoch
        if type(message) is VoteResponse and message.granted and not message.pre_vote:
            self._on_vote(host, target, message.epoch)
        elif type(message) is VoteRequest and not message.pre_vote:
            self._on_vote(host, node_id, message.epoch)
        elif type(message) is FetchRequest:
            durable = host.log.durable_offset
            require(message.fetch_offset <= durable, 8, f"{message} but durable is {durable}")

    def _on_vote(self, host: Host, candidate: int, epoch: int) -> None:
        voted = self.votes.setdefault((host.node_id, epoch), candidate)
        require(voted == candidate, 1, f"{host.node_id} votes {voted}, {candidate} in {epoch}")
        stored = host.stored.voted
        kept = host.stored.epoch == epoch and stored is not None and stored.node_id == candidate
        require(kept, 2, f"{host.node_id} grants {candidate} in {epoch}, stored {host.stored}")

    def _before_persist(self, host: Host, state: QuorumState) -> None:
        old = host.stored
        require(state.epoch >= old.epoch, 2, f"{host.node_id} stores {state} after {old}")
        if state.epoch == old.epoch and old.voted is not None:
            require(state.voted == old.voted, 1, f"{host.node_id} stores {state} after {old}")

    def _before_append(self, host: Host, entries: tuple[LogEntry, ...]) -> None:
        previous = host.log.last_epoch
        for entry in entries:
            fact = (entry.records, previous)
            known = self.written.setdefault((entry.offset, entry.epoch), fact)
            require(known == fact, 3, f"{host.node_id} appends {entry}, known as {known}")
            require(entry.epoch >= previous, 3, f"{entry} after epoch {previous}")
            previous = entry.epoch

    def _on_elected(self, host: Host, event: QuorumLeaderElected) -> None:
        other = self.leaders.setdefault(event.leader_epoch, event.node)
        require(other == event.node, 1, f"{other} and {event.node} lead {event.leader_epoch}")
        log = host.log
        require(log.log_end_offset >= self.committed_end, 4, f"{event} < {self.committed_end}")
        own = {entry.offset: entry for entry in log.entries}
        for offset, entry in self.committed.items():
            if offset >= log.log_start_offset:
                require(own.get(offset) == entry, 4, f"{event} lacks {entry}")

    def _before_commit(self, host: Host, high_watermark: int) -> None:
        node_id, log = host.node_id, host.log
        previous = self.high_watermark.get(node_id, 0)
        require(high_watermark > previous, 6, f"{node_id}: {previous} then {high_watermark}")
        self.high_watermark[node_id] = high_watermark
        for entry in log.entries_from(host.applied_offset, high_watermark):
            if entry.next_offset <= high_watermark:
                known = self.committed.setdefault(entry.offset, entry)
                require(known == entry, 5, f"{node_id} applies {entry}, known {known}")
        self.committed_end = max(self.committed_end, high_watermark)
        if self._role(host) == "leader":
            assert host.node is not None
            epoch = log.epochs.epoch_at(high_watermark - 1)
            require(epoch == host.node.epoch, 7, f"{node_id} exposes epoch {epoch}'s")
            holders = [k for k in host.node.voters if self._holds(k, high_watermark, epoch)]
            many = 2 * len(holders) > len(host.node.voters)
            require(many, 7, f"{node_id} commits {high_watermark} held by {holders}")

    def _holds(self, voter: VoterKey, end_offset: int, epoch: int) -> bool:
        log = self.hosts[voter.node_id].log
        if log.durable_offset < end_offset:
            return False
        snapshot = log.latest_snapshot
        if snapshot is not None and snapshot.end_offset >= end_offset:
            return True
        return log.epochs.epoch_at(end_offset - 1) == epoch

    def _before_install(self, host: Host, effect: InstallSnapshot) -> None:
        end_offset = effect.snapshot.end_offset
        require(end_offset <= self.committed_end, 5, f"{effect.snapshot} is not committed")
        high_watermark = self.high_watermark.get(host.node_id, 0)
        require(end_offset >= high_watermark, 6, f"{effect.snapshot} < {high_watermark}")
        self.high_watermark[host.node_id] = end_offset
        expected = self.state_at(end_offset)
        found = [record for record in effect.content if type(record) is not VotersRecord]
        require(found == expected, 5, f"{host.node_id} installs {found}, not {expected}")

    def state_at(self, end_offset: int) -> list[object]:
        return [
            record
            for offset in sorted(self.committed)
            if offset < end_offset and not self.committed[offset].control
            for record in self.committed[offset].records
        ]

    # Around a delivery -------------------------------------------------------------------

    def on_arrival(self, host: Host, source: int, message: QuorumMessage, now_ms: int) -> None:
        if type(message) in (FetchRequest, FetchSnapshotRequest):
            self.contacts.setdefault((host.node_id, message.epoch), {})[source] = now_ms

    def after_arrival(self, host: Host, message: QuorumMessage, before: QuorumState) -> None:
        if type(message) is VoteRequest and message.pre_vote and host.node is not None:
            after = host.node.state
            expected_epoch = max(before.epoch, message.epoch)
            require(after.epoch == expected_epoch, 9, f"pre-vote: {before} to {after}")
            if after.epoch == before.epoch:
                require(after.voted == before.voted, 9, f"pre-vote: {before} to {after}")
            else:
                require(after.voted is None, 9, f"pre-vote: {before} to {after}")

    def on_boot(self, host: Host) -> None:
        self.high_watermark[host.node_id] = host.applied_offset
        self.leading_since.pop(host.node_id, None)

    # After a step ------------------------------------------------------------------------

    def after_step(self, now_ms: int) -> None:
        """Rule 10: whoever leads has lately been asked by enough voters."""
        for node_id, host in self.hosts.items():
            node = host.node
            if node is None or node.role != "leader":
                continue
            since = self.leading_since.get(node_id)
            if since is None or since[0] != node.epoch or since[2] != node.voters:
                since = self.leading_since[node_id] = (node.epoch, now_ms, node.voters)
            needed = len(node.voters) // 2 + 1 - (host.key in node.voters)
            if needed == 0:
                continue
            heard = self.contacts.get((node_id, node.epoch), {})
            times = [
                max(since[1], heard.get(voter.node_id, 0))
                for voter in node.voters
                if voter != host.key
            ]
            oldest_ms = sorted(times, reverse=True)[needed - 1]
            limit_ms = host.settings.fetch_timeout_ms * 3 // 2
            require(now_ms - oldest_ms <= limit_ms, 10, f"{node_id} leads alone at {now_ms}")
