"""What is known of the whole cluster at any moment, kept once for all rules.

The chronicle hears every happening before the rules do. It holds the committed prefix C(p) of
each partition (replication.md §12): everything below the highest high watermark that a leader
held which was legitimate for its epoch. A deposed leader that does not know it yet counts as
legitimate: the acknowledgements it still receives are real, so whatever they commit has to be
in its successor's log. Only leaders from before an unclean election are left out after it.

It judges nothing. Contradictions are left as they are for the rules to find.
"""

from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControllerRequest,
    ControllerResponse,
    IsrProposal,
)
from tidelog.core.types import NO_EPOCH, LogEntry, PartitionId
from tidelog.sim.recovery_facts import Recovery
from tidelog.sim.rules.group_facts import GroupFacts
from tidelog.sim.rules.plain_image import (
    NOTHING_COMMITTED,
    Committed,
    PlainImage,
    Replayer,
)
from tidelog.sim.rules.quorum_facts import QuorumFacts
from tidelog.sim.rules.transaction_facts import Fates
from tidelog.sim.rules.view import (
    Hook,
    LogFace,
    RecordBatch,
    ReplicaFace,
    WorldView,
)

_CERTAINLY_DECIDED = (Error.NONE, Error.INELIGIBLE_REPLICA, Error.OPERATION_NOT_ATTEMPTED)


def has_batch(log: LogFace, batch: RecordBatch) -> bool:
    """Each broker compacts for itself: it takes batches away and writes others anew. What is left
    to compare then is who wrote up to where."""
    if log.may_have_gaps:
        reaches = log.log_end_offset > batch.last_offset
        return reaches and log.epochs.epoch_at(batch.last_offset) == batch.leader_epoch
    return log.batch_at(batch.last_offset) == batch


class PartitionFacts:
    """One partition across all its replicas and over the whole run."""

    __slots__ = (
        "chained",
        "committed_by_epoch",
        "committed_end",
        "digests",
        "ends",
        "extended_by",
        "highest_held",
        "history",
        "id",
        "leader_of_epoch",
        "pending",
        "removed",
        "replicas",
        "state",
        "tenure_start",
        "top_epoch",
        "top_replica",
        "unclean_epoch",
    )

    def __init__(self, partition: PartitionId) -> None:
        self.id = partition
        # C(p): where it ends, and at each batch border the batch before it and the digest.
        self.committed_end = 0
        self.ends: dict[int, RecordBatch] = {}
        self.digests: dict[int, int | None] = {}
        self.extended_by: ReplicaFace | None = None
        # Digests start anew when a replica drops its whole log; then batches are compared.
        self.chained = True
        self.committed_by_epoch: dict[int, int] = {}
        # Committed metadata, by partition epoch; `state` is the newest.
        self.history: dict[int, Committed] = {}
        self.state = NOTHING_COMMITTED
        self.leader_of_epoch: dict[int, int] = {}
        self.removed = False
        # Replicas of running brokers; the leader of the highest epoch anybody took up.
        self.replicas: dict[int, ReplicaFace] = {}
        self.top_epoch = NO_EPOCH
        self.top_replica: ReplicaFace | None = None
        self.unclean_epoch = NO_EPOCH
        # Per broker: highest high watermark held since it started; log end when its current,
        # uninterrupted leadership began; proposals the controller has not decided.
        self.highest_held: dict[int, int] = {}
        self.tenure_start: dict[int, int] = {}
        self.pending: dict[int, list[IsrProposal]] = {}

    def holds(self, log: LogFace, offset: int) -> bool:
        """Does this log hold C(p) up to `offset`? False also when C(p) has no border there."""
        if offset <= log.log_start_offset:
            return log.log_end_offset >= offset
        if self.chained:
            digest = log.chain_at(offset)
            return digest is not None and digest == self.digests.get(offset)
        last = self.ends.get(offset)
        return last is not None and has_batch(log, last)

    def holds_committed(self, log: LogFace) -> bool:
        return self.holds(log, self.committed_end)

    def same(self, one: LogFace, other: LogFace, offset: int) -> bool:
        """Are two logs equal below `offset`, a batch border, and do both reach it?"""
        if one.log_end_offset < offset or other.log_end_offset < offset:
            return False
        if offset <= max(one.log_start_offset, other.log_start_offset):
            return True
        if self.chained:
            return one.chain_at(offset) == other.chain_at(offset)
        if one.may_have_gaps or other.may_have_gaps:
            return one.epochs.epoch_at(offset - 1) == other.epochs.epoch_at(offset - 1)
        return one.batch_at(offset - 1) == other.batch_at(offset - 1)

    def committed_before(self, leader_epoch: int) -> int:
        """End of what leaders of earlier epochs have committed."""
        return max(
            (end for e, end in self.committed_by_epoch.items() if e < leader_epoch), default=0
        )

    def outstanding(self, replica: ReplicaFace) -> list[IsrProposal]:
        """Proposals of this leader that the controller may still commit or has committed."""
        proposals = self.pending.get(replica.broker_id)
        if not proposals:
            return []
        return [p for p in proposals if p.partition_epoch == replica.partition_epoch]

    def forget_broker(self, broker: int) -> None:
        self.replicas.pop(broker, None)
        self.highest_held.pop(broker, None)
        self.tenure_start.pop(broker, None)
        self.pending.pop(broker, None)


