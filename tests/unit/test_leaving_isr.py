"""A replica that cannot take records leaves the in-sync set, and hands over if it leads."""

from support.controller_cluster import Cluster
from tidelog.core.errors import Error
from tidelog.core.requests import IsrMember, IsrProposal
from tidelog.core.types import PartitionId


def three_brokers(**settings: object) -> tuple[Cluster, PartitionId]:
    cluster = Cluster(**settings)
    cluster.start_brokers(1, 2, 3)
    return cluster, cluster.create("t", (1, 2, 3))


def leave(cluster: Cluster, broker: int, name: PartitionId) -> Error:
    return cluster.propose(broker, asked(cluster, broker, name)).error


def asked(cluster: Cluster, broker: int, name: PartitionId) -> IsrProposal:
    """The present in-sync set without this broker."""
    state = cluster.partition(name)
    rest = tuple(IsrMember(each, -1) for each in state.isr if each != broker)
    return IsrProposal(name, state.leader_epoch, state.partition_epoch, rest)


def test_a_leader_hands_over_to_a_replica_in_sync_and_leaves_the_isr() -> None:
    cluster, name = three_brokers()
    assert leave(cluster, 1, name) is Error.NONE
    state = cluster.partition(name)
    assert (state.leader, state.leader_epoch, state.isr) == (2, 1, (2, 3))


def test_a_follower_leaves_without_a_new_leader_epoch() -> None:
    cluster, name = three_brokers()
    assert leave(cluster, 3, name) is Error.NONE
    state = cluster.partition(name)
    assert (state.leader, state.leader_epoch, state.isr) == (1, 0, (1, 2))


def test_the_last_member_stays_and_leads() -> None:
    cluster, name = three_brokers(min_insync_replicas=1)
    assert leave(cluster, 1, name) is Error.NONE
    assert leave(cluster, 2, name) is Error.NONE
    assert leave(cluster, 3, name) is Error.INVALID_REQUEST
    assert cluster.partition(name).leader == 3
    assert cluster.partition(name).isr == (3,)


def test_a_leader_stays_while_nobody_else_in_sync_is_active() -> None:
    """Also where the topic allows unclean elections: this is no reason to lose records."""
    cluster, name = three_brokers(elr_enabled=False, unclean_default=True)
    assert leave(cluster, 3, name) is Error.NONE
    cluster.beat(2, fence=True)
    state = cluster.partition(name)
    assert (state.leader, state.isr) == (1, (1,))
    late = IsrProposal(name, state.leader_epoch, state.partition_epoch, (IsrMember(2, -1),))
    assert cluster.propose(1, late).error is Error.INVALID_REQUEST
    assert cluster.partition(name).leader == 1


def test_who_leaves_keeps_its_log_and_stays_eligible_where_the_isr_runs_short() -> None:
    cluster, name = three_brokers(min_insync_replicas=2)
    assert leave(cluster, 3, name) is Error.NONE
    assert leave(cluster, 2, name) is Error.NONE
    state = cluster.partition(name)
    assert (state.leader, state.isr, state.elr) == (1, (1,), (2,))


def test_a_repeated_or_overtaken_request_to_leave_changes_nothing() -> None:
    cluster, name = three_brokers()
    late = asked(cluster, 1, name)
    assert leave(cluster, 1, name) is Error.NONE
    assert cluster.propose(1, late).error is Error.FENCED_LEADER_EPOCH
    older = asked(cluster, 3, name)._replace(partition_epoch=0)
    assert cluster.propose(3, older).error is Error.INVALID_UPDATE_VERSION
    assert leave(cluster, 1, name) is Error.INVALID_REQUEST, "it is out already"
    assert cluster.partition(name).isr == (2, 3)


def test_nobody_else_is_put_out_or_in_by_a_request_to_leave() -> None:
    cluster, name = three_brokers()
    state = cluster.partition(name)
    alone = IsrProposal(name, state.leader_epoch, state.partition_epoch, (IsrMember(2, -1),))
    assert cluster.propose(1, alone).error is Error.INVALID_REQUEST
    assert cluster.propose(3, alone).error is Error.INVALID_REQUEST
    repeated = asked(cluster, 1, name)
    twice = repeated._replace(isr=(*repeated.isr, repeated.isr[0]))
    assert cluster.propose(1, twice).error is Error.INVALID_REQUEST
    assert cluster.partition(name).isr == (1, 2, 3)
