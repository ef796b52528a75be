"""Fast failover: what a proof of death does at the controller and in the quorum (ADR 0017)."""

from typing import Any

import pytest

from support import controller_cluster as brokers
from support import quorum_cluster as voters
from tidelog.core.errors import Error
from tidelog.core.failover import ProbeOutcome, Suspicion, confirms_death, suspect
from tidelog.core.metadata import records as r
from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.quorum.messages import VoteRequest
from tidelog.core.requests import HeartbeatRequest, RegisterBrokerResponse
from tidelog.core.types import NO_EPOCH, PartitionId


def change(name: PartitionId, **fields: Any) -> r.PartitionChange:
    return r.PartitionChange(name.partition, name.topic_id, **fields)


# -- the proof ----------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ProbeOutcome)
def test_only_a_refused_connection_proves_that_a_process_is_gone(outcome: ProbeOutcome) -> None:
    assert confirms_death(outcome) is (outcome is ProbeOutcome.REFUSED)


def test_a_suspicion_names_what_was_known_before_the_probe() -> None:
    cluster = brokers.Cluster(nodes=2)
    cluster.start_brokers(1, 2)
    quorum = elected(observers=(4,))
    controller, other = cluster.controllers
    follower, leader, observer = quorum.node(2), quorum.node(1), quorum.node(4)
    assert suspect(1, controller, follower) == Suspicion(1, cluster.epoch_of(1), 1)
    assert suspect(2, controller, follower) == Suspicion(2, cluster.epoch_of(2), NO_EPOCH)
    assert suspect(1, other, follower) == Suspicion(1, NO_EPOCH, 1), "it controls nobody"
    assert suspect(1, None, observer) == Suspicion(1, NO_EPOCH, 1)
    assert suspect(3, controller, follower) is None, "neither registered nor leading"
    assert suspect(2, None, leader) is None


# -- the controller -----------------------------------------------------------------------------


def gone(
    cluster: brokers.Cluster, broker: int, broker_epoch: int | None = None
) -> tuple[MetadataRecord, ...]:
    """The records that the news of a death adds to the log."""
    count = len(cluster.records)
    epoch = cluster.epoch_of(broker) if broker_epoch is None else broker_epoch
    cluster.perform(cluster.controller.on_broker_gone(broker, epoch, cluster.now_ms))
    return cluster.records[count:]


def test_a_dead_broker_is_fenced_at_once_with_the_records_of_an_expired_lease() -> None:
    cluster = brokers.Cluster()
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1, 2))
    assert gone(cluster, 1) == (
        change(name, isr=(2,), leader=2),
        r.BrokerRegistrationChange(1, cluster.epoch_of(1), fenced=1),
    )
    assert gone(cluster, 1) == (), "it is fenced already"
    cluster.now_ms += 8999
    cluster.beat(2)
    cluster.now_ms += 1
    assert cluster.tick() == (), "its lease does not end a second time"


def test_a_restarted_broker_registers_at_once_after_the_proof_and_not_before() -> None:
    cluster = brokers.Cluster()
    cluster.start_brokers(1, 2)
    epoch = cluster.epoch_of(1)
    assert cluster.restart(1).error is Error.DUPLICATE_BROKER_REGISTRATION
    gone(cluster, 1)
    assert cluster.ask(cluster.register_request(1)).error is Error.NONE
    assert cluster.epoch_of(1) > epoch
    assert not cluster.beat(1).is_fenced


def test_a_proof_about_a_former_incarnation_does_not_touch_its_successor() -> None:
    """Refused, restarted, registered; only then the controller hears of the refusal."""
    cluster = brokers.Cluster()
    cluster.start_brokers(1, 2)
    former = cluster.epoch_of(1)
    gone(cluster, 1)
    cluster.restart(1)
    assert not cluster.beat(1).is_fenced
    assert gone(cluster, 1, former) == ()
    assert cluster.image.is_active(1)
    rival = cluster.register_request(1)._replace(incarnation_id=b"the third one...")
    refused = RegisterBrokerResponse(Error.DUPLICATE_BROKER_REGISTRATION)
    assert cluster.ask(rival) == refused, "the successor keeps its session"