class Chronicle:
    """Facts for all rules. `batch_committed`, `transaction_ended`, `group_changed`,
    `record_committed`, `partition_changed` and `entry_committed` are hooks it offers to the
    rules; each fires once in a run per fact."""

    __slots__ = (
        "_interned",
        "_last",
        "away",
        "batch_committed",
        "entries",
        "entry_at",
        "entry_committed",
        "fates",
        "group_changed",
        "groups",
        "image",
        "next_offset",
        "partition_changed",
        "partitions",
        "quorum",
        "record_committed",
        "replayer",
        "transaction_ended",
    )

    def __init__(self, world: WorldView) -> None:
        self.partitions: dict[PartitionId, PartitionFacts] = {}
        self._last = PartitionFacts(PartitionId(b"", -1))
        self.image = PlainImage()
        self.entries: list[LogEntry] = []
        self.entry_at: dict[int, LogEntry] = {}
        self.next_offset = 0
        self.replayer = Replayer(self.entries)
        self.quorum = QuorumFacts(world)
        self.fates = Fates(world)
        self.groups = GroupFacts()
        self._interned = world.books.interned
        # Brokers whose process ended, with the incarnation that did: until the next one is
        # registered, metadata still speaks of a broker that may have lost its memory.
        self.away: dict[int, bytes | None] = {}
        self.batch_committed: Hook = ignore
        self.record_committed: Hook = ignore
        self.partition_changed: Hook = ignore
        self.entry_committed: Hook = ignore
        self.transaction_ended: Hook = ignore
        self.group_changed: Hook = ignore

    def facts(self, partition: PartitionId) -> PartitionFacts:
        """Several rules ask for the same partition in a row, so the last one is remembered."""
        if partition is self._last.id:
            return self._last
        found = self.partitions.get(partition)
        if found is None:
            found = self.partitions[partition] = PartitionFacts(partition)
        found.id = partition  # of equal names the one that is in use: `is` costs nothing
        self._last = found
        return found

    def registered_epoch(self, broker: int) -> int:
        registration = self.image.brokers.get(broker)
        return NO_EPOCH if registration is None else registration.broker_epoch

    # -- data plane

    def became_leader(self, replica: ReplicaFace, unclean: bool) -> None:
        facts = self.facts(replica.partition)
        broker = replica.broker_id
        facts.replicas[broker] = replica
        facts.tenure_start.setdefault(broker, replica.log.log_end_offset)
        facts.pending.pop(broker, None)
        if replica.leader_epoch > facts.top_epoch:
            facts.top_epoch = replica.leader_epoch
            facts.top_replica = replica
        if unclean:
            facts.unclean_epoch = max(facts.unclean_epoch, replica.leader_epoch)

    def became_follower(self, replica: ReplicaFace) -> None:
        facts = self.facts(replica.partition)
        broker = replica.broker_id
        facts.replicas[broker] = replica
        facts.tenure_start.pop(broker, None)
        facts.pending.pop(broker, None)

    def high_watermark_moved(self, replica: ReplicaFace, _previous: int) -> None:
        facts = self.facts(replica.partition)
        high_watermark = replica.high_watermark
        broker = replica.broker_id
        if high_watermark > facts.highest_held.get(broker, 0):
            facts.highest_held[broker] = high_watermark
        if replica.leader != broker:
            return
        epoch = replica.leader_epoch
        if epoch < facts.unclean_epoch or facts.leader_of_epoch.get(epoch, broker) != broker:
            return
        if high_watermark > facts.committed_end:
            self._extend(facts, replica)
        if high_watermark > facts.committed_by_epoch.get(epoch, 0):
            facts.committed_by_epoch[epoch] = min(high_watermark, facts.committed_end)

    def _extend(self, facts: PartitionFacts, replica: ReplicaFace) -> None:
        log = replica.log
        end = facts.committed_end
        if not facts.holds(log, end):
            return
        high_watermark = replica.high_watermark
        while end < high_watermark:
            batch = log.batch_at(end)
            if batch is None and log.may_have_gaps:
                end += 1  # compaction took what was there
                continue
            if batch is None or batch.base_offset != end:
                return
            end = batch.last_offset + 1
            if end > high_watermark:
                break
            facts.ends[end] = batch
            facts.digests[end] = log.chain_at(end)
            facts.committed_end = end
            if batch.is_transactional:
                ended = self.fates.follow(facts.id, batch)
                if ended:
                    self.transaction_ended(facts, batch, ended)
                if batch.is_control:
                    self.groups.end(facts.id, batch)
            records = () if batch.is_control else self._interned(batch.values[0])
            if records:
                self.groups.follow(facts.id, batch, records)
                self.group_changed(facts, batch, records)
            self.batch_committed(facts, batch)
        facts.extended_by = replica

    def truncated(self, replica: ReplicaFace, _previous_end: int) -> None:
        """Digests start anew when a whole log is dropped. They differ for good when a log is cut
        back to where its leader's begins: what lies before, nobody can compare any more."""
        facts = self.facts(replica.partition)
        end = replica.log.log_end_offset
        leader = facts.top_replica
        leader_start = leader.log.log_start_offset if leader is not None else 0
        if (end and end == replica.log.log_start_offset) or (leader_start and end <= leader_start):
            facts.chained = False

    def log_recovered(self, recovery: Recovery) -> None:
        """Digests of a log read back from its bytes begin at its log start."""
        if recovery.found.log_start_offset:
            self.facts(recovery.partition).chained = False

    def isr_proposed(self, replica: ReplicaFace, proposal: IsrProposal) -> None:
        facts = self.facts(replica.partition)
        facts.pending[replica.broker_id] = [*facts.outstanding(replica), proposal]

    def isr_adopted(self, replica: ReplicaFace, _previous: tuple[int, ...]) -> None:
        self.facts(replica.partition).pending.pop(replica.broker_id, None)

    # -- control plane

    def metadata_committed(self, _node: int, entry: LogEntry) -> None:
        if entry.offset < self.next_offset:
            return
        self.next_offset = entry.next_offset
        self.entries.append(entry)
        self.entry_at[entry.offset] = entry
        if entry.control:
            return
        for record in entry.records:
            self._commit(record, entry)
        self.entry_committed(entry)

    def _commit(self, record: object, entry: LogEntry) -> None:
        self.record_committed(record, entry)
        if isinstance(record, r.RegisterBroker) and (
            self.away.get(record.broker_id, b"") != record.incarnation_id
        ):
            self.away.pop(record.broker_id, None)
        if not isinstance(record, r.PartitionChange | r.Partition):
            if isinstance(record, r.RemoveTopic):
                self._forget_topic(record.topic_id)
            self.image.apply(record)
            return
        facts = self.facts(PartitionId(record.topic_id, record.partition))
        before = facts.state
        self.image.apply(record)
        after = self.image.partitions[facts.id]
        facts.state = facts.history[after.partition_epoch] = after
        facts.leader_of_epoch.setdefault(after.leader_epoch, after.leader)
        self.partition_changed(facts, before, record)

    def _forget_topic(self, topic_id: bytes) -> None:
        for partition in self.image.partitions:
            if partition.topic_id == topic_id:
                self.facts(partition).removed = True

    def controller_answered(
        self, _node: int, request: ControllerRequest, response: ControllerResponse
    ) -> None:
        """Only these answers prove that the controller is done with a proposal."""
        if not isinstance(request, AlterPartitionRequest):
            return
        assert isinstance(response, AlterPartitionResponse), f"{request} answered by {response}"
        decided = [r.partition for r in response.results if r.error in _CERTAINLY_DECIDED]
        for proposal in request.proposals:
            if proposal.partition in decided:
                pending = self.facts(proposal.partition).pending.get(request.broker_id)
                if pending and proposal in pending:
                    pending.remove(proposal)

    # -- nodes

    def node_stopped(self, node: int, _kind: str) -> None:
        registration = self.image.brokers.get(node)
        self.away[node] = None if registration is None else registration.incarnation_id
        for facts in self.partitions.values():
            facts.forget_broker(node)


def ignore(*_arguments: object) -> None:
    """A hook nobody listens to."""


def witness(chronicle: Chronicle, replica: ReplicaFace, facts: PartitionFacts, broker: int) -> bool:
    """May the leader's knowledge of this broker be compared with the broker's log?

    Not when the broker has restarted since: what it acknowledged it may have lost, and the
    controller takes its seat away when it registers again (KIP-903, KIP-966).
    """
    follower = facts.replicas.get(broker)
    if follower is None or broker in chronicle.away:
        return False
    if follower.leader_epoch > replica.leader_epoch:
        return False  # it follows a successor now and may have reconciled with it
    known = replica.role.progress.get(broker)
    if known is None:
        return False
    registered = chronicle.registered_epoch(broker)
    return bool(known.broker_epoch == registered or NO_EPOCH in (known.broker_epoch, registered))
