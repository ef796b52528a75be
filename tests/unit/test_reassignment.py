"""Moving partitions to other brokers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.errors import Error
from tidelog.core.metadata import reassignment
from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.metadata.partition_change import (
    ChangeContext,
    WantedChange,
    build_change,
    cancel_reassignment,
    leave_isr,
    start_reassignment,
)
from tidelog.core.metadata.reassignment import Assignment
from tidelog.core.metadata.refusal import ReassignmentError
from tidelog.core.metadata.replay import replay
from tidelog.core.types import PartitionId

TOPIC = b"T" * 16
ids = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True).map(tuple)


class Cluster:
    """Brokers 1 to 6 and one partition on 1, 2, 3."""

    def __init__(
        self, *, min_insync_replicas: int = 2, unclean_allowed: bool = False, elr: bool = True
    ) -> None:
        self.image = MetadataImage()
        for broker in range(1, 7):
            replay(self.image, r.RegisterBroker(broker, b"%d" % broker, broker, fenced=False))
        replay(self.image, r.Topic("orders", TOPIC))
        replay(self.image, r.Partition(0, TOPIC, (1, 2, 3), (1, 2, 3), leader=1))
        partition = self.image.partition(PartitionId(TOPIC, 0))
        assert partition is not None
        self.partition: PartitionState = partition
        self.context = ChangeContext(
            min_insync_replicas, elr, self.image.is_active, unclean_allowed=unclean_allowed
        )

    def apply(self, change: r.PartitionChange | None) -> None:
        assert change is not None
        replay(self.image, change)

    def start(self, *target: int) -> None:
        registered = self.image.brokers.__contains__
        self.apply(start_reassignment(self.partition, target, registered, self.context))

    def isr(self, *members: int) -> None:
        self.apply(build_change(self.partition, WantedChange(members), self.context))

    def fence(self, broker: int) -> None:
        change = leave_isr(self.partition, broker, self.context)
        if change is not None:
            replay(self.image, change)
        replay(self.image, r.BrokerRegistrationChange(broker, broker, fenced=1))

    def cancel(self) -> None:
        self.apply(cancel_reassignment(self.partition, self.context))

    @property
    def assignment(self) -> Assignment:
        return reassignment.assignment_of(self.partition)


def test_a_partition_moves_once_its_new_replicas_are_in_sync() -> None:
    cluster = Cluster()
    partition = cluster.partition
    cluster.start(4, 5)
    assert cluster.assignment == Assignment((4, 5, 1, 2, 3), adding=(4, 5), removing=(1, 2, 3))
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 0, 1)

    cluster.isr(1, 2, 3, 4)
    assert cluster.assignment.in_progress
    assert partition.leader_epoch == 0  # an expansion is no new leadership

    cluster.isr(1, 2, 3, 4, 5)
    assert cluster.assignment == Assignment((4, 5))
    assert (partition.isr, partition.leader) == ((4, 5), 4)
    assert (partition.leader_epoch, partition.partition_epoch) == (1, 3)


def test_a_leader_that_stays_gets_a_new_epoch_when_a_replica_is_dropped() -> None:
    cluster = Cluster()
    cluster.start(1, 2, 4)
    cluster.isr(1, 2, 4)
    assert cluster.assignment == Assignment((1, 2, 4))
    assert (cluster.partition.leader, cluster.partition.leader_epoch) == (1, 1)


def test_a_reorder_is_done_at_once_and_moves_no_leader() -> None:
    cluster = Cluster()
    cluster.start(3, 1, 2)
    assert cluster.assignment == Assignment((3, 1, 2))
    assert (cluster.partition.leader, cluster.partition.leader_epoch) == (1, 0)
    assert [p.id.partition for p in cluster.image.partitions_displaced_from(3)] == [0]


def test_dropping_in_sync_replicas_is_done_at_once() -> None:
    cluster = Cluster()
    cluster.start(2)
    assert cluster.assignment == Assignment((2,))
    assert (cluster.partition.isr, cluster.partition.leader) == ((2,), 2)
    assert cluster.partition.elr == ()  # 1 and 3 hold everything but are no replicas any more


def test_asking_for_what_is_there_changes_nothing() -> None:
    cluster = Cluster()
    registered = cluster.image.brokers.__contains__
    assert start_reassignment(cluster.partition, (1, 2, 3), registered, cluster.context) is None


@pytest.mark.parametrize(
    ("target", "hint"), [((), "no replicas"), ((1, 1), "twice"), ((1, 9), r"\[9\]")]
)
def test_a_target_that_cannot_be_is_refused(target: tuple[int, ...], hint: str) -> None:
    cluster = Cluster()
    with pytest.raises(ReassignmentError, match=hint) as refused:
        cluster.start(*target)
    assert refused.value.error == Error.INVALID_REPLICA_ASSIGNMENT


def test_a_cancelled_move_returns_to_the_replicas_from_before() -> None:
    cluster = Cluster()
    cluster.start(4, 5)
    cluster.isr(1, 2, 3, 4)
    cluster.cancel()
    assert cluster.assignment == Assignment((1, 2, 3))
    assert cluster.partition.isr == (1, 2, 3)
    assert cluster.partition.leader_epoch == 1  # 4 and 5 were dropped


def test_a_move_can_change_its_mind_and_still_return() -> None:
    cluster = Cluster()
    cluster.start(4, 5)
    cluster.start(5, 6)
    assert cluster.assignment == Assignment(
        (5, 6, 4, 1, 2, 3), adding=(5, 6, 4), removing=(4, 1, 2, 3)
    )
    cluster.cancel()
    assert cluster.assignment == Assignment((1, 2, 3))


def test_there_is_nothing_to_cancel_without_a_move() -> None:
    with pytest.raises(ReassignmentError) as refused:
        Cluster().cancel()
    assert refused.value.error == Error.NO_REASSIGNMENT_IN_PROGRESS


def test_a_cancel_never_gives_up_the_only_holders_of_records() -> None:
    cluster = Cluster(min_insync_replicas=1)
    cluster.start(4, 5)
    cluster.isr(1, 4)
    cluster.fence(1)
    assert cluster.partition.isr == (4,)
    with pytest.raises(ReassignmentError, match="unclean election"):
        cluster.cancel()
    cluster.fence(4)  # now only the ELR holds everything, and it is the added replica
    assert (cluster.partition.isr, cluster.partition.elr) == ((), (4,))
    with pytest.raises(ReassignmentError, match="unclean election"):
        cluster.cancel()


def test_a_cancel_gives_them_up_where_unclean_election_is_allowed_and_possible() -> None:
    cluster = Cluster(min_insync_replicas=1, unclean_allowed=True)
    cluster.start(4, 5)
    cluster.isr(1, 4)
    cluster.fence(1)
    cluster.cancel()
    partition = cluster.partition
    assert (partition.leader, partition.isr, partition.elr) == (2, (2,), ())
    assert partition.leader_recovery_state == r.RECOVERING

    cluster = Cluster(min_insync_replicas=1, unclean_allowed=True, elr=False)
    cluster.start(4, 5)
    cluster.isr(1, 4)
    for broker in (1, 2, 3):
        cluster.fence(broker)
    with pytest.raises(ReassignmentError):
        cluster.cancel()


def test_a_cancel_falls_back_on_the_elr_without_losing_anything() -> None:
    cluster = Cluster(min_insync_replicas=2)
    cluster.start(4, 5)
    cluster.isr(1, 4)
    cluster.fence(1)
    assert (cluster.partition.isr, cluster.partition.elr) == ((4,), (1,))
    cluster.cancel()
    partition = cluster.partition
    assert (partition.leader, partition.isr, partition.elr) == (-1, (), (1,))


@given(ids, st.lists(ids, min_size=1, max_size=4))
def test_however_the_target_changes_both_ends_are_known(
    original: tuple[int, ...], targets: list[tuple[int, ...]]
) -> None:
    current = Assignment(original)
    for target in targets:
        current = reassignment.start(current, target)
        assert len(set(current.replicas)) == len(current.replicas)
        assert reassignment.excluding(current.replicas, current.removing) == target
        assert set(reassignment.excluding(current.replicas, current.adding)) == set(original)
        assert not reassignment.may_complete(current, ())
        if current.in_progress:
            assert reassignment.may_complete(current, target)
            assert reassignment.complete(current) == Assignment(target)
            assert set(reassignment.cancel(current).replicas) == set(original)
        else:
            assert set(target) == set(original)
