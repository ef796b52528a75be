"""Whatever is asked, lost, repeated or cut short, the rules 11 to 16 of kraft.md §12 hold.

Random requests meet random points of commit and of lost leadership; some requests are sent a
second time much later. Batches are tiny, so that most decisions are split and cut in half.
"""

from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.controller_cluster import Cluster
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.effects import Answer, AppendRecords, Effect
from tidelog.core.metadata.held_answers import may_be_held
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.metadata.replay import replay
from tidelog.core.requests import (
    ELECT_PREFERRED,
    ELECT_UNCLEAN,
    AllocateProducerIdsRequest,
    AlterConfigRequest,
    AlterPartitionRequest,
    AlterReassignmentRequest,
    ControllerRequest,
    CreatePartitionsRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    ElectLeadersRequest,
    HeartbeatRequest,
    IsrMember,
    IsrProposal,
    UnregisterBrokerRequest,
)
from tidelog.core.types import LogEntry, PartitionId

BROKERS = st.integers(1, 4)
REPLICAS = st.lists(BROKERS, min_size=1, max_size=4, unique=True).map(tuple)
TOPICS = st.sampled_from(["a", "b"])
# What takes everything away is rare, or nothing would ever be there to be taken.
COMMON = st.one_of(
    st.tuples(st.just("beat"), BROKERS, st.just(False), st.just(False)),
    st.tuples(st.just("beat"), BROKERS, st.just(False), st.just(False)),
    st.tuples(st.just("beat"), BROKERS, st.booleans(), st.booleans()),
    st.tuples(st.just("propose"), st.integers(0, 9), st.integers(0, 15), st.just(0)),
    st.tuples(st.just("propose"), st.integers(0, 9), st.integers(0, 15), st.just(0)),
    st.tuples(st.just("leave"), st.integers(0, 9), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("restart"), BROKERS, st.booleans()),
    st.tuples(st.just("reassign"), st.integers(0, 9), st.none() | REPLICAS),
    st.tuples(st.just("repeat"), st.integers(0, 50)),
    st.tuples(st.just("pass"), st.sampled_from([1, 1000, 4000])),
    st.tuples(st.just("commit"), st.integers(1, 4)),
    st.tuples(st.just("commit"), st.just(None)),
)
RARE = st.one_of(
    st.tuples(st.just("register"), BROKERS),
    st.tuples(st.just("create"), TOPICS, st.lists(REPLICAS, min_size=1, max_size=2)),
    st.tuples(st.just("grow"), TOPICS),
    st.tuples(st.just("delete"), TOPICS),
    st.tuples(st.just("propose"), st.integers(0, 9), st.integers(0, 15), st.sampled_from([-1, 1])),
    st.tuples(st.just("prefer")),
    st.tuples(st.just("minimum"), st.none() | TOPICS, st.integers(1, 3)),
    st.tuples(st.just("ids"), BROKERS),
    st.tuples(st.just("unregister"), BROKERS),
    st.tuples(st.just("gone"), BROKERS, st.sampled_from([0, 0, 0, -1, 1])),
    st.tuples(st.just("pass"), st.just(9000)),
    st.tuples(st.just("elect"), st.integers(0, 2), st.integers(0, 9)),
)
ACTIONS = st.one_of(COMMON, COMMON, COMMON, RARE)


BEING_DECIDED = -1


class Asked(NamedTuple):
    request: ControllerRequest
    claim_epoch: int
    log_end: int
    wrote: bool = False


