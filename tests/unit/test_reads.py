"""Reads: consumers see committed records only, wherever they read."""

import pytest

from support.object_log import ObjectLog, client_batch
from support.partition_story import PARTITION, Story
from tidelog.core.errors import Error
from tidelog.core.replication.inputs import (
    EARLIEST,
    LATEST,
    BrokerStatus,
    ConsumerFetch,
    ReplicaSettings,
    ReplicaView,
)
from tidelog.core.replication.selector import rack_aware
from tidelog.core.replication.state import ReplicaState
from tidelog.core.types import UNDEFINED_EPOCH_END, EpochEnd

A, B, C = 1, 2, 3


def half_committed() -> Story:
    """A leads epoch 1 with [0..9], of which 6 are committed; B follows with everything."""
    story = Story(A, B)
    story.elect(A, A, epoch=1)
    story.produce(A, 6)
    story.set_isr(A, B)
    story.produce(A, 4, acks=1)
    story.fetch(B)
    assert (story[A].high_watermark, story[B].high_watermark, story[B].end) == (6, 6, 10)
    return story


@pytest.mark.parametrize("broker", [A, B])
def test_consumers_read_to_the_high_watermark_on_every_replica(broker: int) -> None:
    story = half_committed()
    decision, offsets = story.consume(broker, ConsumerFetch(4, 1))
    assert (decision.error, offsets) == (Error.NONE, [4, 5])
    assert (decision.high_watermark, decision.log_start_offset) == (6, 0)


@pytest.mark.parametrize("broker", [A, B])
def test_between_high_watermark_and_log_end_there_is_nothing_yet(broker: int) -> None:
    story = half_committed()
    for offset in (6, 8, 10):
        decision, offsets = story.consume(broker, ConsumerFetch(offset, 1))
        assert (decision.error, offsets) == (Error.NONE, [])


@pytest.mark.parametrize("broker", [A, B])
def test_outside_the_log_is_out_of_range(broker: int) -> None:
    story = half_committed()
    story[broker].log.raise_log_start(2)
    for offset in (1, 11):
        decision, _ = story.consume(broker, ConsumerFetch(offset, 1))
        assert decision.error is Error.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("broker", [A, B])
def test_the_consumers_leader_epoch_must_match(broker: int) -> None:
    story = half_committed()
    assert story.consume(broker, ConsumerFetch(0, 0))[0].error is Error.FENCED_LEADER_EPOCH
    assert story.consume(broker, ConsumerFetch(0, 2))[0].error is Error.UNKNOWN_LEADER_EPOCH
    assert story.consume(broker, ConsumerFetch(0))[1] == [0, 1, 2, 3, 4, 5]


def test_an_old_consumer_reads_from_the_leader_only() -> None:
    story = half_committed()
    assert story.consume(A, ConsumerFetch(0, leader_only=True))[0].error is Error.NONE
    refused, _ = story.consume(B, ConsumerFetch(0, leader_only=True))
    assert refused.error is Error.NOT_LEADER_OR_FOLLOWER


def test_a_stopped_replica_serves_nobody() -> None:
    story = half_committed()
    story[B].replica.stop(0)
    decision, offsets = story.consume(B, ConsumerFetch(0))
    assert (decision.error, offsets) == (Error.NOT_LEADER_OR_FOLLOWER, [])


def test_a_consumer_learns_that_what_it_read_was_truncated() -> None:
    """T19 (KIP-320): it read epoch 1 to 20, then an unclean election left epoch 2 at 15."""
    story = Story(A, B)
    story.given(B, (1, 0, 14), hw=15)
    story.elect(B, B, epoch=2)
    story.produce(B, 10)
    decision, offsets = story.consume(B, ConsumerFetch(20, 2, last_fetched_epoch=1))
    assert (decision.error, decision.diverging, offsets) == (Error.NONE, EpochEnd(1, 15), [])
    assert story[B].replica.offset_for_leader_epoch(1, 2) == (Error.NONE, EpochEnd(1, 15))


def test_epoch_ends_are_told_by_the_leader_of_that_epoch_only() -> None:
    story = half_committed()
    ask = story[A].replica.offset_for_leader_epoch
    assert ask(1, 1) == (Error.NONE, EpochEnd(1, 10))
    assert ask(1, 0) == (Error.FENCED_LEADER_EPOCH, UNDEFINED_EPOCH_END)
    assert ask(1, 2) == (Error.UNKNOWN_LEADER_EPOCH, UNDEFINED_EPOCH_END)
    refused = story[B].replica.offset_for_leader_epoch(1, 1)
    assert refused == (Error.NOT_LEADER_OR_FOLLOWER, UNDEFINED_EPOCH_END)


# ---- the last stable offset ----


def test_read_committed_stops_at_the_oldest_open_transaction() -> None:
    story = Story(A, B)
    story.elect(A, A, epoch=1)
    story.produce(A, 2)
    log = story[A].log
    opened = client_batch((1,), producer_id=7, producer_epoch=0, base_sequence=0)
    log.append_as_leader(opened._replace(is_transactional=True), 1)
    story.produce(A, 2)
    assert story.consume(A, ConsumerFetch(0, read_committed=True))[1] == [0, 1]
    assert story.consume(A, ConsumerFetch(0))[1] == [0, 1, 2, 3, 4]
    assert story[A].replica.list_offset(LATEST, 1, read_committed=True).offset == 2

    # The marker is in the log, but B has not got it.
    story.set_isr(A, B)
    log.append_as_leader(
        opened._replace(is_transactional=True, is_control=True, base_sequence=-1), 1
    )
    assert story[A].replica.last_stable_offset == 2
    story.fetch(B)
    story.fetch(B)
    assert story[A].replica.last_stable_offset == 6
    assert story.consume(A, ConsumerFetch(0, read_committed=True))[1] == [0, 1, 2, 3, 4, 5]


