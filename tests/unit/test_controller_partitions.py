"""AlterPartition, elections, reassignment and the timers that elect."""

from typing import Any

import pytest

from support.controller_cluster import Cluster
from tidelog.core import events
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.requests import (
    ELECT_PREFERRED,
    ELECT_UNCLEAN,
    AdminResponse,
    AlterConfigRequest,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterReassignmentRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IsrMember,
    IsrResult,
)
from tidelog.core.types import NEVER_MS, PartitionId


def change(name: PartitionId, **fields: Any) -> r.PartitionChange:
    return r.PartitionChange(name.partition, name.topic_id, **fields)


def three_brokers(**settings: Any) -> tuple[Cluster, PartitionId]:
    """Brokers 1, 2, 3; one partition led by 1, from whose ISR 3 has just been dropped."""
    cluster = Cluster(**settings)
    cluster.start_brokers(1, 2, 3)
    name = cluster.create("t", (1, 2, 3))
    assert cluster.propose(1, cluster.proposal(name, 1, 2)).error is Error.NONE
    return cluster, name


# -- AlterPartition, row by row (§6.4) ------------------------------------------------------------


def test_a_valid_proposal_is_written_and_answered_with_the_new_state() -> None:
    cluster, name = three_brokers()
    request = cluster.propose_request(1, cluster.proposal(name, 1, 2, 3))
    assert cluster.records_of(request) == (change(name, isr=(1, 2, 3)),)
    assert cluster.propose(1, cluster.proposal(name, 1, 2, 3)) == IsrResult(
        name, Error.NONE, leader=1, leader_epoch=0, isr=(1, 2, 3), partition_epoch=2
    ), "proposing what is in force writes nothing and confirms it"


def test_a_request_of_an_old_incarnation_is_refused_as_a_whole() -> None:
    cluster, name = three_brokers()
    proposal = cluster.proposal(name, 1, 2, 3)
    for broker, epoch in ((1, cluster.epoch_of(1) - 1), (9, 5)):
        request = AlterPartitionRequest(broker, epoch, (proposal,))
        assert cluster.records_of(request) == ()
        assert cluster.ask(request) == AlterPartitionResponse(Error.STALE_BROKER_EPOCH)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"partition": PartitionId(b"unknown", 0)}, Error.UNKNOWN_TOPIC_ID),
        ({"number": 5}, Error.UNKNOWN_TOPIC_OR_PARTITION),
        ({"leader_epoch": 1}, Error.NOT_CONTROLLER),
        ({"partition_epoch": 2}, Error.NOT_CONTROLLER),
        ({"leader_epoch": -1, "partition_epoch": 2}, Error.NOT_CONTROLLER),
        ({"leader_epoch": -1, "sender": 2}, Error.FENCED_LEADER_EPOCH),
        ({"sender": 2, "partition_epoch": 0}, Error.INVALID_REQUEST),
        ({"partition_epoch": 0, "isr": ()}, Error.INVALID_UPDATE_VERSION),
        ({"isr": (1, 4)}, Error.INVALID_REQUEST),
        ({"isr": (1, 1)}, Error.INVALID_REQUEST),
        ({"isr": ()}, Error.INVALID_REQUEST),
        ({"isr": (2, 3)}, Error.INVALID_REQUEST),
        ({"isr": (1, 3), "leader_recovery_state": r.RECOVERING}, Error.INVALID_REQUEST),
        ({"isr": (1,), "leader_recovery_state": r.RECOVERING}, Error.INVALID_REQUEST),
        ({"isr": (1,), "leader_recovery_state": 7}, Error.INVALID_REQUEST),
        ({"epochs": {3: 1}}, Error.INELIGIBLE_REPLICA),
        ({"epochs": {3: -1}}, Error.NONE),
        ({}, Error.NONE),
    ],
)
def test_the_alter_partition_table(changes: dict[str, Any], error: Error) -> None:
    """Each row breaks one rule more than the rows below it would notice."""
    cluster, name = three_brokers()
    cluster.start_brokers(4)
    epochs = changes.pop("epochs", {})
    isr = changes.pop("isr", (1, 2, 3))
    sender = changes.pop("sender", 1)
    if "number" in changes:
        changes["partition"] = PartitionId(name.topic_id, changes.pop("number"))
    members = tuple(IsrMember(b, epochs.get(b, cluster.epoch_of(b))) for b in isr)
    proposal = cluster.proposal(name, 1)._replace(isr=members, **changes)
    count = len(cluster.records)
    assert cluster.propose(sender, proposal).error is error
    # A refused member still gets a record: the ISR as it is, under a new partition epoch.
    assert (len(cluster.records) > count) is (error in (Error.NONE, Error.INELIGIBLE_REPLICA))


