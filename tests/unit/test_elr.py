"""Eligible leader replicas: the set itself, then the promise it makes about acknowledged records.

The second half is a small model of one partition with logs, followers that fetch, leaders that
know less than the controller, crashes that lose a tail, and an operator who changes the minimum
and moves replicas. After each step everybody who could be elected cleanly must hold everything
that was ever committed (replication.md §12, rules 4 to 6).
"""

from contextlib import suppress
from random import Random

import pytest

from tidelog.core.metadata import elections, elr, partition_change
from tidelog.core.metadata import records as r
from tidelog.core.metadata.elr import (
    ElrInputs,
    effective_min_isr,
    next_elr,
    next_last_known_elr,
)
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.metadata.partition_change import (
    ChangeContext,
    WantedChange,
    after_min_isr_change,
    build_change,
    cancel_reassignment,
    leave_isr,
    lose_seats,
    new_partition,
    start_reassignment,
)
from tidelog.core.metadata.refusal import ReassignmentError
from tidelog.core.metadata.replay import replay
from tidelog.core.types import NO_LEADER, PartitionId

TOPIC = b"T" * 16


def inputs(
    isr: tuple[int, ...],
    *,
    old_isr: tuple[int, ...] = (1, 2, 3),
    old_elr: tuple[int, ...] = (),
    replicas: tuple[int, ...] = (1, 2, 3),
    restarted: tuple[int, ...] = (),
    minimum: int = 2,
    enabled: bool = True,
    leader: int = 1,
    last_known: tuple[int, ...] = (),
) -> ElrInputs:
    partition = PartitionState(
        PartitionId(TOPIC, 0), (1, 2, 3), old_isr, (), (), leader, 0, 0, 0, old_elr, last_known
    )
    return ElrInputs(partition, replicas, isr, restarted, minimum, enabled)


def test_the_minimum_is_capped_by_the_assignment() -> None:
    assert effective_min_isr(2, 3) == 2
    assert effective_min_isr(5, 3) == 3
    assert effective_min_isr(1, 1) == 1
    with pytest.raises(AssertionError, match="below 1"):
        effective_min_isr(0, 3)


def test_an_isr_that_can_commit_has_no_elr() -> None:
    assert next_elr(inputs((1, 2), old_elr=())) == ()
    assert next_elr(inputs((1, 3), old_isr=(1,), old_elr=(2,))) == ()


def test_who_leaves_an_isr_that_gets_too_small_is_eligible() -> None:
    assert next_elr(inputs((1,), old_isr=(1, 2))) == (2,)
    assert next_elr(inputs((), old_isr=(1,), old_elr=(2,))) == (1, 2)
    assert next_elr(inputs((3,), old_isr=(3, 2, 1))) == (1, 2)


def test_an_uncleanly_restarted_replica_is_not_eligible() -> None:
    assert next_elr(inputs((1,), old_isr=(1, 2), restarted=(2,))) == ()
    assert next_elr(inputs((1,), old_isr=(1,), old_elr=(2, 3), restarted=(2,))) == (3,)


def test_a_replica_that_was_dropped_is_not_eligible() -> None:
    assert next_elr(inputs((), old_isr=(1, 2), old_elr=(3,), replicas=(2, 3))) == (2, 3)


def test_switched_off_nobody_enters_but_those_inside_are_not_forgotten() -> None:
    assert next_elr(inputs((), old_isr=(1,), old_elr=(2,), enabled=False)) == (2,)
    assert next_elr(inputs((1,), old_isr=(1, 2), enabled=False)) == ()


def test_the_last_leader_is_noted_when_the_isr_runs_empty() -> None:
    assert next_last_known_elr(inputs((), old_isr=(3,), leader=3)) == (3,)
    assert next_last_known_elr(inputs((), old_isr=(3,), leader=NO_LEADER)) == (3,)
    assert next_last_known_elr(inputs((), old_isr=(), leader=NO_LEADER, last_known=(2,))) == (2,)


def test_the_last_leader_is_forgotten_when_the_isr_can_commit_again() -> None:
    assert next_last_known_elr(inputs((1,), last_known=(3,))) == (3,)
    assert next_last_known_elr(inputs((1, 2), last_known=(3,))) == ()
    assert next_last_known_elr(inputs((1,), last_known=(3,), replicas=(1, 2))) == ()


class BrokerModel:
    """One broker: its log, and what it knows of the partition."""

    def __init__(self, broker: int) -> None:
        self.id = broker
        self.log: list[int] = []
        self.alive = True
        self.lost_tail = False
        self.knows: PartitionState | None = None
        self.min_isr = 1
        self.epoch_start = 0
        self.high_watermark = 0
        self.broker_epoch = broker
        self.acknowledged: dict[int, int] = {}
        self.acknowledged_in: dict[int, int] = {}  # broker epoch of who said so (KIP-903)
        self.joining: tuple[int, ...] = ()

    @property
    def leads(self) -> bool:
        return self.alive and self.knows is not None and self.knows.leader == self.id


