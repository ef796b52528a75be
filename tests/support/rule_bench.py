"""A bench for rules: stand-ins that can be put into any state, also impossible ones.

Logs are real (`ObjectLog`); replicas are plain objects with the attributes a rule may look at. The
judge attends with all rules, so a near miss is a near miss for every one of them.
"""

from dataclasses import dataclass, field

from support.bench_books import Books
from support.object_log import ObjectBatch, ObjectLog, client_batch
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.quorum.messages import VoterKey
from tidelog.core.quorum.state import QuorumState
from tidelog.core.replication.inputs import FetchDecision, FollowerFetch
from tidelog.core.types import LogEntry, PartitionId
from tidelog.sim.judge import Judge

TOPIC = b"\x00\x00\x00\x01orders"
PARTITION = PartitionId(TOPIC, 0)


@dataclass
class Progress:
    log_end_offset: int = -1
    broker_epoch: int = -1


@dataclass
class Leading:
    isr: tuple[int, ...]
    progress: dict[int, Progress] = field(default_factory=dict)
    joining: tuple[int, ...] = ()

    def maximal_isr(self) -> tuple[int, ...]:
        return (*self.isr, *self.joining)


@dataclass
class Settings:
    min_insync_replicas: int = 1


@dataclass(eq=False)
class Copy:
    """A replica in any state."""

    broker_id: int
    log: ObjectLog = field(default_factory=lambda: ObjectLog(fsync=False))
    partition: PartitionId = PARTITION
    settings: Settings = field(default_factory=Settings)
    high_watermark: int = 0
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    role: Leading | None = None
    stable: int | None = None

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark if self.stable is None else self.stable

    @property
    def leading(self) -> Leading:
        assert self.role is not None
        return self.role


@dataclass
class StandInQuorumNode:
    voters: tuple[VoterKey, ...]