class RandomCluster(Cluster):
    """Sends what the actions say and checks each answer as it is given."""

    def __init__(self, **changes: Any) -> None:
        self.asked: dict[object, Asked] = {}
        self.sent: list[ControllerRequest] = []
        super().__init__(nodes=3, commits=False, max_records_per_batch=4, **changes)
        self.commit()

    def send(self, request: ControllerRequest, node: int | None = None) -> int:
        self.sent.append(request)
        before = self.image.copy()
        token = self._tokens + 1
        self.asked[token] = Asked(request, self.claim_epoch, BEING_DECIDED)
        end = self.end_offset
        assert super().send(request, node) == token
        self.asked[token] = Asked(request, self.claim_epoch, self.end_offset, self.end_offset > end)
        if speaks_for_another_incarnation(request, before):
            assert self.end_offset == end, f"rule 13: {request} wrote records"
        return token

    def perform(self, effects: list[Effect]) -> None:
        """Rule 12: an answer is given when the log is committed as far as it was when the
        request had been decided, by the same claim or with the very entries that it wrote."""
        writes = any(isinstance(effect, AppendRecords) for effect in effects)
        for effect in effects:
            if not isinstance(effect, Answer):
                continue
            asked = self.asked[effect.token]
            if effect.response.error is Error.NOT_CONTROLLER:
                self.check_refused(asked)
            elif asked.log_end == BEING_DECIDED:
                assert self.committed_count == len(self.log)
                assert not writes
            else:
                committed = self.log[: self.committed_count]
                assert asked.log_end <= committed[-1].next_offset, asked
                assert self.wrote_last_of(asked, committed), asked
                assert asked.claim_epoch == self.claim_epoch or may_be_held(asked.request), asked
        super().perform(effects)

    def check_refused(self, asked: Asked) -> None:
        """Who asks again must not meet what the first request did."""
        if asked.wrote and may_be_held(asked.request):
            assert not self.wrote_last_of(asked, self.log), asked

    def wrote_last_of(self, asked: Asked, log: list[LogEntry]) -> bool:
        """The entry that ended the log when the request was decided is in this one."""
        return any(
            entry.next_offset == asked.log_end and entry.epoch == asked.claim_epoch for entry in log
        )

    def do(self, action: tuple[Any, ...]) -> None:
        kind, *arguments = action
        if kind == "pass":
            self.now_ms += arguments[0]
            while self.controller.next_deadline_ms <= self.now_ms:
                self.tick()
        elif kind == "commit":
            self.commit(arguments[0])
        elif kind == "elect":
            self.elect(arguments[0], kept=arguments[1])
        elif kind == "gone":
            self.tell_gone(*arguments)
        elif kind == "repeat":
            if self.sent:
                self.send(self.sent[arguments[0] % len(self.sent)])
        else:
            request = getattr(self, f"{kind}_action")(*arguments)
            if request is not None:
                self.send(request)

    def tell_gone(self, broker: int, age: int) -> None:
        """True or not: what follows has to be right in any case."""
        broker_epoch = self.controller.registered_epoch(broker) + age
        effects = self.controller.on_broker_gone(broker, broker_epoch, self.now_ms)
        assert age == 0 or effects == [], f"another incarnation of {broker} was fenced"
        self.perform(effects)

    def register_action(self, broker: int) -> ControllerRequest:
        return cast(ControllerRequest, self.register_request(broker))

    def restart_action(self, broker: int, clean: bool) -> ControllerRequest:
        self.starts[broker] = self.starts.get(broker, 0) + 1
        known = self.image.brokers.get(broker)
        previous = known.broker_epoch if clean and known is not None else -1
        return cast(ControllerRequest, self.register_request(broker, previous))

    def beat_action(self, broker: int, fence: bool, stop: bool) -> ControllerRequest | None:
        known = broker in self.image.brokers
        return self.beat_request(broker, fence=fence, stop=stop) if known else None

    def create_action(self, name: str, assignment: list[tuple[int, ...]]) -> ControllerRequest:
        return CreateTopicRequest(name, assignment=tuple(assignment))

    def grow_action(self, name: str) -> ControllerRequest:
        return CreatePartitionsRequest(name, 3)

    def delete_action(self, name: str) -> ControllerRequest:
        return DeleteTopicRequest(name)

    def some_partition(self, index: int) -> PartitionState | None:
        partitions = list(self.image.partitions())
        return partitions[index % len(partitions)] if partitions else None

    def propose_action(self, index: int, chosen: int, age: int) -> Any:
        """`chosen` has a bit for each replica that the leader, itself included, proposes."""
        partition = self.some_partition(index)
        if partition is None or partition.leader < 0:
            return None
        members = tuple(
            IsrMember(broker, self.image.brokers[broker].broker_epoch)
            for position, broker in enumerate(partition.replicas)
            if broker in self.image.brokers
            and (chosen >> position & 1 or broker == partition.leader)
        )
        proposal = IsrProposal(
            partition.id, partition.leader_epoch, partition.partition_epoch + age, members
        )
        return self.propose_request(partition.leader, proposal)

    def leave_action(self, index: int, place: int, age: int) -> Any:
        """A member of the ISR asks to be left out of it; nobody loses its leader by that."""
        partition = self.some_partition(index)
        if partition is None or not partition.isr:
            return None
        broker = partition.isr[place % len(partition.isr)]
        rest = tuple(IsrMember(each, -1) for each in partition.isr if each != broker)
        proposal = IsrProposal(
            partition.id, partition.leader_epoch, partition.partition_epoch + age, rest
        )
        led, isr = partition.leader >= 0, partition.isr
        if broker in self.image.brokers:
            self.send(self.propose_request(broker, proposal))
            assert not led or partition.leader in isr, (isr, partition)
        return None

    def prefer_action(self) -> ControllerRequest:
        return ElectLeadersRequest(ELECT_PREFERRED)

    def reassign_action(self, index: int, target: tuple[int, ...] | None) -> Any:
        partition = self.some_partition(index)
        return None if partition is None else AlterReassignmentRequest(partition.id, target)

    def minimum_action(self, topic: str | None, minimum: int) -> ControllerRequest:
        changes = (("min.insync.replicas", str(minimum)),)
        if topic is None:
            return AlterConfigRequest(r.RESOURCE_BROKER, "", changes)
        return AlterConfigRequest(r.RESOURCE_TOPIC, topic, changes)

    def ids_action(self, broker: int) -> ControllerRequest | None:
        known = self.image.brokers.get(broker)
        return None if known is None else AllocateProducerIdsRequest(broker, known.broker_epoch)

    def unregister_action(self, broker: int) -> ControllerRequest:
        return UnregisterBrokerRequest(broker)