def test_t13_a_fenced_or_leaving_or_unknown_member_is_not_eligible() -> None:
    cluster, name = three_brokers()
    cluster.beat(3, fence=True)
    proposal = cluster.proposal(name, 1, 2, 3)
    assert cluster.propose(1, proposal).error is Error.INELIGIBLE_REPLICA
    assert cluster.partition(name).isr == (1, 2), "refused as a whole"
    cluster.beat(3)
    assert cluster.propose(1, proposal).error is Error.INVALID_UPDATE_VERSION, "a late copy"
    again = cluster.proposal(name, 1, 2, 3)
    assert cluster.propose(1, again).error is Error.NONE, "proposed anew after it was unfenced"

    led = cluster.create("led", (3, 1))
    cluster.propose(1, cluster.proposal(name, 1, 2))
    cluster.beat(3, stop=True)
    assert cluster.partition(led).leader == 1
    assert cluster.propose(1, cluster.proposal(name, 1, 3)).error is Error.INELIGIBLE_REPLICA


def test_t12_a_broker_with_a_new_disk_does_not_join_by_what_the_old_one_had() -> None:
    """The proposal with the old broker epoch was on its way for a long time (KIP-903)."""
    cluster, name = three_brokers()
    delayed = cluster.proposal(name, 1, 2, 3)
    cluster.let_expire(3)
    assert cluster.restart(3).error is Error.NONE
    assert not cluster.beat(3).is_fenced
    assert cluster.propose(1, delayed) == IsrResult(name, Error.INELIGIBLE_REPLICA)
    assert cluster.partition(name).isr == (1, 2)
    assert cluster.propose(1, cluster.proposal(name, 1, 2, 3)).error is Error.NONE


def test_k10_the_proposal_of_a_leader_that_was_replaced_is_fenced() -> None:
    cluster, name = three_brokers()
    old = cluster.propose_request(1, cluster.proposal(name, 1))
    cluster.beat(1, fence=True)
    cluster.beat(1)
    assert cluster.partition(name).leader == 2
    assert cluster.records_of(old) == ()
    assert cluster.ask(old).results == (IsrResult(name, Error.FENCED_LEADER_EPOCH),)


def test_a_duplicated_proposal_is_refused_by_its_partition_epoch() -> None:
    cluster, name = three_brokers()
    request = cluster.propose_request(1, cluster.proposal(name, 1, 2, 3))
    assert cluster.ask(request).results[0].error is Error.NONE
    assert cluster.records_of(request) == ()
    assert cluster.ask(request).results[0].error is Error.INVALID_UPDATE_VERSION


def test_one_request_may_carry_many_partitions_and_each_has_its_own_result() -> None:
    cluster, first = three_brokers()
    second = cluster.create("u", (1, 2, 3))
    request = cluster.propose_request(
        1,
        cluster.proposal(first, 1, 2, 3),
        cluster.proposal(second, 1, partition_epoch=9),
        cluster.proposal(first, 1),
    )
    assert cluster.records_of(request) == (change(first, isr=(1, 2, 3)),)
    assert [result.error for result in cluster.ask(request).results] == [
        Error.INVALID_UPDATE_VERSION,
        Error.NOT_CONTROLLER,
        Error.INVALID_REQUEST,
    ], "the second for one partition is never judged"


def test_an_unclean_leader_recovers_alone_and_says_so_once() -> None:
    cluster = Cluster(elr_enabled=False)
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1, 2))
    cluster.propose(1, cluster.proposal(name, 1))
    cluster.beat(1, fence=True)
    request = ElectLeadersRequest(ELECT_UNCLEAN, (name,))
    assert cluster.records_of(request) == (
        change(name, isr=(2,), leader=2, leader_recovery_state=r.RECOVERING),
    )
    assert cluster.take_events()[-2:] == [
        events.LeaderElected(name, -1, 2, 2, 3, (2,), True),
        events.IsrCommitted(name, (1,), (2,), (), 3),
    ]
    cluster.beat(1)
    recovering = cluster.proposal(name, 2, 1, leader_recovery_state=r.RECOVERING)
    assert cluster.propose(2, recovering).error is Error.INVALID_REQUEST
    assert cluster.propose(2, cluster.proposal(name, 2)) == IsrResult(
        name, Error.NONE, 2, 2, (2,), r.RECOVERED, 4
    )


# -- ELR stories ----------------------------------------------------------------------------------


