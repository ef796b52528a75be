"""Claiming, renouncing, and when an answer may be given (kraft.md §4, §12 rules 11 and 12)."""

import pytest

from support.controller_cluster import Cluster
from tidelog.core import events
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.controller import Controller
from tidelog.core.metadata.effects import Answer, AppendRecords
from tidelog.core.metadata.settings import ControllerSettings
from tidelog.core.quorum.messages import LeaderChange
from tidelog.core.requests import (
    AdminResponse,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteTopicRequest,
    ElectLeadersRequest,
    ElectLeadersResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterBrokerResponse,
)
from tidelog.core.types import NEVER_MS, LogEntry

ELR_ON = r.FeatureLevel("eligible.leader.replicas.version", 1)


def test_the_first_controller_of_a_cluster_writes_its_features_once() -> None:
    cluster = Cluster(nodes=2)
    assert cluster.records == (
        r.FeatureLevel("metadata.version", 27),
        ELR_ON,
        r.Config(r.RESOURCE_BROKER, "", "min.insync.replicas", "1"),
    )
    cluster.elect(1)
    assert len(cluster.records) == 3
    assert ELR_ON not in Cluster(elr_enabled=False).records


def test_a_cluster_of_an_earlier_release_gets_the_features_that_were_added_since() -> None:
    cluster = Cluster(nodes=2)
    before = len(cluster.records)
    cluster.settings.features = (("group.version", 1),)
    cluster.elect(1)
    assert cluster.records[before:] == (r.FeatureLevel("group.version", 1),)
    cluster.elect(0)
    assert len(cluster.records) == before + 1


def test_a_controller_that_is_not_active_refuses_everything_in_the_right_form() -> None:
    cluster = Cluster(nodes=2)
    for request, refusal in [
        (cluster.register_request(1), RegisterBrokerResponse(Error.NOT_CONTROLLER)),
        (HeartbeatRequest(1, 1, 1), HeartbeatResponse(Error.NOT_CONTROLLER)),
        (AlterPartitionRequest(1, 1, ()), AlterPartitionResponse(Error.NOT_CONTROLLER)),
        (CreateTopicRequest("t"), CreateTopicResponse(Error.NOT_CONTROLLER)),
        (DeleteTopicRequest("t"), AdminResponse(Error.NOT_CONTROLLER)),
        (ElectLeadersRequest(0), ElectLeadersResponse(Error.NOT_CONTROLLER)),
        (AllocateProducerIdsRequest(1, 1), AllocateProducerIdsResponse(Error.NOT_CONTROLLER)),
    ]:
        answer = cluster.answer(cluster.send(request, node=1))
        assert type(answer) is type(refusal)
        assert answer == refusal
    standby = cluster.controllers[1]
    assert not standby.active
    assert standby.tick(10**12) == []
    assert standby.next_deadline_ms == NEVER_MS


def test_an_answer_waits_for_the_commit_of_what_it_depends_on() -> None:
    cluster = Cluster()
    cluster.start_brokers(1)
    cluster.commits = False
    create = cluster.send(CreateTopicRequest("t"))
    again = cluster.send(CreateTopicRequest("t"))
    unrelated = cluster.send(cluster.beat_request(1))
    later = cluster.send(CreateTopicRequest("u"))
    assert [cluster.answer(token) for token in (create, again, unrelated, later)] == [None] * 4

    cluster.commit(1)
    assert cluster.answer(create) is not None
    refused = cluster.answer(again)
    assert isinstance(refused, CreateTopicResponse)
    assert refused.error is Error.TOPIC_ALREADY_EXISTS, "it had seen the pending topic"
    assert cluster.answer(unrelated) is not None
    assert cluster.answer(later) is None
    cluster.commit()
    assert cluster.answer(later) is not None
    assert cluster.answer(cluster.send(cluster.beat_request(1))) is not None, "nothing pends"


def test_k09_a_renounced_claim_reverts_and_its_clients_hear_not_controller() -> None:
    cluster = Cluster(nodes=2)
    cluster.start_brokers(1)
    before = cluster.image.copy()
    cluster.commits = False
    token = cluster.send(CreateTopicRequest("t"))
    assert "t" in cluster.image.topic_ids
    old = cluster.controller
    cluster.renounce()
    assert cluster.answer(token) is None, "nobody knows yet what becomes of it"
    assert old.current is None
    assert old.committed == before
    assert old.next_deadline_ms == NEVER_MS
    cluster.elect(1)
    assert cluster.answer(token) == CreateTopicResponse(Error.NOT_CONTROLLER)
    assert old.held_answers == 0
    assert "t" not in cluster.image.topic_ids


