"""Registration, heartbeats, leases and departures, as the active controller decides them."""

from typing import Any

import pytest

from support.controller_cluster import CLUSTER_ID, Cluster, incarnation
from tidelog.core import events
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.heartbeats import BrokerState, HeartbeatFacts, next_state
from tidelog.core.metadata.image import BrokerRegistration
from tidelog.core.requests import (
    AdminResponse,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    ControllerRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
)
from tidelog.core.types import NEVER_MS, PartitionId


def change(name: PartitionId, **fields: Any) -> r.PartitionChange:
    return r.PartitionChange(name.partition, name.topic_id, **fields)


# -- registration (§5.1) ------------------------------------------------------------------------


def test_a_new_broker_is_registered_fenced_with_the_next_offset_as_its_epoch() -> None:
    cluster = Cluster()
    offset = cluster.end_offset
    request = RegisterBrokerRequest(
        7, CLUSTER_ID, b"i" * 16, "rack", (b"d" * 16,), endpoints=(("PLAIN", "host", 9092),)
    )
    (record,) = cluster.records_of(request)
    assert record == r.RegisterBroker(
        7,
        b"i" * 16,
        offset,
        (r.Endpoint("PLAIN", "host", 9092),),
        "rack",
        True,
        False,
        (b"d" * 16,),
    )
    assert cluster.ask(request) == RegisterBrokerResponse(Error.NONE, offset)


def test_a_repeated_registration_writes_nothing_and_an_amended_one_keeps_epoch_and_fence() -> None:
    cluster = Cluster()
    cluster.start_brokers(1)
    epoch = cluster.epoch_of(1)
    again = cluster.register_request(1)
    assert cluster.records_of(again) == ()
    assert cluster.ask(again) == RegisterBrokerResponse(Error.NONE, epoch)

    (record,) = cluster.records_of(again._replace(rack="moved"))
    assert record == r.RegisterBroker(1, incarnation(1, 0), epoch, rack="moved", fenced=False)
    assert cluster.image.is_active(1)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "other"}, Error.INCONSISTENT_CLUSTER_ID),
        ({"log_dirs": (b"d" * 16, b"d" * 16)}, Error.INVALID_REGISTRATION),
        ({"log_dirs": ((5).to_bytes(16, "big"),)}, Error.INVALID_REGISTRATION),
        ({"log_dirs": (b"of broker one...",)}, Error.INVALID_REGISTRATION),
        ({"broker_id": -2}, Error.INVALID_REGISTRATION),
        ({"log_dirs": (b"d" * 16,)}, Error.NONE),
    ],
)
def test_the_registration_table(changes: dict[str, object], error: Error) -> None:
    cluster = Cluster()
    first = cluster.register_request(1)._replace(log_dirs=(b"of broker one...",))
    cluster.ask(first)
    request = cluster.register_request(2)._replace(**changes)
    count = len(cluster.records)
    assert cluster.ask(request).error is error
    assert (len(cluster.records) == count) is (error is not Error.NONE)


def test_k11_a_second_process_with_the_same_id_waits_for_the_lease_of_the_first() -> None:
    cluster = Cluster()
    cluster.start_brokers(1)
    epoch = cluster.epoch_of(1)
    rival = cluster.register_request(1)._replace(incarnation_id=b"the other one...")
    for _ in range(3):
        cluster.now_ms += 8999
        assert cluster.records_of(rival) == ()
        assert cluster.ask(rival) == RegisterBrokerResponse(Error.DUPLICATE_BROKER_REGISTRATION)
        cluster.beat(1)
    cluster.now_ms += 9000
    assert cluster.ask(rival).error is Error.NONE
    assert cluster.epoch_of(1) > epoch
    stale = HeartbeatRequest(1, epoch, 100)
    assert cluster.ask(stale) == HeartbeatResponse(Error.STALE_BROKER_EPOCH)


DIRECTORY = b"a log directory."
AT_HOME = (("PLAINTEXT", "tide-1", 9092),)


def lives_again(cluster: Cluster) -> RegisterBrokerRequest:
    """Broker 1 runs; what the next process on its directory asks for, in the same place."""
    first = cluster.register_request(1)._replace(log_dirs=(DIRECTORY,), endpoints=AT_HOME)
    cluster.ask(first)
    cluster.beat(1)
    return first._replace(incarnation_id=b"the next one....")