@pytest.mark.parametrize("elr", [True, False])
def test_t14_last_replica_standing(elr: bool) -> None:
    """RF 3, min ISR 2: 0 leaves, 1 leaves, then 2 loses power and its tail (KIP-966)."""
    cluster = Cluster(elr_enabled=elr, min_insync_replicas=2)
    cluster.start_brokers(0, 1, 2)
    name = cluster.create("t", (0, 1, 2))
    cluster.beat(0, fence=True)
    cluster.beat(1, fence=True)
    partition = cluster.partition(name)
    assert (partition.leader, partition.isr) == (2, (2,))
    assert partition.elr == ((1,) if elr else ()), "0 left while the ISR could still commit"

    cluster.let_expire(2)
    assert partition.leader == -1
    assert (partition.isr, partition.elr) == (((), (1, 2)) if elr else ((2,), ()))
    epoch = cluster.end_offset
    assert cluster.restart(2).error is Error.NONE
    if elr:
        assert cluster.log[-1].records == (
            change(name, elr=(1,)),
            r.RegisterBroker(2, cluster.register_request(2).incarnation_id, epoch),
        )
        cluster.beat(2)
        assert partition.leader == -1, "2 may have lost acknowledged records: it has to wait"
        cluster.beat(1)
        assert (partition.leader, partition.isr, partition.elr) == (1, (1,), ())
        assert partition.leader_recovery_state == r.RECOVERED
    else:
        cluster.beat(2)
        assert (partition.leader, partition.isr) == (2, (2,)), "and records may be gone"


def test_lowering_the_minimum_drops_eligible_replicas_before_it_is_in_force() -> None:
    cluster = Cluster(min_insync_replicas=2)
    cluster.start_brokers(1, 2, 3)
    name = cluster.create("t", (1, 2, 3))
    cluster.propose(1, cluster.proposal(name, 1))
    assert cluster.partition(name).elr == (2, 3)
    lower = AlterConfigRequest(r.RESOURCE_TOPIC, "t", (("min.insync.replicas", "1"),))
    assert cluster.records_of(lower) == (
        change(name, elr=()),
        r.Config(r.RESOURCE_TOPIC, "t", "min.insync.replicas", "1"),
    )


def test_raising_the_minimum_gives_every_partition_a_new_epoch() -> None:
    cluster = Cluster(min_insync_replicas=1)
    cluster.start_brokers(1, 2)
    own = cluster.create("own", (1, 2), min_insync_replicas="2")
    name = cluster.create("t", (1, 2))
    cluster.propose(1, cluster.proposal(name, 1))
    stale = cluster.proposal(name, 1, 2)
    higher = AlterConfigRequest(r.RESOURCE_BROKER, "", (("min.insync.replicas", "2"),))
    assert cluster.records_of(higher) == (
        r.Config(r.RESOURCE_BROKER, "", "min.insync.replicas", "2"),
        change(name, isr=(1,)),
    ), "a topic with a minimum of its own is not concerned"
    assert cluster.propose(1, stale).error is Error.INVALID_UPDATE_VERSION
    assert cluster.partition(own).partition_epoch == 0


# -- ElectLeaders ---------------------------------------------------------------------------------


def test_preferred_election_row_by_row() -> None:
    cluster = Cluster()
    cluster.start_brokers(1, 2, 3)
    moved = cluster.create("moved", (1, 3))
    down = cluster.create("down", (2, 3))
    fine = cluster.create("fine", (3, 1))
    unknown = PartitionId(moved.topic_id, 9)
    cluster.beat(1, fence=True)
    cluster.beat(2, fence=True)
    cluster.beat(1)
    cluster.propose(3, cluster.proposal(moved, 3, 1))
    request = ElectLeadersRequest(ELECT_PREFERRED, (moved, down, fine, unknown, moved))
    records = cluster.records_of(request)
    assert records == (change(moved, leader=1),)
    assert cluster.ask(request) == ElectLeadersResponse(
        Error.NONE,
        (
            (moved, Error.ELECTION_NOT_NEEDED),
            (down, Error.PREFERRED_LEADER_NOT_AVAILABLE),
            (fine, Error.ELECTION_NOT_NEEDED),
            (unknown, Error.UNKNOWN_TOPIC_OR_PARTITION),
        ),
    )
    everything = cluster.ask(ElectLeadersRequest(ELECT_PREFERRED))
    assert everything.results == ((down, Error.PREFERRED_LEADER_NOT_AVAILABLE),)