class UncleanError(Exception):
    """The model ends here: from now on records may be lost by permission."""


class Model:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.image = MetadataImage()
        self.brokers = {broker: BrokerModel(broker) for broker in range(1, 5)}
        self.min_isr = self.random.randrange(1, 4)
        self.committed: list[int] = []
        self.next_record = 0
        self.next_epoch = 100
        self.commits = 0
        for broker in self.brokers:
            replay(self.image, r.RegisterBroker(broker, b"0", broker, fenced=False))
        replay(self.image, r.Topic("orders", TOPIC))
        replay(self.image, new_partition(TOPIC, 0, (1, 2, 3), self.image.is_active))
        self.partition = next(self.image.partitions())

    def step(self) -> None:
        broker = self.brokers[self.random.randrange(1, 5)]
        actions = (
            [self.produce] * 20
            + [self.fetch] * 60
            + [self.propose] * 12
            + [self.read_metadata] * 20
            + [self.calm] * 5
            + [self.unfence] * 12
            + [self.restart] * 6
            + [self.fence, self.fence, self.crash]
            + [self.change_min_isr, self.reassign, self.cancel]
        )
        self.random.choice(actions)(broker)
        self.check()

    def check(self) -> None:
        for broker in self.partition.isr + self.partition.elr:
            model = self.brokers[broker]
            if not model.lost_tail:
                assert model.log[: len(self.committed)] == self.committed, (
                    f"{broker} of {self.partition} lacks committed records"
                )

    # What the controller does

    @property
    def context(self) -> ChangeContext:
        return ChangeContext(self.min_isr, True, self.image.is_active)

    def apply(self, change: r.PartitionChange | None) -> None:
        if change is None:
            return
        if change.leader_recovery_state == r.RECOVERING:
            raise UncleanError
        replay(self.image, change)

    def fence(self, broker: BrokerModel) -> None:
        self.apply(leave_isr(self.partition, broker.id, self.context))
        epoch = self.image.brokers[broker.id].broker_epoch
        replay(self.image, r.BrokerRegistrationChange(broker.id, epoch, fenced=1))

    def unfence(self, broker: BrokerModel) -> None:
        if not broker.alive or broker.lost_tail:
            return  # dead, or not yet registered again
        epoch = self.image.brokers[broker.id].broker_epoch
        replay(self.image, r.BrokerRegistrationChange(broker.id, epoch, fenced=-1))
        if self.partition.leader == NO_LEADER:
            self.apply(build_change(self.partition, WantedChange(), self.context))

    def change_min_isr(self, _broker: BrokerModel) -> None:
        before, self.min_isr = self.min_isr, self.random.randrange(1, 4)
        self.apply(after_min_isr_change(self.partition, before, self.context))

    def reassign(self, _broker: BrokerModel) -> None:
        target = tuple(self.random.sample(range(1, 5), self.random.randrange(1, 5)))
        registered = self.image.brokers.__contains__
        self.apply(start_reassignment(self.partition, target, registered, self.context))

    def cancel(self, _broker: BrokerModel) -> None:
        with suppress(ReassignmentError):
            self.apply(cancel_reassignment(self.partition, self.context))

    # What brokers do

    def calm(self, _broker: BrokerModel) -> None:
        """A while without trouble, for most of them."""
        lucky = [broker for broker in self.brokers.values() if self.random.random() < 0.8]
        for action in (self.read_metadata, self.produce, self.fetch, self.fetch, self.propose):
            for broker in lucky:
                action(broker)

    def crash(self, broker: BrokerModel) -> None:
        """Dies and loses what was not synced. The controller notices when it notices."""
        broker.alive = False
        broker.lost_tail = True
        broker.knows = None
        del broker.log[self.random.randrange(len(broker.log) + 1) :]

    def restart(self, broker: BrokerModel) -> None:
        if broker.alive and self.random.random() < 0.8:
            return
        rule = lose_seats if broker.lost_tail else leave_isr
        self.apply(rule(self.partition, broker.id, self.context))
        self.next_epoch += 1
        incarnation = b"%d" % self.next_epoch
        replay(self.image, r.RegisterBroker(broker.id, incarnation, self.next_epoch))
        broker.alive, broker.lost_tail, broker.knows = True, False, None
        broker.broker_epoch = self.next_epoch

    def read_metadata(self, broker: BrokerModel) -> None:
        if not broker.alive:
            return
        before, broker.knows = broker.knows, self.partition.copy()
        broker.min_isr = self.min_isr
        if broker.leads and (before is None or before.leader_epoch < broker.knows.leader_epoch):
            assert broker.log[: len(self.committed)] == self.committed, "leader completeness"
            broker.epoch_start = len(broker.log)
            broker.high_watermark = 0
            broker.acknowledged = {}
        if before is None or before.partition_epoch < broker.knows.partition_epoch:
            broker.joining = ()
        self.commit(broker)

    def produce(self, broker: BrokerModel) -> None:
        if broker.leads:
            self.next_record += 1
            broker.log.append(self.next_record)
            self.commit(broker)

    def fetch(self, follower: BrokerModel) -> None:
        if not follower.alive or follower.knows is None or follower.leads:
            return
        leader = self.brokers.get(follower.knows.leader)
        if leader is None or not leader.leads or leader.knows is None:
            return
        if leader.knows.leader_epoch != follower.knows.leader_epoch:
            return
        shared = 0
        for ours, theirs in zip(follower.log, leader.log, strict=False):
            if ours != theirs:
                break
            shared += 1
        if shared < len(follower.log):
            del follower.log[shared:]
        else:
            leader.acknowledged[follower.id] = shared
            leader.acknowledged_in[follower.id] = follower.broker_epoch
        follower.log.extend(leader.log[shared:])
        self.commit(leader)

    def commit(self, leader: BrokerModel) -> None:
        """The strict rule: nothing commits while the ISR is below the minimum."""
        if not leader.leads or leader.knows is None:
            return
        isr = leader.knows.isr
        if len(isr) < effective_min_isr(leader.min_isr, len(leader.knows.replicas)):
            return
        offset = min(
            len(leader.log) if member == leader.id else leader.acknowledged.get(member, 0)
            for member in isr + leader.joining
        )
        leader.high_watermark = max(leader.high_watermark, offset)
        if leader.high_watermark > len(self.committed):
            prefix = leader.log[: len(self.committed)]
            assert prefix == self.committed, "two histories were committed"
            self.committed = leader.log[: leader.high_watermark]
            self.commits += 1

    def propose(self, leader: BrokerModel) -> None:
        """AlterPartition. Its answer tells the leader the new ISR, but not a new minimum."""
        if not leader.leads or leader.knows is None or leader.joining:
            return
        known, actual = leader.knows, self.partition
        other = self.random.choice(known.replicas)
        if other == leader.id:
            return
        if other in known.isr:
            isr = tuple(member for member in known.isr if member != other)
        elif leader.acknowledged.get(other, -1) < max(leader.high_watermark, leader.epoch_start):
            return
        else:
            isr = (*known.isr, other)
            leader.joining = (other,)  # waited for from now on, until its seat is decided
        if known.partition_epoch != actual.partition_epoch:
            return
        stale = any(
            self.image.brokers[member].broker_epoch != leader.acknowledged_in[member]
            for member in leader.joining
        )
        if stale or not all(self.image.is_active(member) for member in isr):
            leader.joining = ()
            return
        self.apply(build_change(actual, WantedChange(isr), self.context))
        answer_is_lost = self.random.random() < 0.2
        if answer_is_lost or actual.leader_epoch != known.leader_epoch:
            return
        known.isr, known.partition_epoch = actual.isr, actual.partition_epoch
        leader.joining = ()
        self.commit(leader)


def run_model(seed: int, steps: int = 500) -> int:
    model = Model(seed)
    with suppress(UncleanError):
        for _ in range(steps):
            model.step()
    return model.commits


def test_whoever_can_be_elected_cleanly_holds_every_committed_record() -> None:
    commits = sum(run_model(seed) for seed in range(150))
    assert commits > 1000  # the model does commit, it is not merely quiet


def fails_for_some_seed(seeds: int) -> bool:
    for seed in range(seeds):
        try:
            run_model(seed)
        except AssertionError:
            return True
    return False


def test_the_model_notices_a_crashed_replica_that_keeps_its_seat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(elr, "without_uncleanly_restarted", lambda members, _restarted: members)
    assert fails_for_some_seed(400)


def test_the_model_notices_a_leader_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elections, "holds_all_committed", lambda _broker, _isr, _elr: True)
    assert fails_for_some_seed(400)


def test_the_model_notices_an_elr_that_outlives_its_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elr, "isr_can_commit", lambda _isr, _minimum, _count: False)
    assert fails_for_some_seed(400)


def test_the_model_notices_a_raised_minimum_that_the_leader_does_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_change, "must_restate_isr", lambda _before, _minimum: False)
    assert fails_for_some_seed(400)