def test_a_killed_broker_that_is_started_again_need_not_wait_for_its_own_lease() -> None:
    cluster = Cluster()
    again = lives_again(cluster)
    epoch = cluster.epoch_of(1)
    cluster.controller.on_disconnected(1, epoch)
    assert cluster.ask(again).error is Error.NONE
    assert cluster.epoch_of(1) > epoch


def test_a_single_node_that_was_killed_need_not_wait_for_its_own_lease() -> None:
    """Nobody has heard the former process since the claim of its own next life."""
    cluster = Cluster()
    again = lives_again(cluster)
    cluster.elect(0)
    assert cluster.ask(again).error is Error.NONE


def test_a_copy_of_a_directory_waits_while_the_first_holder_is_connected() -> None:
    cluster = Cluster()
    copy = lives_again(cluster)
    epoch = cluster.epoch_of(1)
    for previous_broker_epoch in (-1, epoch):
        claim = copy._replace(previous_broker_epoch=previous_broker_epoch)
        assert cluster.ask(claim).error is Error.DUPLICATE_BROKER_REGISTRATION
    assert cluster.epoch_of(1) == epoch
    assert cluster.beat(1).error is Error.NONE


@pytest.mark.parametrize(
    "changes",
    [
        {"endpoints": (("PLAINTEXT", "tide-1", 9099),)},
        {"endpoints": (("PLAINTEXT", "elsewhere", 9092),)},
        {"log_dirs": (b"another one.....",)},
    ],
)
def test_who_does_not_stand_in_the_place_of_the_first_waits_for_its_lease(
    changes: dict[str, Any],
) -> None:
    cluster = Cluster()
    other = lives_again(cluster)._replace(**changes)
    epoch = cluster.epoch_of(1)
    cluster.controller.on_disconnected(1, epoch)
    claim = other._replace(previous_broker_epoch=epoch)
    assert cluster.ask(claim).error is Error.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms += 9000
    assert cluster.ask(claim).error is Error.NONE


def test_a_connection_of_a_former_incarnation_that_closes_late_says_nothing() -> None:
    cluster = Cluster()
    again = lives_again(cluster)
    former = cluster.epoch_of(1)
    cluster.controller.on_disconnected(1, former)
    assert cluster.ask(again).error is Error.NONE
    cluster.beat(1)
    cluster.controller.on_disconnected(1, former)
    third = again._replace(incarnation_id=b"the third one...")
    assert cluster.ask(third).error is Error.DUPLICATE_BROKER_REGISTRATION


def test_a_fenced_broker_that_still_talks_also_keeps_its_id() -> None:
    cluster = Cluster()
    cluster.register(1)
    cluster.now_ms += 8000
    assert cluster.beat(1, fence=True).is_fenced
    cluster.now_ms += 8000
    assert cluster.restart(1).error is Error.DUPLICATE_BROKER_REGISTRATION


@pytest.mark.parametrize("elr", [True, False])
def test_t15_a_crashed_broker_returns_without_its_seats_in_one_batch(elr: bool) -> None:
    """B was the leader of one partition and a follower in another (replication.md T15)."""
    cluster = Cluster(elr_enabled=elr)
    cluster.start_brokers(1, 2, 3)
    led = cluster.create("led", (2, 1, 3))
    followed = cluster.create("followed", (1, 2, 3))

    cluster.now_ms += 2000
    for other in (1, 3):
        cluster.beat(other)
    assert cluster.restart(2).error is Error.DUPLICATE_BROKER_REGISTRATION, "within the session"
    assert cluster.partition(led).leader == 2

    cluster.now_ms += 7001  # nobody has fenced it yet: its next incarnation is first
    for other in (1, 3):
        cluster.beat(other)
    offset = cluster.end_offset
    response = cluster.ask(cluster.register_request(2))
    assert response == RegisterBrokerResponse(Error.NONE, offset)
    assert cluster.log[-1].records == (
        change(led, isr=(1, 3), leader=1),
        change(followed, isr=(1, 3)),
        r.RegisterBroker(2, incarnation(2, 1), offset),
    ), "one atomic batch, seats first"


