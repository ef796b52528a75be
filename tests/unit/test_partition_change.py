"""One way for all changes of a partition: stories, then anything that can happen."""

from random import Random

import pytest

from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.elections import Election
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.metadata.partition_change import (
    ChangeContext,
    WantedChange,
    after_min_isr_change,
    build_change,
    cancel_reassignment,
    elect_on_request,
    leave_isr,
    lose_seats,
    new_partition,
    start_reassignment,
)
from tidelog.core.metadata.refusal import PlacementError, ReassignmentError
from tidelog.core.metadata.replay import replay
from tidelog.core.requests import ELECT_PREFERRED, ELECT_UNCLEAN
from tidelog.core.types import NO_LEADER

TOPIC = b"T" * 16


class Cluster:
    """Brokers 1, 2, … and one partition on the first three; speaks like a controller."""

    def __init__(
        self, *, min_isr: int = 2, elr: bool = True, unclean: bool = False, brokers: int = 3
    ) -> None:
        self.image = MetadataImage()
        self.min_isr, self.elr, self.unclean = min_isr, elr, unclean
        self.log: list[r.PartitionChange] = []
        self.next_epoch = 100
        for broker in range(1, brokers + 1):
            replay(self.image, r.RegisterBroker(broker, b"0", broker, fenced=False))
        replay(self.image, r.Topic("orders", TOPIC))
        replay(self.image, new_partition(TOPIC, 0, (1, 2, 3), self.image.is_active))
        self.partition: PartitionState = next(self.image.partitions())

    @property
    def context(self) -> ChangeContext:
        return ChangeContext(self.min_isr, self.elr, self.image.is_active, self.unclean)

    def apply(self, change: r.PartitionChange | None) -> None:
        if change is not None:
            replay(self.image, change)
            self.log.append(change)

    def fence(self, *brokers: int) -> None:
        for broker in brokers:
            self.apply(leave_isr(self.partition, broker, self.context))
            epoch = self.image.brokers[broker].broker_epoch
            replay(self.image, r.BrokerRegistrationChange(broker, epoch, fenced=1))

    def shut_down(self, broker: int) -> None:
        epoch = self.image.brokers[broker].broker_epoch
        replay(self.image, r.BrokerRegistrationChange(broker, epoch, in_controlled_shutdown=1))
        self.apply(leave_isr(self.partition, broker, self.context))

    def unfence(self, broker: int) -> None:
        epoch = self.image.brokers[broker].broker_epoch
        replay(self.image, r.BrokerRegistrationChange(broker, epoch, fenced=-1))
        if self.partition.leader == NO_LEADER:
            self.apply(build_change(self.partition, WantedChange(), self.context))

    def restart(self, broker: int, *, cleanly: bool) -> None:
        rule = leave_isr if cleanly else lose_seats
        self.apply(rule(self.partition, broker, self.context))
        self.next_epoch += 1
        replay(self.image, r.RegisterBroker(broker, b"%d" % self.next_epoch, self.next_epoch))

    def isr(self, *members: int, recovery_state: int | None = None) -> None:
        wanted = WantedChange(members, leader_recovery_state=recovery_state)
        self.apply(build_change(self.partition, wanted, self.context))

    def set_min_isr(self, minimum: int) -> None:
        before, self.min_isr = self.min_isr, minimum
        self.apply(after_min_isr_change(self.partition, before, self.context))

    @property
    def sets(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        return self.partition.leader, self.partition.isr, self.partition.elr

    @property
    def epochs(self) -> tuple[int, int]:
        return self.partition.leader_epoch, self.partition.partition_epoch


def test_a_new_partition_starts_with_its_active_replicas_at_epoch_zero() -> None:
    cluster = Cluster()
    cluster.fence(1)
    record = new_partition(TOPIC, 1, (1, 3, 2), cluster.image.is_active)
    assert record == r.Partition(1, TOPIC, (1, 3, 2), (3, 2), leader=3)
    cluster.fence(2, 3)
    with pytest.raises(PlacementError, match="could not be led") as refused:
        new_partition(TOPIC, 1, (1, 3, 2), cluster.image.is_active)
    assert refused.value.error == Error.INVALID_REPLICA_ASSIGNMENT


def test_nothing_wanted_changes_nothing() -> None:
    cluster = Cluster()
    assert build_change(cluster.partition, WantedChange(), cluster.context) is None
    assert build_change(cluster.partition, WantedChange((1, 2, 3)), cluster.context) is None


def test_a_shrink_and_an_expansion_leave_the_leader_epoch_alone() -> None:
    cluster = Cluster()
    cluster.isr(1, 2)
    cluster.isr(1, 2, 3)
    assert cluster.epochs == (0, 2)
    assert cluster.log[0] == r.PartitionChange(0, TOPIC, isr=(1, 2))


def test_a_fenced_leader_hands_over_to_the_next_in_sync_replica() -> None:
    cluster = Cluster()
    cluster.fence(1)
    assert cluster.log == [r.PartitionChange(0, TOPIC, isr=(2, 3), leader=2)]
    assert cluster.epochs == (1, 1)


def test_a_fenced_follower_costs_no_leader_epoch() -> None:
    cluster = Cluster()
    cluster.fence(3)
    assert cluster.sets == (1, (1, 2), ())
    assert cluster.epochs == (0, 1)


def test_a_controlled_shutdown_of_the_last_replica_leaves_nobody_in_charge() -> None:
    cluster = Cluster()
    cluster.fence(2, 3)
    cluster.shut_down(1)
    assert not cluster.image.leads_any(1)
    assert cluster.sets == (NO_LEADER, (), (1, 3))
    cluster.restart(1, cleanly=True)
    cluster.unfence(1)
    assert cluster.sets == (1, (1,), (3,))


def test_last_replica_standing() -> None:
    """KIP-966: the last replica loses power and its tail; the one before it still has all."""
    cluster = Cluster(min_isr=2)
    cluster.fence(1)
    cluster.fence(2)
    assert cluster.sets == (3, (3,), (2,))
    cluster.fence(3)
    assert cluster.sets == (NO_LEADER, (), (2, 3))
    assert cluster.partition.last_known_elr == (3,)
    cluster.restart(3, cleanly=False)
    assert cluster.sets == (NO_LEADER, (), (2,))
    cluster.unfence(3)
    assert cluster.sets == (NO_LEADER, (), (2,))  # 3 is back, but 2 is worth waiting for
    cluster.unfence(2)
    assert cluster.sets == (2, (2,), ())
    assert cluster.partition.leader_recovery_state == r.RECOVERED
    cluster.isr(2, 3)
    assert (cluster.partition.elr, cluster.partition.last_known_elr) == ((), ())


def test_without_elr_the_last_member_keeps_its_seat_even_after_a_crash() -> None:
    cluster = Cluster(min_isr=2, elr=False)
    cluster.fence(1, 2, 3)
    assert cluster.sets == (NO_LEADER, (3,), ())
    cluster.restart(3, cleanly=False)
    assert cluster.sets == (NO_LEADER, (3,), ())
    cluster.unfence(3)
    assert cluster.sets == (3, (3,), ())


def test_when_the_elr_dies_out_the_last_leader_returns_and_says_so() -> None:
    cluster = Cluster(min_isr=2)
    cluster.fence(1, 2, 3)
    cluster.restart(2, cleanly=False)
    cluster.restart(3, cleanly=False)
    assert cluster.sets == (NO_LEADER, (), ())
    cluster.unfence(2)
    assert cluster.partition.leader == NO_LEADER
    cluster.unfence(3)
    assert cluster.sets == (3, (3,), ())
    assert cluster.partition.leader_recovery_state == r.RECOVERING
    cluster.isr(3, recovery_state=r.RECOVERED)
    assert cluster.log[-1] == r.PartitionChange(0, TOPIC, leader_recovery_state=r.RECOVERED)


def test_an_unclean_election_starts_over_with_one_replica() -> None:
    cluster = Cluster(min_isr=2, unclean=True)
    cluster.isr(1)
    assert cluster.sets == (1, (1,), (2, 3))
    cluster.fence(2, 3)
    cluster.fence(1)
    assert cluster.sets == (NO_LEADER, (), (1, 2, 3))
    cluster.restart(2, cleanly=False)
    cluster.unfence(2)
    assert cluster.sets == (2, (2,), ())
    assert cluster.partition.leader_recovery_state == r.RECOVERING
    assert cluster.partition.last_known_elr == ()


def test_a_lone_leader_that_may_commit_leaves_no_elr_behind() -> None:
    """With a minimum of one, the first leader from the ELR commits alone from then on."""
    cluster = Cluster(min_isr=3)
    cluster.fence(1, 2, 3)
    assert cluster.sets == (NO_LEADER, (), (1, 2, 3))
    cluster.set_min_isr(1)
    assert cluster.sets == (NO_LEADER, (), (1, 2, 3))  # nobody leads, nobody commits
    cluster.unfence(2)
    assert cluster.sets == (2, (2,), ())


def test_lowering_the_minimum_drops_the_elr_that_it_overtakes() -> None:
    cluster = Cluster(min_isr=2)
    cluster.fence(2, 3)
    assert cluster.sets == (1, (1,), (3,))
    cluster.set_min_isr(1)
    assert cluster.sets == (1, (1,), ())
    assert cluster.epochs[0] == 0


def test_raising_the_minimum_makes_the_leader_read_the_metadata_first() -> None:
    cluster = Cluster(min_isr=2)
    cluster.set_min_isr(3)
    assert cluster.log == [r.PartitionChange(0, TOPIC, isr=(1, 2, 3))]
    assert cluster.epochs == (0, 1)
    cluster.set_min_isr(9)  # the same for three replicas
    assert cluster.epochs == (0, 1)
    cluster.isr(1, 2)
    assert cluster.sets == (1, (1, 2), (3,))
    cluster.set_min_isr(2)
    assert cluster.sets == (1, (1, 2), ())


def test_elect_leaders_answers_why_nothing_was_elected() -> None:
    cluster = Cluster()
    partition = cluster.partition
    assert elect_on_request(partition, ELECT_PREFERRED, cluster.context) == (
        Error.ELECTION_NOT_NEEDED,
        None,
    )
    assert elect_on_request(partition, ELECT_UNCLEAN, cluster.context) == (
        Error.ELECTION_NOT_NEEDED,
        None,
    )
    cluster.fence(1)
    error, change = elect_on_request(partition, ELECT_PREFERRED, cluster.context)
    assert (error, change) == (Error.PREFERRED_LEADER_NOT_AVAILABLE, None)
    cluster.unfence(1)
    error, change = elect_on_request(partition, ELECT_PREFERRED, cluster.context)
    assert (error, change) == (Error.PREFERRED_LEADER_NOT_AVAILABLE, None)  # not in sync yet
    cluster.isr(1, 2, 3)
    error, change = elect_on_request(partition, ELECT_PREFERRED, cluster.context)
    assert (error, change) == (Error.NONE, r.PartitionChange(0, TOPIC, leader=1))


def test_an_operator_may_elect_uncleanly_where_the_topic_does_not() -> None:
    cluster = Cluster(min_isr=1)
    cluster.fence(1, 2, 3)
    error, change = elect_on_request(cluster.partition, ELECT_UNCLEAN, cluster.context)
    assert (error, change) == (Error.ELIGIBLE_LEADERS_NOT_AVAILABLE, None)
    cluster.unfence(2)
    assert cluster.partition.leader == NO_LEADER
    error, change = elect_on_request(cluster.partition, ELECT_UNCLEAN, cluster.context)
    assert error == Error.NONE
    cluster.apply(change)
    assert cluster.sets == (2, (2,), ())
    assert cluster.partition.leader_recovery_state == r.RECOVERING


def test_a_leader_that_shuts_down_while_a_move_completes_is_replaced_at_once() -> None:
    cluster = Cluster(brokers=5)
    registered = cluster.image.brokers.__contains__
    cluster.apply(start_reassignment(cluster.partition, (4, 5), registered, cluster.context))
    cluster.isr(1, 2, 3, 4, 5)
    assert cluster.sets == (4, (4, 5), ())
    assert cluster.log[-1] == r.PartitionChange(
        0,
        TOPIC,
        isr=(4, 5),
        leader=4,
        replicas=(4, 5),
        removing_replicas=(),
        adding_replicas=(),
    )


def random_step(random: Random, cluster: Cluster) -> None:
    partition, image = cluster.partition, cluster.image
    broker = random.choice(list(image.brokers))
    registration = image.brokers[broker]
    action = random.randrange(9)
    if action == 0 and not registration.fenced:
        cluster.fence(broker)
    elif action in (1, 2) and registration.fenced:
        cluster.unfence(broker)
    elif action == 3:
        cluster.restart(broker, cleanly=random.random() < 0.5)
    elif action == 4 and partition.leader != NO_LEADER:
        others = [b for b in partition.replicas if b != partition.leader and image.is_active(b)]
        members = random.sample(others, random.randrange(len(others) + 1))
        cluster.isr(partition.leader, *members)
    elif action == 5:
        cluster.set_min_isr(random.randrange(1, 4))
    elif action == 6:
        target = tuple(random.sample(range(1, 6), random.randrange(1, 4)))
        registered = image.brokers.__contains__
        cluster.apply(start_reassignment(partition, target, registered, cluster.context))
    elif action == 7:
        try:
            cluster.apply(cancel_reassignment(partition, cluster.context))
        except ReassignmentError:
            assert cluster.partition == partition
    else:
        mode = random.choice([Election.PREFERRED, Election.ONLINE])
        cluster.apply(build_change(partition, WantedChange(election=mode), cluster.context))


def check_step(before: PartitionState, cluster: Cluster, records: list[r.PartitionChange]) -> None:
    after = cluster.partition
    assert set(after.isr) <= set(after.replicas)
    assert set(after.elr) <= set(after.replicas)
    assert not set(after.isr) & set(after.elr)
    assert after.leader == NO_LEADER or after.leader in after.isr
    assert after.partition_epoch == before.partition_epoch + len(records)
    assert len(records) <= 1
    if cluster.image.brokers and after.leader != NO_LEADER:
        assert cluster.image.is_active(after.leader)
    minimum = min(cluster.min_isr, len(after.replicas))
    assert not after.elr or len(after.isr) < minimum
    if after == before:
        assert not records
        return
    dropped = set(before.replicas) - set(after.replicas)
    bumped = after.leader != before.leader or bool(dropped)
    assert after.leader_epoch == before.leader_epoch + bumped
    unclean = (
        after.leader_recovery_state == r.RECOVERING and bumped and after.isr == (after.leader,)
    )
    if after.leader not in (before.leader, NO_LEADER) and not unclean:
        added_by_the_leader = records[0].isr or ()  # a completed move may elect a member it added
        assert after.leader in {*before.isr, *before.elr, *added_by_the_leader}
    if not cluster.elr:
        assert after.isr
        assert not after.elr


@pytest.mark.parametrize("elr", [True, False])
@pytest.mark.parametrize("unclean", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_the_rules_of_a_partition_hold(
    seed: int, unclean: bool, elr: bool
) -> None:
    random = Random(seed)
    cluster = Cluster(elr=elr, unclean=unclean, brokers=5)
    for _ in range(300):
        before = cluster.partition.copy()
        count = len(cluster.log)
        random_step(random, cluster)
        check_step(before, cluster, cluster.log[count:])
        again = build_change(cluster.partition, WantedChange(), cluster.context)
        # An election can leave just the target of a move in sync: the next change completes it.
        assert again is None or again.replicas is not None