def speaks_for_another_incarnation(request: ControllerRequest, image: MetadataImage) -> bool:
    if isinstance(request, HeartbeatRequest | AlterPartitionRequest | AllocateProducerIdsRequest):
        known = image.brokers.get(request.broker_id)
        return known is None or known.broker_epoch != request.broker_epoch
    return False


def check_images(cluster: RandomCluster) -> None:
    """Rule 11."""
    assert cluster.controller.current == cluster.replayed()
    committed = cluster.replayed(committed_only=True)
    for node in cluster.controllers:
        assert node.committed == committed
        assert node.active is (node is cluster.controller)
        if not node.active:
            assert node.pending_answers == 0
        assert node.held_answers == 0, "an election is committed, so everything is known"


def check_log(cluster: RandomCluster) -> None:
    """Rules 13 to 16 and 19, over every record of the log, committed or not."""
    image = MetadataImage()
    newest_epoch: dict[int, int] = {}
    for entry in cluster.log:
        if entry.control:
            continue
        for record in cast("tuple[r.MetadataRecord, ...]", entry.records):
            if isinstance(record, r.RegisterBroker):
                check_registration(image, record, newest_epoch)
            before = None
            if isinstance(record, r.PartitionChange):
                known = image.partition(PartitionId(record.topic_id, record.partition))
                assert known is not None
                before = known.copy()
            replay(image, record)
            if before is not None:
                check_change(image, before, cast(r.PartitionChange, record))
            check_partitions(image)