def test_a_broker_that_stopped_cleanly_may_stay_eligible_and_a_crashed_one_not() -> None:
    for clean in (True, False):
        cluster = Cluster(min_insync_replicas=2)
        cluster.start_brokers(1, 2)
        name = cluster.create("t", (1, 2))
        epoch = cluster.epoch_of(2)
        cluster.now_ms += 8000
        cluster.beat(1)
        cluster.now_ms += 1000
        cluster.restart(2, previous_broker_epoch=epoch if clean else -1)
        partition = cluster.partition(name)
        assert (partition.isr, partition.elr) == ((1,), (2,) if clean else ())


@pytest.mark.parametrize(("replicas", "leads_again"), [((1, 2), False), ((1,), True)])
def test_the_last_leader_is_not_elected_again_with_an_empty_disk_while_others_have_records(
    replicas: tuple[int, ...], leads_again: bool
) -> None:
    """Everything was committed by broker 1 alone; it comes back with newly formatted disks."""
    cluster = Cluster()
    first = cluster.register_request(1)._replace(log_dirs=(DIRECTORY,))
    cluster.ask(first)
    cluster.beat(1)
    cluster.start_brokers(2)
    name = cluster.create("t", replicas)
    cluster.let_expire(2)
    cluster.let_expire(1)
    assert cluster.partition(name).last_known_elr == (1,)
    replaced = first._replace(incarnation_id=b"the next one....", log_dirs=(b"another one.....",))
    assert cluster.ask(replaced).error is Error.NONE
    cluster.beat(1)
    assert cluster.partition(name).leader == (1 if leads_again else -1)


def test_the_mark_of_an_older_incarnation_does_not_count_as_a_clean_stop() -> None:
    cluster = Cluster(min_insync_replicas=2)
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1, 2))
    cluster.now_ms += 8000
    cluster.beat(1)
    cluster.now_ms += 1000
    cluster.restart(2, previous_broker_epoch=cluster.epoch_of(2) - 1)
    assert cluster.partition(name).elr == ()


# -- heartbeats (§5.2) --------------------------------------------------------------------------

F, U = BrokerState.FENCED, BrokerState.UNFENCED
C, S = BrokerState.CONTROLLED_SHUTDOWN, BrokerState.SHUTDOWN_NOW

FENCED = {"fenced": True, "in_controlled_shutdown": False}
UNFENCED = {"fenced": False, "in_controlled_shutdown": False}
LEAVING = {"fenced": False, "in_controlled_shutdown": True}
LEFT = {"fenced": True, "in_controlled_shutdown": True}


@pytest.mark.parametrize(
    ("state", "wants_fence_and_stop", "caught_up_leads_and_known", "expected"),
    [
        (FENCED, (True, False), (True, False, False), F),
        (FENCED, (False, False), (False, False, False), F),
        (FENCED, (False, False), (True, False, False), U),
        (FENCED, (False, True), (True, False, False), S),
        (FENCED, (True, True), (False, False, False), S),
        (LEFT, (False, False), (True, False, False), F),
        (LEFT, (False, True), (True, False, False), S),
        (UNFENCED, (False, False), (True, True, False), U),
        (UNFENCED, (True, False), (True, True, False), F),
        (UNFENCED, (True, True), (True, True, False), S),
        (UNFENCED, (False, True), (True, True, False), C),
        (UNFENCED, (False, True), (True, False, False), S),
        (LEAVING, (False, True), (True, True, True), C),
        (LEAVING, (False, True), (True, False, False), C),
        (LEAVING, (False, True), (True, False, True), S),
    ],
)
def test_the_heartbeat_table(
    state: dict[str, bool],
    wants_fence_and_stop: tuple[bool, bool],
    caught_up_leads_and_known: tuple[bool, bool, bool],
    expected: BrokerState,
) -> None:
    broker = BrokerRegistration(1, b"i", 5, (), None, log_dirs=(), **state)
    request = HeartbeatRequest(1, 5, 10, *wants_fence_and_stop)
    assert next_state(broker, request, HeartbeatFacts(*caught_up_leads_and_known)) is expected