class Bench:
    """A world of one partition on a few brokers, told to the judge step by step."""

    def __init__(self, *brokers: int, min_isr: int = 1) -> None:
        self.now_ms = 0
        self.check_quorum_ms = 3_000
        self.durable = True
        self.copies = {b: Copy(b, settings=Settings(min_isr)) for b in brokers}
        self.stopped: list[int] = []
        self.nodes: dict[int, StandInQuorumNode] = {}
        self.controller_list: list[tuple[int, object]] = []
        self.incarnations: dict[int, bytes] = {}
        self.books = Books(MetadataImage(), self.new_values)
        self.judge = Judge()
        self.judge.attend(self)
        self.offset = 0
        self.values = 0
        self.quorum_epoch = 1

    def __getitem__(self, broker: int) -> Copy:
        return self.copies[broker]

    @property
    def broken(self) -> list[str]:
        """Numbers of the rules broken so far, each once, in order."""
        return sorted(rule.split()[0] for rule in self.judge.broken)

    def new_values(self, count: int) -> tuple[int, ...]:
        self.values += count
        return tuple(range(self.values - count, self.values))

    # -- WorldView

    def replicas(self, partition: PartitionId) -> list[Copy]:
        return [copy for b, copy in self.copies.items() if b not in self.stopped]

    def all_logs(self, partition: PartitionId) -> list[tuple[int, ObjectLog]]:
        return [(b, copy.log) for b, copy in self.copies.items()]

    def partitions(self) -> list[PartitionId]:
        return [PARTITION]

    def expected_durable(self, partition: PartitionId) -> bool:
        return self.durable

    def quorum_nodes(self) -> list[tuple[int, StandInQuorumNode]]:
        return list(self.nodes.items())

    def incarnation_of(self, node_id: int) -> bytes | None:
        return self.incarnations.get(node_id)

    def controllers(self) -> list[tuple[int, object]]:
        return self.controller_list

    # -- metadata

    def commit(self, *records: object, node: int = 1, control: bool = False) -> LogEntry:
        """The quorum commits one batch, and one node applies it."""
        entry = LogEntry(self.offset, self.quorum_epoch, records, control)
        self.offset = entry.next_offset
        self.judge.metadata_appended(node, entry)
        self.judge.chronicle.quorum.committed_end = self.offset
        self.judge.metadata_committed(node, entry)
        return entry

    def register(self, *brokers: int, epoch: int | None = None) -> None:
        """Registered and unfenced, with a new incarnation each time."""
        for broker in brokers:
            broker_epoch = self.offset if epoch is None else epoch
            incarnation = b"%d@%d" % (broker, self.offset)
            self.commit(r.RegisterBroker(broker, incarnation, broker_epoch))
            self.commit(r.BrokerRegistrationChange(broker, broker_epoch, fenced=-1))

    def create(self, leader: int, *isr: int, **fields: object) -> None:
        """The partition on all brokers of the bench."""
        record = r.Partition(0, TOPIC, tuple(self.copies), isr or (leader,), leader=leader)
        self.commit(r.Topic("orders", TOPIC), record._replace(**fields))

    def change(self, **fields: object) -> None:
        self.commit(r.PartitionChange(0, TOPIC, **fields))

    def led_by(self, leader: int, *isr: int, min_isr: int = 1) -> Copy:
        """Brokers registered, partition created, everybody told."""
        self.register(*self.copies)
        self.create(leader, *(isr or tuple(self.copies)))
        self.tell()
        return self[leader]

    def tell(self, *brokers: int, unclean: bool = False) -> None:
        """These brokers (all running ones) take up the committed metadata."""
        state = self.judge.chronicle.facts(PARTITION).state
        for broker in brokers or [b for b in self.copies if b not in self.stopped]:
            copy = self[broker]
            copy.leader, copy.leader_epoch = state.leader, state.leader_epoch
            copy.partition_epoch = state.partition_epoch
            if state.leader == broker:
                others = [b for b in state.replicas if b != broker]
                copy.role = Leading(state.isr, {b: Progress() for b in others})
                self.judge.became_leader(copy, unclean)
            else:
                copy.role = None
                self.judge.became_follower(copy)

    # -- records

    def append(self, broker: int, count: int = 1, **producer: int) -> ObjectBatch:
        """The leader appends one batch."""
        self.values += count
        values = tuple(range(self.values - count, self.values))
        copy = self[broker]
        batch = copy.log.append_as_leader(client_batch(values, **producer), copy.leader_epoch)
        self.judge.leader_appended(copy, batch)
        return batch

    def copy(self, source: int, target: int, upto: int | None = None) -> None:
        """The follower appends what it lacks."""
        log = self[target].log
        end = self[source].log.log_end_offset if upto is None else upto
        batches = self[source].log.read(log.log_end_offset, end, 1_000)
        if batches:
            log.append_as_follower(batches)
            self.judge.follower_appended(self[target], batches)

    def fetch(self, target: int, source: int, **fields: object) -> None:
        """The follower's acknowledgement of all it has reaches the leader."""
        follower, leader = self[target], self[source]
        registration = self.judge.chronicle.registered_epoch(target)
        end = follower.log.log_end_offset
        fetch = FollowerFetch(target, registration, follower.leader_epoch, end, 0, 0)
        known = leader.leading.progress.setdefault(target, Progress())
        known.log_end_offset, known.broker_epoch = end, registration
        self.judge.follower_fetched(leader, fetch._replace(**fields), served(end))

    def move(self, broker: int, high_watermark: int) -> None:
        copy = self[broker]
        previous, copy.high_watermark = copy.high_watermark, high_watermark
        self.judge.high_watermark_moved(copy, previous)

    def replicate(self, leader: int, *followers: int) -> None:
        """Everything the leader has is copied, acknowledged and committed everywhere."""
        for follower in followers:
            self.copy(leader, follower)
            self.fetch(follower, leader)
        end = self[leader].log.log_end_offset
        for broker in (leader, *followers):
            self.move(broker, end)

    def cut(self, broker: int, offset: int) -> None:
        copy = self[broker]
        previous = copy.log.log_end_offset
        copy.log.truncate_to(offset)
        copy.high_watermark = min(copy.high_watermark, copy.log.log_end_offset)
        self.judge.truncated(copy, previous)

    def stop(self, node: int, kind: str = "crash", *, keep: int | None = None) -> None:
        self.stopped.append(node)
        if keep is not None:
            self[node].log.truncate_to(keep)
        self.judge.node_stopped(node, kind)

    def start(self, node: int) -> Copy:
        """A new process on the old disk."""
        old = self[node]
        self.copies[node] = Copy(node, old.log, settings=old.settings)
        self.stopped.remove(node)
        self.judge.node_started(node)
        return self[node]

    # -- the quorum

    def quorum(self, *voters: int) -> None:
        keys = tuple(key(voter) for voter in voters)
        self.nodes = {voter: StandInQuorumNode(keys) for voter in voters}

    def store(self, node: int, epoch: int, *, leader: int = -1, voted: int | None = None) -> None:
        state = QuorumState(epoch, leader, None if voted is None else key(voted))
        self.judge.quorum_state_persisted(node, state)

    def lead_quorum(self, node: int, epoch: int, start: int) -> None:
        """Candidate, then leader, as it would be."""
        self.store(node, epoch, voted=node)
        self.store(node, epoch, leader=node, voted=node)
        self.judge.quorum_leader(node, epoch, start)


def key(node: int) -> VoterKey:
    return VoterKey(node, b"disk")


def served(end: int, error: Error = Error.NONE) -> FetchDecision:
    return FetchDecision(error, None, end, end, 0, 0, 0)