@pytest.mark.parametrize("next_leader", [0, 1])
def test_k09_the_topic_is_there_when_the_next_leader_had_its_record(next_leader: int) -> None:
    cluster = Cluster(nodes=2)
    cluster.start_brokers(1)
    cluster.commits = False
    token = cluster.send(CreateTopicRequest("t"))
    old = cluster.controller
    cluster.renounce()
    assert (cluster.answer(token), old.held_answers) == (None, 1)
    cluster.elect(next_leader, kept=1)
    answer = cluster.answer(token)
    assert isinstance(answer, CreateTopicResponse)
    assert (answer.error, answer.topic_id) == (Error.NONE, cluster.image.topic_ids["t"])
    assert old.held_answers == 0
    assert old.committed == cluster.controller.committed
    told = [event for event in cluster.take_events() if isinstance(event, events.LeaderElected)]
    assert told == [], "nobody was active when it was committed"


def test_of_a_lost_claim_every_request_hears_of_its_own_records() -> None:
    cluster = Cluster(nodes=2)
    cluster.start_brokers(1)
    cluster.commits = False
    first, second, third = (cluster.send(CreateTopicRequest(name)) for name in "abc")
    cluster.elect(1, kept=2)
    for token, error in ((first, 0), (second, 0), (third, Error.NOT_CONTROLLER)):
        answer = cluster.answer(token)
        assert answer is not None
        assert answer.error == error
    assert sorted(cluster.image.topic_ids) == ["a", "b"]


def test_what_a_lost_claim_wrote_is_not_taken_for_what_the_next_one_writes_there() -> None:
    """The same offset, committed, and another epoch."""
    cluster = Cluster(nodes=2)
    cluster.start_brokers(1)
    cluster.commits = False
    lost = cluster.send(CreateTopicRequest("lost"))
    cluster.elect(1)
    cluster.send(CreateTopicRequest("other"))
    cluster.commit()
    assert cluster.answer(lost) == CreateTopicResponse(Error.NOT_CONTROLLER)


def test_brokers_and_who_has_written_nothing_are_refused_at_once_when_a_claim_is_lost() -> None:
    """They ask the next controller: nothing of theirs is harmed by being asked twice."""
    cluster = Cluster(nodes=2)
    cluster.start_brokers(1, 2)
    name = cluster.create("t", (1, 2))
    cluster.commits = False
    asked = [
        cluster.send(cluster.propose_request(1, cluster.proposal(name, 1))),
        cluster.send(cluster.beat_request(2, fence=True)),
        cluster.send(cluster.register_request(3)),
        cluster.send(AllocateProducerIdsRequest(1, cluster.epoch_of(1))),
        cluster.send(CreateTopicRequest("t")),
    ]
    held = cluster.send(DeleteTopicRequest("t"))
    cluster.renounce()
    for token in asked:
        answer = cluster.answer(token)
        assert answer is not None
        assert answer.error is Error.NOT_CONTROLLER
    assert cluster.answer(held) is None


def test_one_request_is_held_as_a_whole() -> None:
    """Refused in part it would be sent again as a whole."""
    cluster = Cluster(nodes=2)
    cluster.start_brokers(1)
    cluster.create("old", (1,))
    cluster.commits = False
    together = object()
    for token, name in enumerate(("new", "old"), 1000):
        request = CreateTopicRequest(name)
        cluster.perform(cluster.controller.handle(token, request, 0, part_of=together))
    cluster.renounce()
    assert (cluster.answer(1000), cluster.answer(1001)) == (None, None)
    cluster.elect(1, kept=1)
    errors = [getattr(cluster.answer(token), "error", None) for token in (1000, 1001)]
    assert errors == [Error.NONE, Error.TOPIC_ALREADY_EXISTS]


def test_held_answers_can_be_forgotten_and_be_refused() -> None:
    cluster = Cluster(nodes=2)
    cluster.start_brokers(1)
    cluster.commits = False
    tokens = [cluster.send(CreateTopicRequest(name)) for name in "abc"]
    old = cluster.controller
    cluster.renounce()
    assert old.forget_held(lambda token: token == tokens[1]) == [tokens[1]]
    assert old.held_answers == 2
    cluster.perform(old.refuse_held())
    assert cluster.answer(tokens[0]) == CreateTopicResponse(Error.NOT_CONTROLLER)
    assert old.held_answers == 0
    cluster.elect(1, kept=3)
    assert cluster.answer(tokens[1]) is None, "nobody waits for it"