def test_unclean_election_needs_a_leaderless_partition_and_a_living_replica() -> None:
    cluster = Cluster(elr_enabled=False)
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1,))
    request = ElectLeadersRequest(ELECT_UNCLEAN, (name,))
    assert cluster.ask(request).results == ((name, Error.ELECTION_NOT_NEEDED),)
    cluster.beat(1, fence=True)
    assert cluster.records_of(request) == ()
    assert cluster.ask(request).results == ((name, Error.ELIGIBLE_LEADERS_NOT_AVAILABLE),)
    assert cluster.ask(request._replace(election_type=7)).error is Error.INVALID_REQUEST


# -- reassignment ---------------------------------------------------------------------------------


def test_t24_a_reassignment_that_drops_its_leader_ends_with_the_leaders_own_proposal() -> None:
    """Move {1,2} to {2,3}: 1 proposes 3 and thereby demotes itself."""
    cluster = Cluster()
    cluster.start_brokers(1, 2, 3)
    name = cluster.create("t", (1, 2))
    move = AlterReassignmentRequest(name, (2, 3))
    assert cluster.records_of(move) == (
        change(name, replicas=(2, 3, 1), adding_replicas=(3,), removing_replicas=(1,)),
    )
    assert cluster.partition(name).leader == 1
    final = cluster.propose_request(1, cluster.proposal(name, 1, 2, 3))
    cluster.take_events()
    assert cluster.records_of(final) == (
        change(
            name,
            isr=(2, 3),
            leader=2,
            replicas=(2, 3),
            removing_replicas=(),
            adding_replicas=(),
        ),
    )
    assert list(cluster.answers.values())[-1] == [
        AlterPartitionResponse(Error.NONE, (IsrResult(name, Error.NEW_LEADER_ELECTED),))
    ]
    assert cluster.take_events()[0] == events.LeaderElected(name, 1, 2, 1, 2, (2, 3), False)
    assert cluster.ask(final).results[0].error is Error.FENCED_LEADER_EPOCH


def test_a_move_to_one_new_broker_is_a_clean_election() -> None:
    cluster = Cluster()
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1,))
    cluster.ask(AlterReassignmentRequest(name, (2,)))
    cluster.take_events()
    assert cluster.propose(1, cluster.proposal(name, 1, 2)).error is Error.NEW_LEADER_ELECTED
    assert cluster.take_events()[0] == events.LeaderElected(name, 1, 2, 1, 2, (2,), False)


def test_a_completed_reassignment_that_keeps_its_leader_answers_with_the_new_leader_epoch() -> None:
    cluster = Cluster()
    cluster.start_brokers(1, 2, 3)
    name = cluster.create("t", (1, 2))
    cluster.ask(AlterReassignmentRequest(name, (1, 3)))
    result = cluster.propose(1, cluster.proposal(name, 1, 2, 3))
    assert result == IsrResult(name, Error.NONE, 1, 1, (1, 3), 0, 2)


def test_reassignments_that_cannot_be() -> None:
    cluster = Cluster()
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1,))
    for replicas, error in [
        ((), Error.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), Error.INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), Error.INVALID_REPLICA_ASSIGNMENT),
        (None, Error.NO_REASSIGNMENT_IN_PROGRESS),
    ]:
        request = AlterReassignmentRequest(name, replicas)
        assert cluster.records_of(request) == ()
        assert cluster.ask(request).error is error
    unknown = AlterReassignmentRequest(PartitionId(b"?", 0), (1,))
    assert cluster.ask(unknown).error is Error.UNKNOWN_TOPIC_OR_PARTITION


def test_who_only_moves_replicas_does_not_change_their_number() -> None:
    cluster = Cluster()
    cluster.start_brokers(1, 2, 3)
    name = cluster.create("t", (1, 2))
    more = AlterReassignmentRequest(name, (1, 2, 3), may_change_replication_factor=False)
    assert cluster.ask(more).error is Error.INVALID_REPLICATION_FACTOR
    move = AlterReassignmentRequest(name, (2, 3), may_change_replication_factor=False)
    assert cluster.ask(move).error is Error.NONE
    # While it moves there are three, and the number that must stay is still two.
    again = AlterReassignmentRequest(name, (3, 2), may_change_replication_factor=False)
    assert cluster.ask(again).error is Error.NONE


def test_a_cancelled_reassignment_returns_to_where_it_came_from() -> None:
    cluster = Cluster()
    cluster.start_brokers(1, 2, 3)
    name = cluster.create("t", (1, 2))
    cluster.ask(AlterReassignmentRequest(name, (3, 1)))
    cancel = AlterReassignmentRequest(name, None)
    assert cluster.ask(cancel) == AdminResponse(Error.NONE)
    partition = cluster.partition(name)
    assert (partition.replicas, partition.adding_replicas) == ((1, 2), ())