def test_a_broker_is_unfenced_only_after_it_has_seen_its_own_registration() -> None:
    cluster = Cluster()
    cluster.start_brokers(1, 2)
    cluster.create("a", (2, 1))
    cluster.create("b", (1, 2))
    cluster.now_ms += 8000
    cluster.beat(1)
    cluster.now_ms += 1000
    epoch = cluster.restart(2).broker_epoch
    registered_at = epoch + 2  # two partition changes come before it in the batch
    assert type(cluster.log[-1].records[-1]) is r.RegisterBroker
    assert cluster.end_offset == registered_at + 1

    behind = cluster.beat(2, offset=registered_at - 1)
    assert behind == HeartbeatResponse(Error.NONE, is_caught_up=False, is_fenced=True)
    caught_up = cluster.beat(2, offset=registered_at)
    assert caught_up == HeartbeatResponse(Error.NONE, is_caught_up=True, is_fenced=False)
    assert cluster.records[-1] == r.BrokerRegistrationChange(2, epoch, fenced=-1)


def test_a_new_controller_knows_where_registrations_are_from_the_log_or_a_snapshot() -> None:
    cluster = Cluster(nodes=2)
    cluster.register(1)
    registered_at = cluster.end_offset - 1
    cluster.elect(1)
    assert cluster.beat(1, offset=registered_at - 1).is_fenced
    assert not cluster.beat(1, offset=registered_at).is_fenced


def test_heartbeats_and_other_requests_with_another_epoch_change_nothing() -> None:
    cluster = Cluster()
    cluster.start_brokers(1)
    stale: list[ControllerRequest] = [
        HeartbeatRequest(1, cluster.epoch_of(1) - 1, 99, True, True),
        HeartbeatRequest(1, cluster.epoch_of(1) + 1, 99, True, True),
        HeartbeatRequest(9, 1, 99),
        AllocateProducerIdsRequest(1, 0),
    ]
    for request in stale:
        assert cluster.records_of(request) == ()
        assert cluster.ask(request).error is Error.STALE_BROKER_EPOCH
    cluster.now_ms += 8000
    cluster.ask(HeartbeatRequest(1, cluster.epoch_of(1) - 1, 99))
    cluster.now_ms += 1000
    assert cluster.tick() == (r.BrokerRegistrationChange(1, cluster.epoch_of(1), fenced=1),), (
        "the wrong incarnation does not renew a lease"
    )


def test_a_broker_may_fence_itself_and_come_back() -> None:
    cluster = Cluster()
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1, 2))
    epoch = cluster.epoch_of(1)
    assert cluster.records_of(cluster.beat_request(1, fence=True)) == (
        change(name, isr=(2,), leader=2),
        r.BrokerRegistrationChange(1, epoch, fenced=1),
    )
    assert cluster.records_of(cluster.beat_request(1, fence=True)) == ()
    assert not cluster.beat(1).is_fenced
    assert cluster.epoch_of(1) == epoch


# -- leases -------------------------------------------------------------------------------------


def test_a_silent_broker_is_fenced_exactly_when_its_lease_ends() -> None:
    cluster = Cluster()
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1, 2))
    start_ms = cluster.now_ms
    cluster.now_ms = start_ms + 4000
    cluster.beat(2)
    assert cluster.controller.next_deadline_ms == start_ms + 9000
    cluster.now_ms = start_ms + 8999
    assert cluster.tick() == ()
    cluster.now_ms = start_ms + 9000
    assert cluster.tick() == (
        change(name, isr=(2,), leader=2),
        r.BrokerRegistrationChange(1, cluster.epoch_of(1), fenced=1),
    )
    assert cluster.take_events()[-3:] == [
        events.LeaderElected(name, 1, 2, 1, 1, (2,), False),
        events.IsrCommitted(name, (1, 2), (2,), (), 1),
        events.BrokerFenced(1, cluster.epoch_of(1)),
    ]


def test_one_broker_is_fenced_per_tick_and_the_longest_silent_first() -> None:
    cluster = Cluster()
    cluster.start_brokers(1, 2, 3)
    cluster.now_ms += 100
    cluster.beat(1)
    cluster.now_ms += 20_000
    fenced = []
    while cluster.controller.next_deadline_ms <= cluster.now_ms:
        (record,) = cluster.tick()
        assert isinstance(record, r.BrokerRegistrationChange)
        fenced.append(record.broker_id)
    assert fenced == [2, 3, 1]
    assert cluster.tick() == ()
    assert cluster.controller.next_deadline_ms == NEVER_MS