def test_nobody_is_fenced_who_is_unknown_or_by_who_is_not_the_controller() -> None:
    cluster = brokers.Cluster(nodes=2)
    cluster.start_brokers(1)
    epoch = cluster.epoch_of(1)
    assert gone(cluster, 7, 3) == ()
    assert gone(cluster, 1, epoch + 1) == ()
    assert cluster.controllers[1].on_broker_gone(1, epoch, cluster.now_ms) == []
    assert cluster.image.is_active(1)


def test_a_broker_that_dies_before_it_was_unfenced_does_not_keep_its_id() -> None:
    cluster = brokers.Cluster()
    cluster.register(1)
    assert gone(cluster, 1) == ()
    assert cluster.restart(1).error is Error.NONE


def test_a_broker_that_dies_in_controlled_shutdown_is_fenced_for_good() -> None:
    cluster = brokers.Cluster()
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1,))
    assert not cluster.beat(1, stop=True).should_shut_down, "nobody else can lead"
    assert gone(cluster, 1)[-1] == r.BrokerRegistrationChange(1, cluster.epoch_of(1), fenced=1)
    assert cluster.partition(name).leader == -1
    assert cluster.beat(1).is_fenced, "a late heartbeat from before the shutdown"
    assert cluster.beat(1, stop=True).should_shut_down, "and one from it"
    assert cluster.image.brokers[1].fenced
    assert cluster.restart(1).error is Error.NONE


def test_a_heartbeat_that_a_dead_broker_left_in_the_network_does_not_unfence_it() -> None:
    cluster = brokers.Cluster()
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1, 2))
    late = cluster.beat_request(1)
    gone(cluster, 1)
    cluster.now_ms += 100
    assert cluster.records_of(late) == ()
    assert cluster.ask(late).is_fenced
    assert cluster.partition(name).leader == 2
    assert cluster.restart(1).error is Error.NONE, "nor does it keep its successor out"


def test_who_was_taken_for_dead_and_knows_of_its_fence_is_alive_and_returns() -> None:
    """A firewall may refuse for a process that is well: then nothing worse than a fence."""
    cluster = brokers.Cluster()
    cluster.start_brokers(1, 2)
    epoch = cluster.epoch_of(1)
    gone(cluster, 1)
    assert not cluster.beat(1).is_fenced
    assert cluster.epoch_of(1) == epoch
    assert cluster.restart(1).error is Error.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms += 9000
    cluster.beat(2)
    assert cluster.tick() == (r.BrokerRegistrationChange(1, epoch, fenced=1),), "a lease again"


def test_a_late_heartbeat_at_the_next_controller_costs_one_lease_at_most() -> None:
    """What the proof said is in no record; a dead broker that is unfenced stays silent."""
    cluster = brokers.Cluster(nodes=2)
    cluster.start_brokers(1, 2)
    late = HeartbeatRequest(1, cluster.epoch_of(1), cluster.end_offset - 1)
    gone(cluster, 1)
    cluster.elect(1)
    assert not cluster.ask(late).is_fenced
    cluster.let_expire(1)
    assert cluster.image.brokers[1].fenced


# -- the quorum ---------------------------------------------------------------------------------


def elected(
    voter_ids: tuple[int, ...] = (1, 2, 3), observers: tuple[int, ...] = ()
) -> voters.Cluster:
    """A cluster led by node 1 in epoch 1."""
    cluster = voters.Cluster(voter_ids, observers=observers)
    cluster.boot()
    cluster.run(1200)
    assert cluster.leader() == 1
    return cluster


def tell(cluster: voters.Cluster, *node_ids: int, leader_id: int = 1, epoch: int = 1) -> None:
    """These nodes were refused when they connected to the leader."""
    for node_id in node_ids:
        node = cluster.node(node_id)
        cluster.perform(node_id, node.on_leader_gone(leader_id, epoch, cluster.now_ms))