def test_a_snapshot_does_not_tell_what_became_of_a_record() -> None:
    """It may hold the topic and another record in its place: whoever waits is told neither."""
    cluster = Cluster(nodes=2)
    cluster.start_brokers(1)
    cluster.commits = False
    before, after = (cluster.send(CreateTopicRequest(name)) for name in "ab")
    old, other = cluster.controllers
    cluster.renounce()
    end_offset = cluster.log[-1].offset
    old.load_snapshot(other.snapshot_records(), end_offset, cluster.now_ms)
    assert old.held_answers == 1
    entry = LogEntry(end_offset, cluster.claim_epoch + 1, (LeaderChange(1, (), ()),), control=True)
    cluster.perform(old.on_committed(entry, cluster.now_ms))
    assert cluster.answer(before) is None
    assert cluster.answer(after) == CreateTopicResponse(Error.NOT_CONTROLLER)


def test_events_are_told_once_by_the_active_controller_at_commit() -> None:
    cluster = Cluster(nodes=3)
    cluster.commits = False
    cluster.commit()
    cluster.take_events()
    cluster.send(cluster.register_request(1))
    assert cluster.take_events() == []
    cluster.commit()
    epoch = cluster.epoch_of(1)
    assert cluster.take_events() == [events.BrokerRegistered(1, epoch)]
    cluster.commits = True
    cluster.ask(cluster.register_request(1)._replace(rack="moved"))
    assert cluster.take_events() == [], "amended, not registered"
    cluster.beat(1)
    name = cluster.create("t", (1,))
    cluster.beat(1, stop=True)
    cluster.beat(1, stop=True)
    assert cluster.take_events() == [
        events.BrokerUnfenced(1, epoch),
        events.LeaderElected(name, -1, 1, 0, 0, (1,), False),
        events.LeaderElected(name, 1, -1, 1, 1, (), False),
        events.IsrCommitted(name, (1,), (), (1,), 1),
        events.ControlledShutdownStarted(1, epoch),
        events.BrokerFenced(1, epoch),
    ]
    cluster.elect(2)
    assert cluster.take_events() == [
        events.ControllerRenounced(0, 1),
        events.ControllerClaimed(2, 2),
    ]


def test_a_claim_after_a_renounce_starts_from_what_is_committed() -> None:
    cluster = Cluster(nodes=1)
    cluster.start_brokers(1)
    cluster.commits = False
    cluster.send(CreateTopicRequest("lost"))
    cluster.elect(0)
    cluster.commits = True
    assert cluster.image.topic_ids == {}
    cluster.create("kept", (1,))
    assert cluster.controller.committed == cluster.replayed()


def test_a_registration_that_was_not_committed_leaves_no_trace() -> None:
    cluster = Cluster(nodes=2)
    cluster.commits = False
    cluster.commit()
    token = cluster.send(cluster.register_request(1))
    cluster.elect(1)
    assert cluster.answer(token) == RegisterBrokerResponse(Error.NOT_CONTROLLER)
    cluster.commits = True
    cluster.starts[1] = 1
    assert cluster.ask(cluster.register_request(1)).error is Error.NONE, "no session remained"


def test_a_snapshot_replaces_the_log_for_a_node_that_missed_it() -> None:
    cluster = Cluster(nodes=2)
    cluster.start_brokers(1, 2)
    cluster.create("t", (1, 2), retention_ms="5")
    fresh = Controller(9, cluster.settings, lambda _limit: 0, lambda: b"")
    fresh.load_snapshot(cluster.controller.snapshot_records(), cluster.end_offset, 0)
    assert fresh.committed == cluster.controller.committed
    effects = fresh.claim(50, cluster.end_offset, 0)
    assert effects == [events.ControllerClaimed(9, 50)]
    applied = cluster.end_offset - 1
    beat = HeartbeatRequest(1, cluster.epoch_of(1), applied - 1)
    answer = fresh.handle("token", beat, 1)[-1]
    assert answer == Answer("token", HeartbeatResponse(Error.NONE, False, False)), (
        "where it registered is not known any more, so the end of the snapshot counts"
    )


def test_a_snapshot_never_contains_what_is_pending() -> None:
    cluster = Cluster()
    cluster.start_brokers(1)
    before = cluster.controller.snapshot_records()
    cluster.commits = False
    cluster.send(CreateTopicRequest("t"))
    assert cluster.controller.snapshot_records() == before


def test_records_of_the_quorum_itself_move_the_next_offset() -> None:
    controller = Controller(1, ControllerSettings("c"), lambda _limit: 0, lambda: b"u" * 16)
    (_claimed, bootstrap) = controller.claim(1, 1, 0)
    assert isinstance(bootstrap, AppendRecords)
    assert bootstrap.base_offset == 1
    end = 1 + len(bootstrap.records)
    controller.on_control_appended(end + 1)
    cluster = Cluster()
    (append,) = controller.handle("t", cluster.register_request(1)._replace(cluster_id="c"), 5)
    assert isinstance(append, AppendRecords)
    assert append.base_offset == end + 1
