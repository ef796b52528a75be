"""Rules about the controller and the metadata it commits."""

from dataclasses import dataclass

from support.rule_bench import PARTITION, TOPIC, Bench
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.replay import image_records, replay
from tidelog.core.requests import (
    AdminResponse,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteTopicRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    IsrMember,
    IsrProposal,
    IsrResult,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from tidelog.core.types import LogEntry

A, B, C = 1, 2, 3


def three() -> Bench:
    bench = Bench(A, B, C)
    bench.register(A, B, C)
    bench.create(A, A, B, C)
    assert bench.broken == []
    return bench


def image_of(bench: Bench) -> MetadataImage:
    """The production replay of everything committed."""
    image = MetadataImage()
    for entry in bench.judge.chronicle.entries:
        for record in entry.records:
            replay(image, record)
    return image


@dataclass
class StandInController:
    committed: MetadataImage
    committed_end: int
    current: MetadataImage | None = None


# -- K11


def test_a_controller_whose_image_is_the_replay_is_fine():
    bench = three()
    controller = StandInController(image_of(bench), bench.offset)
    bench.judge.controller_renounced(1, 1, controller)
    bench.controller_list = [(1, controller)]
    bench.judge.finish()
    assert bench.broken == []


def test_a_controller_whose_image_differs_from_the_replay_is_reported():
    bench = three()
    controller = StandInController(image_of(bench), bench.offset)
    controller.committed.brokers[A].fenced = True
    bench.judge.controller_renounced(1, 1, controller)
    assert bench.broken == ["K11"]


def test_a_former_controller_that_keeps_pending_state_is_reported():
    bench = three()
    image = image_of(bench)
    bench.judge.controller_renounced(1, 1, StandInController(image, bench.offset, image))
    assert bench.broken == ["K11"]


def test_pending_records_are_part_of_the_active_controllers_image():
    bench = three()
    committed = image_of(bench)
    pending = LogEntry(bench.offset, 1, (r.Topic("payments", b"payments"),))
    bench.judge.metadata_appended(1, pending)
    current = committed.copy()
    controller = StandInController(committed, bench.offset, current)
    bench.controller_list = [(1, controller)]
    bench.judge.finish()
    assert bench.broken == ["K11"]
    bench.judge.broken.clear()
    replay(current, pending.records[0])
    bench.judge.finish()
    assert bench.broken == []


# -- K12


def proposal_of(*isr: int) -> IsrProposal:
    return IsrProposal(PARTITION, 0, 0, tuple(IsrMember(each, -1) for each in isr), 0)


def claimed() -> Bench:
    bench = three()
    bench.judge.controller_claimed(1, 1)
    return bench


def test_success_from_a_node_that_is_not_the_controller_is_reported():
    bench = three()
    request = HeartbeatRequest(A, 0, 0)
    bench.judge.controller_answered(1, request, HeartbeatResponse(Error.NOT_CONTROLLER))
    assert bench.broken == []
    bench.judge.controller_answered(1, request, HeartbeatResponse(Error.NONE))
    assert bench.broken == ["K12"]


def resigned() -> Bench:
    bench = claimed()
    bench.judge.controller_renounced(1, 1, StandInController(image_of(bench), bench.offset))
    return bench


DELETED = (DeleteTopicRequest("orders"), AdminResponse(Error.NONE))


def test_a_former_controller_may_tell_an_administrator_that_its_own_records_are_committed():
    bench = resigned()
    bench.commit(r.NoOp())
    bench.judge.controller_answered(1, *DELETED)
    assert bench.broken == []


def test_success_of_which_a_former_controller_has_heard_nothing_is_reported():
    bench = resigned()
    bench.judge.controller_answered(1, *DELETED)
    assert bench.broken == ["K12"]


def test_success_from_a_former_controller_on_the_commit_of_another_claim_is_reported():
    bench = resigned()
    bench.quorum_epoch = 2
    bench.commit(r.NoOp())
    bench.judge.controller_answered(1, *DELETED)
    assert bench.broken == ["K12"]


def test_success_for_a_broker_from_a_former_controller_is_reported():
    bench = resigned()
    bench.commit(r.NoOp())
    bench.judge.controller_answered(1, HeartbeatRequest(A, 0, 0), HeartbeatResponse(Error.NONE))
    assert bench.broken == ["K12"]


def test_an_isr_answered_before_it_is_committed_is_reported():
    bench = claimed()
    request = AlterPartitionRequest(A, 0, (proposal_of(A, B),))
    ahead = IsrResult(PARTITION, Error.NONE, A, 0, (A, B), 0, 1)
    bench.judge.controller_answered(1, request, AlterPartitionResponse(Error.NONE, (ahead,)))
    assert bench.broken == ["K12"]


def test_an_isr_answered_after_it_is_committed_is_fine():
    bench = claimed()
    bench.change(isr=(A, B))
    result = IsrResult(PARTITION, Error.NONE, A, 0, (B, A), 0, 1)
    refused = IsrResult(PARTITION, Error.FENCED_LEADER_EPOCH)
    response = AlterPartitionResponse(Error.NONE, (result, refused))
    request = AlterPartitionRequest(A, 0, (proposal_of(A, B),))
    bench.judge.controller_answered(1, request, response)
    assert bench.broken == []


def test_who_is_told_that_it_has_left_the_isr_has_left_it():
    bench = claimed()
    request = AlterPartitionRequest(B, 0, (proposal_of(A, C),))
    response = AlterPartitionResponse(Error.NONE, (IsrResult(PARTITION, Error.NONE),))
    bench.judge.controller_answered(1, request, response)
    assert bench.broken == ["K12"]
    bench.judge.broken.clear()
    bench.change(isr=(A, C))
    bench.judge.controller_answered(1, request, response)
    assert bench.broken == []


def test_registrations_topics_and_ids_are_answered_only_when_committed():
    for request, early, fine in (
        (
            RegisterBrokerRequest(A, "c", b"x"),
            RegisterBrokerResponse(Error.NONE, 99),
            RegisterBrokerResponse(Error.NONE, 0),
        ),
        (
            HeartbeatRequest(A, 77, 0),  # an epoch that was never unfenced
            HeartbeatResponse(Error.NONE, True, is_fenced=False),
            HeartbeatResponse(Error.NONE, True, is_fenced=True),
        ),
        (
            CreateTopicRequest("t"),
            CreateTopicResponse(Error.NONE, "", b"unknown"),
            CreateTopicResponse(Error.NONE, "", TOPIC),
        ),
        (
            AllocateProducerIdsRequest(A, 0),
            AllocateProducerIdsResponse(Error.NONE, 1_000, 1_000),
            AllocateProducerIdsResponse(Error.NONE, 0, 1_000),
        ),
    ):
        bench = claimed()
        bench.commit(r.ProducerIds(A, 0, 1_000))
        bench.judge.controller_answered(1, request, fine)
        assert bench.broken == [], fine
        bench.judge.controller_answered(1, request, early)
        assert bench.broken == ["K12"], early


# -- K13, K14


def test_a_new_incarnation_needs_a_higher_broker_epoch():
    bench = three()
    bench.commit(r.RegisterBroker(B, b"again", bench.offset))
    assert bench.broken == []
    bench.commit(r.RegisterBroker(B, b"once more", 1))
    assert bench.broken == ["K13"]


def test_amending_a_registration_keeps_its_epoch():
    bench = three()
    known = bench.judge.chronicle.image.brokers[B]
    amended = r.RegisterBroker(B, known.incarnation_id, known.broker_epoch, fenced=False)
    bench.commit(amended)
    assert bench.broken == []
    bench.commit(amended._replace(broker_epoch=99))
    assert bench.broken == ["K13"]


def test_a_change_that_names_another_broker_epoch_is_reported():
    bench = three()
    bench.commit(r.BrokerRegistrationChange(B, 99, in_controlled_shutdown=1))
    assert bench.broken == ["K13"]


def fence(bench: Bench, broker: int) -> r.BrokerRegistrationChange:
    epoch = bench.judge.chronicle.registered_epoch(broker)
    return r.BrokerRegistrationChange(broker, epoch, fenced=1)


def test_a_fenced_broker_that_still_leads_is_reported():
    bench = three()
    bench.commit(fence(bench, A))
    assert bench.broken == ["K14"]


def test_fencing_and_electing_in_one_batch_is_fine():
    bench = three()
    bench.commit(r.PartitionChange(0, TOPIC, isr=(B, C), leader=B), fence(bench, A))
    bench.commit(fence(bench, C))
    assert bench.broken == []


def test_electing_a_broker_that_shuts_down_is_reported():
    bench = three()
    epoch = bench.judge.chronicle.registered_epoch(B)
    bench.commit(r.BrokerRegistrationChange(B, epoch, in_controlled_shutdown=1))
    assert bench.broken == []
    bench.change(leader=B)
    assert bench.broken == ["K14"]


# -- K15, K16


def test_a_new_leader_epoch_without_need_is_reported():
    bench = three()
    bench.change(isr=(A, B))
    bench.change(leader=B)
    assert bench.broken == []
    bench.change(leader=B)
    assert bench.broken == ["K15"]


def test_dropping_a_replica_needs_a_new_leader_epoch():
    bench = three()
    bench.change(replicas=(A, B), isr=(A, B), leader=A)
    assert bench.broken == []
    bench.change(replicas=(A,), isr=(A,))
    assert bench.broken == ["K15"]


def test_a_partition_that_begins_in_the_middle_is_reported():
    bench = Bench(A)
    bench.register(A)
    bench.create(A, leader_epoch=3, partition_epoch=5)
    assert bench.broken == ["K15"]


def test_a_leader_from_outside_isr_and_elr_is_reported():
    bench = three()
    bench.change(isr=(A,), elr=(B,))
    bench.change(leader=B, isr=(B,), elr=())
    assert bench.broken == []
    bench.change(leader=C, isr=(C,))
    assert bench.broken == ["K16"]


def test_an_outsider_may_lead_where_it_is_allowed_and_is_counted():
    bench = three()
    bench.change(isr=(A,))
    bench.commit(r.Config(r.RESOURCE_TOPIC, "orders", "unclean.leader.election.enable", "true"))
    bench.change(leader=C, isr=(C,), leader_recovery_state=r.RECOVERING)
    assert bench.broken == []
    assert bench.judge.unclean_elections == 1


def test_an_outsider_must_be_marked_as_recovering():
    bench = three()
    bench.durable = False
    bench.change(isr=(A,))
    bench.change(leader=C, isr=(C,))
    assert bench.broken == ["K16"]


def test_the_last_known_leader_may_come_back():
    bench = three()
    bench.change(leader=-1, isr=(), last_known_elr=(A,))
    bench.change(leader=A, isr=(A,), last_known_elr=(), leader_recovery_state=r.RECOVERING)
    assert bench.broken == []


# -- K17


def test_a_snapshot_that_equals_the_replay_is_fine():
    bench = three()
    end = bench.offset
    records = image_records(image_of(bench))
    bench.judge.snapshot_taken(1, end, records, end)
    bench.change(isr=(A,))
    bench.judge.snapshot_taken(2, end, records, bench.offset)
    image = MetadataImage()
    for record in records:
        replay(image, record)
    bench.judge.snapshot_installed(3, end, image)
    assert bench.broken == []


def test_a_snapshot_that_misses_or_adds_something_is_reported():
    bench = three()
    records = image_records(image_of(bench))
    bench.judge.snapshot_taken(1, bench.offset, records[:-1], bench.offset)
    assert bench.broken == ["K17"]
    other = three()
    image = image_of(other)
    image.next_producer_id = 5
    other.judge.snapshot_installed(1, other.offset, image)
    assert other.broken == ["K17"]


def test_a_snapshot_of_uncommitted_records_is_reported():
    bench = three()
    records = image_records(image_of(bench))
    bench.judge.snapshot_taken(1, bench.offset + 1, records, bench.offset)
    assert bench.broken == ["K17"]


# -- K18, K19


def test_a_second_topic_of_one_name_is_reported():
    bench = three()
    bench.commit(r.RemoveTopic(TOPIC))
    bench.commit(r.Topic("orders", b"new id"))
    assert bench.broken == []
    bench.commit(r.Topic("orders", b"newer id"))
    assert bench.broken == ["K18"]


def test_a_partition_of_a_removed_topic_is_reported():
    bench = three()
    bench.commit(r.RemoveTopic(TOPIC))
    bench.change(isr=(A,))
    assert "K18" in bench.broken


def test_overlapping_blocks_of_producer_ids_are_reported():
    bench = claimed()
    bench.commit(r.ProducerIds(A, 0, 1_000))
    bench.commit(r.ProducerIds(A, 0, 2_000))
    for start in (1_000, 0):
        response = AllocateProducerIdsResponse(Error.NONE, start, 1_000)
        bench.judge.controller_answered(1, AllocateProducerIdsRequest(A, 0), response)
    assert bench.broken == []
    again = AllocateProducerIdsResponse(Error.NONE, 500, 1_000)
    bench.judge.controller_answered(1, AllocateProducerIdsRequest(A, 0), again)
    assert bench.broken == ["K19"]


def test_a_next_producer_id_that_does_not_rise_is_reported():
    bench = three()
    bench.commit(r.ProducerIds(A, 0, 1_000))
    bench.commit(r.ProducerIds(A, 0, 1_000))
    assert bench.broken == ["K19"]


def test_a_replica_that_completes_a_reassignment_may_lead_at_once():
    bench = three()
    bench.change(isr=(A,), adding_replicas=(C,), removing_replicas=(A, B))
    bench.change(replicas=(C,), isr=(C,), leader=C, adding_replicas=(), removing_replicas=())
    assert bench.broken == []


# -- K21


def test_a_hint_that_fences_a_running_incarnation_is_reported():
    bench = three()
    bench.incarnations[B] = b"the second start"
    bench.judge.fenced_by_hint(A, B, b"the second start")
    assert bench.broken == ["K21"]


def test_a_hint_may_fence_who_is_down_and_who_was_replaced():
    bench = three()
    bench.judge.fenced_by_hint(A, B, b"the second start")
    bench.incarnations[B] = b"the third start"
    bench.judge.fenced_by_hint(A, B, b"the second start")
    assert bench.broken == []