def check_registration(
    image: MetadataImage, record: r.RegisterBroker, newest_epoch: dict[int, int]
) -> None:
    known = image.brokers.get(record.broker_id)
    if known is not None and known.incarnation_id == record.incarnation_id:
        assert record.broker_epoch == known.broker_epoch
        return
    assert record.broker_epoch > newest_epoch.get(record.broker_id, -1)
    assert record.fenced
    newest_epoch[record.broker_id] = record.broker_epoch
    for partition in image.partitions():
        # Without ELR the last member is never taken out, or nobody could lead cleanly again.
        last = partition.isr == (record.broker_id,) and partition.leader == -1
        assert record.broker_id not in partition.isr or (last and not image.features.get(ELR))


ELR = "eligible.leader.replicas.version"


def check_partitions(image: MetadataImage) -> None:
    for partition in image.partitions():
        assert partition.leader == -1 or image.is_active(partition.leader)
        assert partition.leader == -1 or partition.leader in partition.isr
        assert set(partition.isr) <= set(partition.replicas)
        assert not set(partition.isr) & set(partition.elr)
        assert partition.isr or image.features.get(ELR)


def check_change(image: MetadataImage, before: PartitionState, record: r.PartitionChange) -> None:
    after = image.partition(before.id)
    assert after is not None
    assert after.partition_epoch == before.partition_epoch + 1
    dropped = not set(before.replicas) <= set(after.replicas)
    bumped = after.leader != before.leader or dropped
    assert after.leader_epoch == before.leader_epoch + bumped
    joined = set(after.isr) - set(before.isr)
    assert all(image.is_active(broker) for broker in joined)
    if after.leader in (before.leader, -1):
        return
    clean = after.leader in before.isr or after.leader in before.elr
    moved = record.replicas is not None and after.leader in after.isr and len(before.isr) > 0
    last_known = before.last_known_elr == (after.leader,) and not before.isr and not before.elr
    assert clean or moved or (last_known and after.leader_recovery_state == r.RECOVERING), (
        f"rule 16: {before} -> {record}"
    )


@given(st.lists(ACTIONS, max_size=60), st.booleans(), st.integers(1, 3))
@settings(max_examples=120, deadline=None)
def test_any_sequence_of_requests_commits_and_failovers_keeps_the_rules(
    actions: list[tuple[Any, ...]], elr: bool, minimum: int
) -> None:
    cluster = RandomCluster(elr_enabled=elr, min_insync_replicas=minimum)
    for broker in (1, 2, 3, 4):
        cluster.send(cluster.register_request(broker))
        cluster.send(cluster.beat_request(broker))
    cluster.send(CreateTopicRequest("a", assignment=((1, 2, 3), (2, 3, 1))))
    cluster.send(CreateTopicRequest("b", assignment=((4, 1), (3, 4))))
    cluster.commit()
    for action in actions:
        cluster.do(action)
        check_images(cluster)
    cluster.commit()
    check_images(cluster)
    check_log(cluster)
    assert cluster.controller.pending_answers == 0
    assert all(len(given) == 1 for given in cluster.answers.values())
    assert set(cluster.answers) == set(cluster.asked), "everybody got an answer"


def test_the_checks_notice_a_leader_from_outside() -> None:
    """The rule 16 check can fail: an unclean election is one that it must not take for clean."""
    cluster = RandomCluster(elr_enabled=False)
    for broker in (1, 2):
        cluster.send(cluster.register_request(broker))
        cluster.send(cluster.beat_request(broker))
    cluster.send(CreateTopicRequest("a", assignment=((1, 2),)))
    (partition,) = cluster.image.partitions()
    cluster.send(cluster.propose_request(1, cluster.proposal(partition.id, 1)))
    cluster.send(cluster.beat_request(1, fence=True))
    check_log(cluster)
    cluster.send(ElectLeadersRequest(ELECT_UNCLEAN))
    with pytest.raises(AssertionError, match="rule 16"):
        check_log(cluster)