# ---- a new leader's high watermark (KIP-207) ----


def new_leader() -> Story:
    story = Story(A, B)
    story.given(A, (0, 0, 9), hw=6)
    story.given(B, (0, 0, 9), hw=10)
    story.elect(A, A, B, epoch=1)
    story.produce(A, 3)
    return story


def test_offsets_another_leader_may_have_shown_are_not_available_yet() -> None:
    story = new_leader()
    expected = {6: Error.NONE, 7: Error.OFFSET_NOT_AVAILABLE, 10: Error.OFFSET_NOT_AVAILABLE}
    expected |= {11: Error.NONE, 13: Error.NONE, 14: Error.OFFSET_OUT_OF_RANGE}
    for offset, error in expected.items():
        decision, offsets = story.consume(A, ConsumerFetch(offset))
        assert (decision.error, offsets) == (error, []), offset


def test_offset_questions_wait_for_the_isr_but_not_those_of_replicas() -> None:
    story = new_leader()
    replica = story[A].replica
    assert replica.list_offset(LATEST, 1).error is Error.OFFSET_NOT_AVAILABLE
    assert replica.list_offset(LATEST, 1, client=False) == (Error.NONE, 13, 1)
    assert replica.list_offset(EARLIEST, 1) == (Error.NONE, 0, 0)
    assert replica.timestamp_offset(4) == (Error.NONE, 4, 0)
    assert replica.timestamp_offset(8).error is Error.OFFSET_NOT_AVAILABLE
    older = replica.timestamp_offset(8, understands_offset_not_available=False)
    assert older.error is Error.LEADER_NOT_AVAILABLE
    story.fetch(B)
    assert replica.list_offset(LATEST, 1) == (Error.NONE, 10, 1)
    assert replica.timestamp_offset(8) == (Error.NONE, 8, 0)
    assert replica.timestamp_offset(11) == (Error.NONE, -1, 1)  # not committed: none yet


def test_offset_questions_go_to_the_leader_of_the_epoch() -> None:
    story = new_leader()
    refused = story[B].replica.list_offset(LATEST, 1)
    assert refused.error is Error.NOT_LEADER_OR_FOLLOWER
    assert story[B].replica.timestamp_offset(3).error is Error.NOT_LEADER_OR_FOLLOWER
    assert story[A].replica.list_offset(LATEST, 0).error is Error.FENCED_LEADER_EPOCH


# ---- racks (KIP-392) ----


def racked() -> Story:
    story = Story(A, B, C)
    for broker, rack in ((A, "east"), (B, "west"), (C, "west")):
        story.statuses[broker] = BrokerStatus(100 + broker, True, rack)
    story.elect(A, A, B, C, epoch=0)
    story[A].settings.replica_selector = rack_aware
    story.produce(A, 4)
    for _ in range(2):
        story.fetch(B)
        story.fetch(C)
    return story


def test_a_consumer_is_sent_to_the_replica_in_its_rack() -> None:
    story = racked()
    decision, offsets = story.consume(A, ConsumerFetch(2, 0, rack="west"))
    assert (decision.error, decision.preferred_replica, offsets) == (Error.NONE, C, [])
    assert story.consume(C, ConsumerFetch(2, 0, rack="west"))[1] == [2, 3]


@pytest.mark.parametrize("rack", ["east", "north", None])
def test_without_a_nearer_replica_the_leader_serves(rack: str | None) -> None:
    decision, offsets = racked().consume(A, ConsumerFetch(2, 0, rack=rack))
    assert (decision.preferred_replica, offsets) == (-1, [2, 3])


def test_only_in_sync_replicas_that_hold_the_offset_are_offered() -> None:
    story = racked()
    story.set_isr(A, B)
    assert story.consume(A, ConsumerFetch(2, rack="west"))[0].preferred_replica == B
    story[B].log.raise_log_start(3)
    story.fetch(B)
    assert story.consume(A, ConsumerFetch(2, rack="west"))[0].preferred_replica == -1


def test_no_selector_means_the_leader() -> None:
    story = racked()
    story[A].settings.replica_selector = None
    assert story.consume(A, ConsumerFetch(2, rack="west"))[1] == [2, 3]


def test_the_most_caught_up_replica_of_the_rack_wins() -> None:
    leader = ReplicaView(1, "east", 0, 100, 50)

    def view(broker: int, end: int, caught_up_ms: int) -> ReplicaView:
        return ReplicaView(broker, "west", 0, end, caught_up_ms)

    assert rack_aware("west", leader, [view(2, 90, 50), view(3, 80, 60)]) == 2
    assert rack_aware("west", leader, [view(2, 90, 40), view(3, 90, 60)]) == 3
    assert rack_aware("west", leader, [view(3, 90, 60), view(2, 90, 60)]) == 3
    assert rack_aware("west", leader, []) == 1


def test_a_replica_starts_with_the_transactions_whose_marker_is_not_committed() -> None:
    """The log was replayed: it knows of more transactions than anybody has to wait for."""
    log = ObjectLog(fsync=False)
    for number in range(3):
        data = client_batch((number,), producer_id=7, producer_epoch=0, base_sequence=number)
        opened = log.append_as_leader(data._replace(is_transactional=True), 0)
        log.append_as_leader(opened._replace(is_control=True), 0)
    state = ReplicaState(PARTITION, A, log, ReplicaSettings(), high_watermark=3)
    assert [each.first_offset for each in log.producers.ended_transactions()] == [2, 4]
    assert state.last_stable_offset == 2