# -- timers ---------------------------------------------------------------------------------------


def test_leaders_go_back_to_preferred_brokers_by_a_timer_that_is_off_when_there_are_none() -> None:
    cluster = Cluster(session_timeout_ms=10**9)
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1, 2))
    idle_ms = cluster.controller.next_deadline_ms
    assert idle_ms >= 10**9, "only leases"
    cluster.beat(1, fence=True)
    assert cluster.controller.next_deadline_ms == cluster.now_ms + 300_000
    cluster.beat(1)
    cluster.propose(2, cluster.proposal(name, 2, 1))
    cluster.now_ms += 299_999
    assert cluster.tick() == ()
    cluster.now_ms += 1
    assert cluster.tick() == (change(name, leader=1),)
    assert cluster.controller.next_deadline_ms >= 10**9


def test_a_full_batch_of_elections_is_followed_by_another_ten_milliseconds_later() -> None:
    cluster = Cluster(session_timeout_ms=10**9)
    cluster.start_brokers(1, 2)
    cluster.create("t", *[(1, 2)] * 1500)
    cluster.beat(1, fence=True)
    cluster.beat(1)
    topic_id = cluster.image.topic_ids["t"]
    proposals = [cluster.proposal(PartitionId(topic_id, i), 2, 1) for i in range(1500)]
    cluster.ask(cluster.propose_request(2, *proposals))
    cluster.now_ms += 300_000
    assert len(cluster.tick()) == 1000
    assert cluster.controller.next_deadline_ms == cluster.now_ms + 10
    cluster.now_ms += 10
    assert len(cluster.tick()) == 500
    assert cluster.controller.next_deadline_ms >= 10**9


def test_balancing_can_be_switched_off() -> None:
    cluster = Cluster(session_timeout_ms=10**9, auto_leader_rebalance=False)
    cluster.start_brokers(1, 2)
    cluster.create("t", (1, 2))
    cluster.beat(1, fence=True)
    assert cluster.controller.next_deadline_ms >= 10**9


def test_a_topic_that_allows_it_later_gets_an_unclean_leader_by_a_timer() -> None:
    cluster = Cluster(
        elr_enabled=False, session_timeout_ms=10**9, leader_imbalance_check_interval_ms=10**9
    )
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1, 2))
    cluster.propose(1, cluster.proposal(name, 1))
    cluster.beat(1, fence=True)
    assert cluster.controller.next_deadline_ms == cluster.now_ms + 300_000
    cluster.now_ms += 300_000
    assert cluster.tick() == (), "not allowed yet"
    assert cluster.controller.next_deadline_ms == cluster.now_ms + 300_000
    allow = (("unclean.leader.election.enable", "true"),)
    cluster.ask(AlterConfigRequest(r.RESOURCE_TOPIC, "t", allow))
    cluster.now_ms += 300_000
    assert cluster.tick() == (change(name, isr=(2,), leader=2, leader_recovery_state=r.RECOVERING),)


def test_a_topic_that_allows_it_is_led_uncleanly_at_once() -> None:
    cluster = Cluster(elr_enabled=False, unclean_default=True)
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1, 2))
    cluster.propose(1, cluster.proposal(name, 1))
    cluster.beat(1, fence=True)
    assert cluster.partition(name).leader == 2


def test_an_idle_log_gets_a_record_every_half_second() -> None:
    cluster = Cluster(max_idle_interval_ms=500)
    assert cluster.controller.next_deadline_ms == cluster.now_ms + 500
    cluster.now_ms += 400
    cluster.register(1)
    assert cluster.controller.next_deadline_ms == cluster.now_ms + 500, "it was not idle"
    cluster.now_ms += 500
    assert cluster.tick() == (r.NoOp(),)
    assert cluster.tick() == ()
    cluster.renounce()
    assert cluster.controller.next_deadline_ms == NEVER_MS


# -- T26 ------------------------------------------------------------------------------------------


def test_t26_a_recreated_topic_has_another_id_and_the_old_one_is_unknown() -> None:
    cluster, old = three_brokers()
    proposal = cluster.proposal(old, 1, 2, 3)
    assert cluster.records_of(DeleteTopicRequest("t")) == (r.RemoveTopic(old.topic_id),)
    new = cluster.create("t", (1, 2, 3))
    assert new.topic_id != old.topic_id
    assert cluster.propose(1, proposal).error is Error.UNKNOWN_TOPIC_ID
    assert cluster.ask(CreateTopicRequest("t")).error is Error.TOPIC_ALREADY_EXISTS