def test_a_heartbeat_that_waited_in_the_queue_renewed_the_lease_when_it_arrived() -> None:
    cluster = Cluster()
    cluster.start_brokers(1)
    cluster.now_ms += 8000
    cluster.controller.on_arrival(cluster.beat_request(1), cluster.now_ms)
    cluster.now_ms += 8999
    assert cluster.tick() == ()


def test_a_fenced_broker_is_unfenced_again_and_then_elected_where_nobody_leads() -> None:
    cluster = Cluster()
    cluster.start_brokers(1)
    name = cluster.create("t", (1,))
    cluster.now_ms += 9000
    assert cluster.tick() == (
        change(name, isr=(), leader=-1, elr=(1,), last_known_elr=(1,)),
        r.BrokerRegistrationChange(1, cluster.epoch_of(1), fenced=1),
    )
    assert cluster.records_of(cluster.beat_request(1)) == (
        r.BrokerRegistrationChange(1, cluster.epoch_of(1), fenced=-1),
        change(name, isr=(1,), leader=1, elr=(), last_known_elr=()),
    ), "first free, then elected"


def test_k12_a_new_controller_gives_everybody_a_full_lease() -> None:
    cluster = Cluster(nodes=2)
    cluster.start_brokers(1, 2)
    cluster.now_ms += 8999
    cluster.elect(1)
    claimed_ms = cluster.now_ms
    assert cluster.controller.next_deadline_ms == claimed_ms + 9000
    for elapsed_ms in range(0, 9000, 2000):
        cluster.now_ms = claimed_ms + elapsed_ms
        cluster.beat(2)
        assert cluster.tick() == ()
    cluster.now_ms = claimed_ms + 9000
    assert cluster.tick() == (r.BrokerRegistrationChange(1, cluster.epoch_of(1), fenced=1),)
    assert cluster.tick() == ()
    assert cluster.image.is_active(2)


# -- leaving ------------------------------------------------------------------------------------


def test_a_leader_leaves_when_every_active_broker_knows_that_it_leads_no_more() -> None:
    cluster = Cluster()
    cluster.start_brokers(1, 2, 3)
    name = cluster.create("t", (1, 2, 3))
    epoch = cluster.epoch_of(1)

    assert cluster.records_of(cluster.beat_request(1, stop=True)) == (
        change(name, isr=(2, 3), leader=2),
        r.BrokerRegistrationChange(1, epoch, in_controlled_shutdown=1),
    )
    shutdown_offset = cluster.end_offset - 1
    assert cluster.beat(1, stop=True) == HeartbeatResponse(Error.NONE, True, False, False)

    cluster.beat(2, offset=shutdown_offset)
    cluster.beat(3, offset=shutdown_offset - 1)
    assert not cluster.beat(1, stop=True).should_shut_down, "broker 3 still thinks that 1 leads"
    cluster.beat(3, offset=shutdown_offset)
    assert cluster.records_of(cluster.beat_request(1, stop=True)) == (
        r.BrokerRegistrationChange(1, epoch, fenced=1),
    )
    assert cluster.beat(1, stop=True) == HeartbeatResponse(Error.NONE, True, True, True), "again"

    late = cluster.beat_request(1)
    assert cluster.records_of(late) == (), "a late heartbeat does not unfence who has left"
    assert cluster.restart(1, previous_broker_epoch=epoch).error is Error.NONE, (
        "its next start need not wait for the lease"
    )


def test_a_broker_that_leads_nothing_may_go_at_once() -> None:
    cluster = Cluster()
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1, 2))
    assert cluster.records_of(cluster.beat_request(2, stop=True)) == (
        change(name, isr=(1,)),
        r.BrokerRegistrationChange(2, cluster.epoch_of(2), fenced=1, in_controlled_shutdown=1),
    )
    assert cluster.ask(cluster.beat_request(2, stop=True)).should_shut_down
    assert cluster.records_of(cluster.beat_request(2)) == ()
    assert not cluster.image.is_active(2)