def test_the_next_leader_is_elected_without_a_moment_of_waiting() -> None:
    cluster = elected()
    cluster.crash(1)
    tell(cluster, 3, 2)
    died_ms = cluster.now_ms
    cluster.settle()
    assert (cluster.leader(), cluster.now_ms) == (2, died_ms)
    assert cluster.node(3).leader_id == 2
    cluster.run(5000)
    assert (cluster.leader(), cluster.node(2).epoch) == (2, 2)


def test_who_has_not_found_the_leader_gone_itself_does_not_help_yet() -> None:
    cluster = elected()
    cluster.crash(1)
    tell(cluster, 2)
    cluster.settle()
    assert cluster.roles() == {1: "down", 2: "prospective", 3: "follower"}
    tell(cluster, 3)
    cluster.run(50)
    assert cluster.leader() == 3, "the second in line campaigns 50 ms later, and is granted"
    assert cluster.node(3).epoch == 2


def test_the_second_in_line_takes_over_when_the_first_is_dead_too() -> None:
    cluster = elected((1, 2, 3, 4, 5))
    cluster.crash(1)
    cluster.crash(2)
    tell(cluster, 3, 4, 5)
    cluster.run(49)
    assert "leader" not in cluster.roles().values()
    cluster.run(1)
    assert cluster.leader() == 3


def test_a_live_leader_loses_nothing_when_one_voter_takes_it_for_dead() -> None:
    cluster = elected()
    tell(cluster, 2)
    cluster.run(5000)
    assert (cluster.leader(), cluster.node(1).epoch) == (1, 1), "the others hear it and refuse"
    assert cluster.node(2).role == "follower"
    assert [request.pre_vote for request in cluster.sent(VoteRequest, source=2)] == [True, True]


@pytest.mark.parametrize(("leader_id", "epoch"), [(1, 0), (1, 2), (3, 1), (2, 1)])
def test_a_proof_about_another_leader_or_epoch_is_nothing_to_a_follower(
    leader_id: int, epoch: int
) -> None:
    cluster = elected()
    tell(cluster, 2, leader_id=leader_id, epoch=epoch)
    assert cluster.node(2).role == "follower"
    cluster.run(5000)
    assert (cluster.leader(), cluster.node(1).epoch) == (1, 1)


def test_a_leader_and_a_node_that_asks_already_go_on_as_they_were() -> None:
    cluster = elected()
    tell(cluster, 1, leader_id=2)
    tell(cluster, 2)
    sent = len(cluster.sent(VoteRequest))
    tell(cluster, 2)
    assert len(cluster.sent(VoteRequest)) == sent
    assert cluster.roles() == {1: "leader", 2: "prospective", 3: "follower"}


def test_an_observer_looks_for_another_leader_at_once() -> None:
    cluster = elected(observers=(4,))
    cluster.crash(1)
    tell(cluster, 4)
    assert cluster.node(4).role == "unattached"
    tell(cluster, 2, 3)
    cluster.run(500)
    assert (cluster.node(4).role, cluster.node(4).leader_id) == ("follower", 2)


def test_a_voter_that_is_stopping_helps_and_does_not_campaign() -> None:
    cluster = elected()
    cluster.crash(1)
    cluster.perform(2, cluster.node(2).shutdown(cluster.now_ms))
    tell(cluster, 2, 3)
    cluster.run(50)
    assert cluster.leader() == 3


def test_a_leader_that_resigned_before_it_went_has_said_who_campaigns_when() -> None:
    cluster = elected()
    cluster.perform(1, cluster.node(1).shutdown(cluster.now_ms))
    cluster.settle()
    heir = cluster.roles()
    tell(cluster, 2, 3)
    assert cluster.roles() == heir
    cluster.crash(1)
    cluster.run(500)
    assert cluster.leader() in (2, 3)
    assert max(cluster.node(n).epoch for n in (2, 3)) == 2