@pytest.mark.parametrize("elr", [True, False])
def test_k13_the_last_replica_may_leave_and_leads_again_when_it_returns(elr: bool) -> None:
    cluster = Cluster(elr_enabled=elr)
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1,))
    epoch = cluster.epoch_of(1)
    eligible = {"isr": (), "elr": (1,), "last_known_elr": (1,)} if elr else {}
    assert cluster.records_of(cluster.beat_request(1, stop=True)) == (
        change(name, leader=-1, **eligible),
        r.BrokerRegistrationChange(1, epoch, in_controlled_shutdown=1),
    )
    cluster.beat(2)
    assert cluster.beat(1, stop=True).should_shut_down

    assert cluster.restart(1, previous_broker_epoch=epoch).error is Error.NONE
    assert cluster.partition(name).leader == -1
    cluster.beat(1)
    partition = cluster.partition(name)
    assert (partition.leader, partition.isr, partition.elr) == (1, (1,), ())
    assert partition.leader_recovery_state == r.RECOVERED, "a clean election"


def test_a_new_controller_waits_until_all_have_seen_what_it_knows_before_one_may_leave() -> None:
    cluster = Cluster(nodes=2)
    cluster.start_brokers(1, 2)
    cluster.create("t", (1, 2))
    cluster.beat(1, stop=True)
    cluster.elect(1)
    claimed_at = cluster.end_offset - 1
    assert not cluster.beat(1, stop=True).should_shut_down, "2 has not been heard of"
    cluster.beat(2, offset=claimed_at - 1)
    assert not cluster.beat(1, stop=True).should_shut_down
    cluster.beat(2, offset=claimed_at)
    assert cluster.beat(1, stop=True).should_shut_down


# -- many partitions ----------------------------------------------------------------------------


def test_k14_a_broker_with_ten_thousand_leaders_is_fenced_in_batches() -> None:
    cluster = Cluster()
    cluster.start_brokers(1, 2, 3)
    for topic in range(10):
        cluster.create(f"t{topic}", *[(1, 2, 3)] * 1000)
    entries = len(cluster.log)
    epoch = cluster.epoch_of(1)
    records = cluster.records_of(cluster.beat_request(1, fence=True))
    assert len(records) == 10_001
    assert records[-1] == r.BrokerRegistrationChange(1, epoch, fenced=1), "the fence comes last"
    assert [len(entry.records) for entry in cluster.log[entries:]] == [10_000, 1]
    for partition in cluster.image.partitions():
        assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 1, (2, 3))


def test_half_a_fence_leaves_a_broker_that_a_new_controller_can_fence_again() -> None:
    cluster = Cluster(nodes=2, max_records_per_batch=3)
    cluster.start_brokers(1, 2)
    names = [cluster.create(f"t{i}", (1, 2)) for i in range(5)]
    cluster.commits = False
    cluster.send(cluster.beat_request(1, fence=True))
    cluster.commit(1)  # three partitions have moved; the other two and the fence are lost
    cluster.elect(1)
    cluster.commits = True

    assert cluster.image.is_active(1)
    assert [cluster.partition(name).leader for name in names] == [2, 2, 2, 1, 1]
    cluster.let_expire(1)
    assert not cluster.image.is_active(1)
    assert [cluster.partition(name).leader for name in names] == [2] * 5
    assert [cluster.partition(name).leader_epoch for name in names] == [1] * 5


# -- the rest -----------------------------------------------------------------------------------


def test_an_unregistered_broker_loses_every_seat_first() -> None:
    cluster = Cluster(min_insync_replicas=2)
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1, 2))
    epoch = cluster.epoch_of(2)
    assert cluster.records_of(UnregisterBrokerRequest(2)) == (
        change(name, isr=(1,)),
        r.UnregisterBroker(2, epoch),
    )
    assert cluster.ask(UnregisterBrokerRequest(2)) == AdminResponse(
        Error.BROKER_ID_NOT_REGISTERED, "broker 2 is not registered"
    )
    assert cluster.ask(HeartbeatRequest(2, epoch, 50)).error is Error.STALE_BROKER_EPOCH
    assert cluster.register(2) > epoch


def test_blocks_of_producer_ids_never_overlap_also_when_a_request_is_repeated() -> None:
    cluster = Cluster()
    cluster.start_brokers(1)
    request = AllocateProducerIdsRequest(1, cluster.epoch_of(1))
    assert cluster.records_of(request) == (r.ProducerIds(1, cluster.epoch_of(1), 1000),)
    assert cluster.ask(request) == AllocateProducerIdsResponse(Error.NONE, 1000, 1000)
