"""The named schedules of replication.md §13, as conversations between real replicas.

Each tells one way in which a replicated log has lost records, or could.
"""

from collections.abc import Callable

from support.partition_story import PARTITION, Story, epoch_records
from tidelog.core.errors import Error
from tidelog.core.replication.inputs import LATEST, ConsumerFetch, FetchAnswer
from tidelog.core.requests import IsrResult
from tidelog.core.types import EpochEnd
from tidelog.sim.sim_log import client_batch

A, B, C, D = 1, 2, 3, 4


def t00_the_whole_reconciliation_walkthrough() -> None:
    story = Story(101, 103, 102)
    story.given(101, (0, 0, 6), hw=5)
    story.given(102, (0, 0, 5), hw=4)
    story.given(103, (0, 0, 4), hw=4)
    story.elect(101, 101, 103, 102, epoch=0)

    # 101 dies; 103 leads with a high watermark that lags behind the true one.
    story.elect(103, 102, 103, epoch=1, tell=(102, 103))
    assert (story[103].leader.leader_epoch_start_offset, story[103].high_watermark) == (5, 4)
    token = story.produce(103, 2)
    assert story.consume(103, ConsumerFetch(4))[1] == []
    latest = story[103].replica.list_offset(LATEST, 1, client=True)
    assert latest.error is Error.OFFSET_NOT_AVAILABLE

    # 102 holds a record nobody else has: it is told where epoch 0 ends.
    assert story.ask(102)[3:5] == (6, 0)
    assert story.fetch(102).diverging == EpochEnd(0, 5)
    assert (story[102].end, story[102].high_watermark) == (5, 4)
    assert story.ask(102)[3:5] == (5, 0)
    story.fetch(102)
    assert story[102].records == epoch_records((0, 0, 4), (1, 5, 6))
    assert token not in story[103].answers
    assert story.ask(102)[3:5] == (7, 1)
    assert story.fetch(102).high_watermark == 7
    assert story[103].answers == {token: Error.NONE}
    assert story[103].leader.is_under_replicated

    # 101 returns and goes through the same.
    story.tell(101)
    assert story.fetch(101).diverging == EpochEnd(0, 5)
    story.fetch(101)
    story.fetch(101)
    assert story[103].proposed == [(102, 103, 101)]
    story.commit_proposal(103)

    for broker in (101, 102, 103):
        assert story[broker].records == epoch_records((0, 0, 4), (1, 5, 6))
    assert sorted(story[103].leader.isr) == [101, 102, 103]
    assert story[103].high_watermark == 7
    assert not story[103].leader.is_under_replicated


def t01_a_follower_is_not_cut_to_its_high_watermark() -> None:
    story = Story(A, B)
    story.given(A, (0, 0, 0), hw=1)
    story.given(B, (0, 0, 0), hw=1)
    story.elect(A, A, B, epoch=0)
    token = story.produce(A)
    story.fetch(B)  # B holds [0..1]
    acknowledgement = story.ask(B)
    story.serve(A, acknowledgement)  # lifts A's high watermark; the answer is lost
    assert story[A].answers.get(token) is Error.NONE
    assert (story[A].high_watermark, story[B].high_watermark) == (2, 1)

    story.elect(A, A, B, epoch=1)  # the same leader again
    story.elect(B, B, epoch=2)  # and it dies before B's first fetch
    assert story[B].end == 2
    story.produce(B)
    assert story.consume(B, ConsumerFetch(1))[1] == [1, 2]

    story.fetch(A)  # A only forgets epoch 1, in which it wrote nothing
    story.fetch(A)
    assert not story[A].truncations
    assert story[A].records == story[B].records == epoch_records((0, 0, 1), (2, 2, 2))


def t02_power_loss_leaves_two_records_at_one_offset() -> None:
    story = Story(A, B, fsync=True)
    story.given(A, (0, 0, 1), hw=2)
    story.given(B, (0, 0, 0), hw=1)
    story[B].log.append_as_leader(client_batch((1,)), 0)  # only in B's page cache
    story.elect(A, A, B, epoch=0)

    story.restart(B)
    assert story[B].end == 1
    story.elect(B, B, epoch=1)
    story.produce(B, acks=1)
    story[B].log.sync()
    assert story[A].records == epoch_records((0, 0, 1))

    assert story.ask(A)[3:5] == (2, 0)
    assert story.fetch(A).diverging == EpochEnd(0, 1)
    assert story[A].truncations[0].below_high_watermark  # B's disk lost a committed record
    story.fetch(A)
    assert story[A].log.batches == story[B].log.batches
    assert story[A].records == epoch_records((0, 0, 0), (1, 1, 1))


def t03_leadership_moves_there_and_back(last_of_two: int = 25) -> None:
    story = Story(A, B)
    story.given(A, (1, 0, 20), hw=11)
    story.given(B, (1, 0, 10), hw=11)
    story.elect(A, A, B, epoch=1)
    story.elect(B, A, B, epoch=2)
    story.produce(B, last_of_two - 10)  # A never fetches
    story.elect(A, A, B, epoch=3)
    story.produce(A, 10)

    assert story.ask(B)[3:5] == (last_of_two + 1, 2)
    assert story.fetch(B).diverging == EpochEnd(1, 21)
    assert story[B].end == 11
    story.fetch(B)
    assert story[B].records == story[A].records == epoch_records((1, 0, 20), (3, 21, 30))
    assert story[A].log.epochs.entries == story[B].log.epochs.entries
    story.fetch(B)
    assert story[A].high_watermark == 31


def t04_an_unknown_epoch_takes_two_rounds() -> None:
    story = Story(A, B)
    story.given(A, (1, 0, 9), (3, 10, 17))
    story.given(B, (1, 0, 9), (2, 10, 19), (5, 20, 24))
    story.elect(A, A, B, epoch=6)
    assert story[A].log.epochs.entries == [(1, 0), (3, 10), (6, 18)]

    assert story.ask(B)[3:5] == (25, 5)
    assert story.fetch(B).diverging == EpochEnd(3, 18)
    assert story[B].end == 20
    assert story.ask(B)[3:5] == (20, 2)
    assert story.fetch(B).diverging == EpochEnd(1, 10)
    assert story.ask(B)[3:5] == (10, 1)
    story.fetch(B)
    assert len(story[B].truncations) == 2
    assert story[B].records == story[A].records


def t05_no_seat_below_the_leaders_epoch_start() -> None:
    story = Story(A, B, C, D)
    for broker in (A, B, D):
        story.given(broker, (0, 0, 9), hw=10 if broker == A else 5)
    story.given(C, (0, 0, 4), hw=5)
    story.elect(A, A, B, D, epoch=0)
    story.elect(B, B, D, epoch=1, tell=(B, C, D))  # A dies, D stays silent
    assert (story[B].leader.leader_epoch_start_offset, story[B].high_watermark) == (10, 5)

    assert story.ask(C)[3:5] == (5, 0)
    story.fetch(C)
    assert story[B].proposed == []  # 5 is the high watermark, but below 10
    story.fetch(C)
    assert story[B].proposed == [(B, D, C)]  # now it holds everything


def t06_an_epoch_without_records_is_forgotten() -> None:
    story = Story(A, B)
    story.given(A, (0, 0, 9), hw=10)
    story.given(B, (0, 0, 9), hw=10)
    story.elect(A, A, B, epoch=1, tell=(A,))
    story.elect(B, A, B, epoch=2)
    assert story[A].log.epochs.entries == [(0, 0), (1, 10)]
    assert story[B].log.epochs.entries == [(0, 0), (2, 10)]

    assert story.ask(A)[3:5] == (10, 1)
    assert story.fetch(A).diverging == EpochEnd(0, 10)
    assert story[A].log.epochs.entries == [(0, 0)]
    assert story[A].end == 10
    assert not story[A].truncations
    assert story.ask(A)[3:5] == (10, 0)
    assert story.fetch(A).diverging is None


def t07_a_diverging_fetch_is_no_acknowledgement() -> None:
    story = Story(A, B)
    story.given(A, (0, 0, 9), hw=5)
    story.given(B, (0, 0, 4), hw=5)
    story.elect(B, A, B, epoch=1)
    token = story.produce(B, 8)
    fetch = story.ask(A)
    assert fetch[3:5] == (10, 0)
    decision = story.judge(B, fetch)
    assert decision.diverging == EpochEnd(0, 5)
    assert story[B].leader.progress[A].log_end_offset == -1
    assert story[B].high_watermark == 5
    assert token not in story[B].answers


def t08_the_high_watermark_of_a_diverging_answer_is_ignored() -> None:
    story = Story(A, B, C)
    story.given(A, (0, 0, 11), hw=5)
    story.given(B, (0, 0, 4), hw=5)
    story.given(C, (0, 0, 4), hw=5)
    story.elect(B, B, C, epoch=1)
    story.produce(B, 4)
    story.fetch(C)
    story.fetch(C)
    assert story[B].high_watermark == 9

    fetch = story.ask(A)
    answer = story.serve(B, fetch)
    assert (answer.diverging, answer.high_watermark) == (EpochEnd(0, 5), 9)
    effects = story[A].follower.on_fetch_answer(fetch, answer, story.now_ms)
    # Before the cut is performed, a rack-local consumer asks A.
    assert story.consume(A, ConsumerFetch(4, 1))[1] == [4]
    story.perform(story[A], effects)
    assert (story[A].end, story[A].high_watermark) == (5, 5)
    story.fetch(A)
    assert story.consume(A, ConsumerFetch(5, 1))[1] == [5, 6, 7, 8]
    assert story[A].records == epoch_records((0, 0, 4), (1, 5, 8))


def t09_a_replica_in_shutdown_does_not_freeze_the_high_watermark() -> None:
    story = Story(A, B, C)
    story.elect(A, A, B, C, epoch=0)
    story.produce(A)
    for _ in range(2):
        story.fetch(B)
        story.fetch(C)
    assert story[A].high_watermark == 1

    story.status(C, active=False)
    story.set_isr(A, B)  # without a new leader epoch
    token = story.produce(A)
    story.fetch(B)
    story.fetch(B)
    assert story[A].answers.get(token) is Error.NONE
    story.fetch(C)
    story.fetch(C)
    assert story[C].end == 2
    assert story[A].proposed == []


def t10_a_proposed_shrink_commits_nothing() -> None:
    story = Story(A, B)
    story.elect(A, A, B, epoch=0)
    story.fetch(B)
    story.now_ms = 45_001
    token = story.produce(A)
    story.perform(story[A], story[A].leader.check_isr(story.now_ms))
    assert story[A].proposed == [(A,)]  # held by the network
    story.perform(story[A], story[A].leader.on_appended(story.now_ms))
    assert story[A].high_watermark == 0
    assert story[A].leader.maximal_isr() == (A, B)

    story.elect(B, B, epoch=1)  # A is fenced
    assert story[A].answers == {token: Error.NOT_LEADER_OR_FOLLOWER}


def t11_after_a_lost_expand_reply_the_leader_keeps_waiting() -> None:
    story = Story(A, C)
    story.elect(A, A, epoch=0)
    story.produce(A)
    story.fetch(C)
    story.fetch(C)
    assert story[A].proposed == [(A, C)]
    result = story.commit_proposal(A, reply=False)
    # Sent again after the lost reply: the version has moved on, which says nothing certain.
    story.reply(A, IsrResult(PARTITION, Error.INVALID_UPDATE_VERSION))
    story.now_ms = 60_000  # C has been silent for so long that it is not "about to join"
    token = story.produce(A)
    assert token not in story[A].answers
    assert story[A].leader.maximal_isr() == (A, C)

    story.tell(A)  # metadata delivers the change first
    assert story[A].leader.isr == (A, C)
    story.reply(A, result)  # and the reply comes late
    assert story[A].leader.isr == (A, C)
    assert token not in story[A].answers
    story.fetch(C)
    story.fetch(C)
    assert story[A].answers.get(token) is Error.NONE
    story.elect(C, C, epoch=1)
    assert story[C].records == epoch_records((0, 0, 1))


def t16_a_cut_off_leader_acknowledges_nothing() -> None:
    story = Story(A, B, C, min_isr=2)
    for broker in (A, B, C):
        story.given(broker, (0, 0, 4), hw=5)
    story.elect(A, A, B, C, epoch=0)
    story.elect(B, B, C, epoch=1, tell=(B, C))  # A does not hear of it
    weak = story.produce(A, acks=1)
    strong = story.produce(A)
    impatient = story.produce(A)
    story.perform(story[A], story[A].leader.on_produce_timeout(impatient, 30_000))
    assert story[A].answers == {weak: Error.NONE, impatient: Error.REQUEST_TIMED_OUT}
    story.now_ms = 45_000
    story.perform(story[A], story[A].leader.check_isr(story.now_ms))
    assert story[A].high_watermark == 5

    committed = story.produce(B)
    story.fetch(C)
    story.fetch(C)
    assert story[B].answers[committed] is Error.NONE

    story.refuse_proposal(A, Error.FENCED_LEADER_EPOCH)
    assert story[A].leader.has_change_in_flight()
    story.tell(A)  # healed
    assert story[A].answers[strong] is Error.NOT_LEADER_OR_FOLLOWER
    assert story.fetch(A).diverging == EpochEnd(0, 5)
    story.fetch(A)
    assert story[A].records == story[B].records == epoch_records((0, 0, 4), (1, 5, 5))
    assert not any(cut.below_high_watermark for cut in story[A].truncations)


def t17_epochs_out_of_step_change_nothing() -> None:
    story = Story(A, B)
    story.given(A, (0, 0, 4), hw=0)
    story.given(B, (0, 0, 4), hw=0)
    story.elect(A, A, B, epoch=1)
    story.elect(A, A, B, epoch=2, tell=(B,))

    ahead = story.ask(B)
    answer = story.serve(A, ahead)
    assert answer.error is Error.UNKNOWN_LEADER_EPOCH
    story.deliver(B, ahead, answer)
    assert story[B].follower.next_fetch(story.now_ms) is None
    assert story[A].leader.progress[B].log_end_offset == -1
    story.now_ms = 1_000
    assert story.ask(B) == ahead  # asked again after the backoff

    story.tell(A)
    behind = ahead._replace(leader_epoch=1)
    assert story.serve(A, behind).error is Error.FENCED_LEADER_EPOCH
    assert (story[A].high_watermark, story[A].proposed) == (0, [])
    assert story[A].leader.progress[B].log_end_offset == -1

    story.elect(A, A, B, epoch=3, tell=(A,))
    refused = story.ask(B)
    story.deliver(B, refused, story.serve(A, refused))
    assert story[B].follower.next_fetch(story.now_ms) is None
    story.now_ms = 2_000
    assert story.ask(B) == refused  # metadata may come late, or the fence was a mistake
    story.tell(B)
    story.fetch(B)
    assert story[A].high_watermark == 5


def t18_a_lagging_high_watermark_resets_nobody() -> None:
    story = Story(A, B, C)
    story.given(A, (0, 0, 9), hw=10)
    story.given(B, (0, 0, 9), hw=6)
    story.given(C, (0, 0, 9), hw=6)
    story.elect(B, B, C, epoch=1)
    decision, offsets = story.consume(B, ConsumerFetch(9))
    assert (decision.error, offsets) == (Error.OFFSET_NOT_AVAILABLE, [])
    older = ConsumerFetch(9, understands_offset_not_available=False)
    decision, offsets = story.consume(B, older)
    assert (decision.error, offsets) == (Error.NONE, [])
    replica = story[B].replica
    assert replica.list_offset(LATEST, 1).error is Error.OFFSET_NOT_AVAILABLE
    old_client = replica.list_offset(LATEST, 1, understands_offset_not_available=False)
    assert old_client.error is Error.LEADER_NOT_AVAILABLE
    assert story.consume(B, ConsumerFetch(3))[1] == [3, 4, 5]

    story.fetch(C)
    assert story.consume(B, ConsumerFetch(9))[1] == [9]
    assert replica.list_offset(LATEST, 1) == (Error.NONE, 10, 1)


def t20_an_empty_answer_keeps_the_last_fetched_epoch() -> None:
    story = Story(A, B, C)
    for broker in (A, B):
        story.given(broker, (3, 0, 9), hw=8)
    story.given(C, (3, 0, 7), hw=8)
    story.elect(A, A, B, C, epoch=4)
    assert story.fetch(B).batches == ()
    story.elect(C, B, C, epoch=5, tell=(B, C))
    story.produce(C, 4)
    assert story.ask(B).last_fetched_epoch == 3
    assert story.fetch(B).diverging == EpochEnd(3, 8)
    assert story[B].end == 8


def t21_bytes_that_changed_under_an_answer_are_discarded() -> None:
    story = Story(A, B)
    story.given(A, (1, 0, 9), hw=10)
    story.given(B, (1, 0, 9), hw=10)
    story.elect(A, A, B, epoch=1)
    fetch = story.ask(B)
    late = story[B].log.batches[0]._replace(base_offset=10, last_offset=10, leader_epoch=2)
    own = late._replace(leader_epoch=1)
    later = late._replace(base_offset=11, last_offset=11)
    story.deliver(B, fetch, FetchAnswer(Error.NONE, None, 10, 0, (late, later)))
    assert story[B].end == 10
    story.deliver(B, fetch, FetchAnswer(Error.NONE, None, 10, 0, (own, later)))
    assert story[B].records == epoch_records((1, 0, 10))


def t22_the_same_leader_in_a_later_epoch_is_asked_anew() -> None:
    story = Story(A, B, C)
    story.given(A, (4, 0, 7), hw=6)
    story.given(B, (4, 0, 7), hw=6)
    story.given(C, (4, 0, 5), hw=6)
    story.elect(A, A, B, C, epoch=4)
    before = story.ask(B)  # and now B is paused
    story.elect(C, A, C, epoch=5, tell=(A, C))
    story.produce(C, 3)
    story.fetch(A)
    story.fetch(A)
    story.elect(A, A, C, epoch=6, tell=(A, C))

    role = story[B].follower
    story.tell(B)
    assert story[B].follower is not role
    assert story.ask(B) == before._replace(leader_epoch=6)
    assert story.fetch(B).diverging == EpochEnd(4, 6)
    story.fetch(B)
    assert story[B].records == story[A].records == epoch_records((4, 0, 5), (5, 6, 8))


def t22_a_leader_that_missed_an_epoch_knows_nothing_of_its_followers() -> None:
    """As T22, but the leader was paused, and a metadata snapshot folds what it missed."""
    story = Story(A, B, C)
    story.given(A, (4, 0, 7), hw=6)
    story.given(B, (4, 0, 7), hw=6)
    story.given(C, (4, 0, 5), hw=6)
    story.elect(A, A, B, C, epoch=4)
    story.fetch(B)  # A knows that B holds offsets 6 and 7
    parked = story.produce(A)
    story.elect(C, A, B, C, epoch=5, tell=(B, C))
    story.fetch(B)
    assert story[B].end == 6, "B has cut them under C"
    story.elect(A, A, B, C, epoch=6)  # the first thing A hears since epoch 4

    assert story[A].answers[parked] is Error.NOT_LEADER_OR_FOLLOWER
    story.fetch(C)  # forgets its own epoch
    story.fetch(C)
    story.fetch(C)
    assert story[C].end == story[A].end
    assert story[A].high_watermark == 6, "B has not shown what it holds"
    story.fetch(B)
    story.fetch(B)
    assert story[A].high_watermark == story[A].end


def t28_a_retry_over_a_failover_makes_no_second_copy() -> None:
    story = Story(A, B)
    story.elect(A, A, B, epoch=0)
    batch = client_batch((1, 2, 3, 4, 5), producer_id=7, producer_epoch=0, base_sequence=0)
    assert story[A].leader.check_produce(batch, -1) == (Error.NONE, None)
    story[A].log.append_as_leader(batch, 0)
    story.fetch(B)
    story.elect(B, B, epoch=1)  # A dies before it can answer
    check = story[B].leader.check_produce(batch, -1)
    assert check.duplicate is not None
    assert (check.duplicate.first_offset, check.duplicate.last_offset) == (0, 4)
    story.perform(story[B], story[B].leader.await_duplicate("retry", check.duplicate, 0))
    assert story[B].answers == {"retry": Error.NONE}
    assert story[B].end == 5

    # What was never replicated is appended once, at new offsets.
    lost = client_batch((6,), producer_id=7, producer_epoch=0, base_sequence=5)
    story[A].log.append_as_leader(lost, 0)
    story.produce(B)
    assert story[B].leader.check_produce(lost, -1) == (Error.NONE, None)
    story[B].log.append_as_leader(lost, 1)
    story.fetch(A)
    assert story[A].end == 5
    forgotten = story[A].log.producers.get(7)
    assert forgotten is not None
    assert forgotten.last_sequence == 4
    story.fetch(A)
    assert [b.values for b in story[A].log.batches] == [b.values for b in story[B].log.batches]
    entry = story[A].log.producers.get(7)
    assert entry is not None
    assert (entry.last_sequence, entry.batches[-1].last_offset) == (5, 6)


def t29_a_duplicate_waits_like_the_first_append() -> None:
    story = Story(A, B)
    story.elect(A, A, B, epoch=0)
    node = story[A]
    batch = client_batch((1,), producer_id=7, producer_epoch=0, base_sequence=0)
    node.log.append_as_leader(batch, 0)
    story.perform(node, node.leader.await_commit("first", 1, 0))
    story.perform(node, node.leader.on_produce_timeout("first", 30_000))
    check = node.leader.check_produce(batch, -1)
    assert check.duplicate is not None
    story.perform(node, node.leader.await_duplicate("retry", check.duplicate, 30_000))
    assert node.answers == {"first": Error.REQUEST_TIMED_OUT}
    story.fetch(B)
    story.fetch(B)
    assert node.answers["retry"] is Error.NONE


def t30_too_few_replicas_commit_nothing() -> None:
    story = Story(A, B, min_isr=2)
    story.elect(A, A, epoch=0)
    node = story[A]
    weak, strong = story.produce(A, acks=1), story.produce(A)
    assert node.answers == {weak: Error.NONE, strong: Error.NOT_ENOUGH_REPLICAS}
    assert (node.end, node.high_watermark) == (1, 0)
    assert story.consume(A, ConsumerFetch(0))[1] == []

    story.fetch(B)
    story.fetch(B)
    story.commit_proposal(A)
    assert story.consume(A, ConsumerFetch(0))[1] == [0]

    # Raised while a produce waits: nothing is lost, nothing more is committed.
    token = story.produce(A)
    for broker in (A, B):
        story[broker].settings.min_insync_replicas = 3
    assert story[A].replica.on_settings_changed(0) == []
    story.fetch(B)
    story.fetch(B)
    assert node.answers.get(token) is Error.NONE  # two of two replicas is all there can be
    story.set_isr(A)
    waiting = story.produce(A, acks=1)
    assert (node.answers[waiting], node.high_watermark, node.end) == (Error.NONE, 2, 3)
    for broker in (A, B):
        story[broker].settings.min_insync_replicas = 1
    story.status(B, active=False)  # else B, caught up a moment ago, is waited for
    story.perform(node, node.replica.on_settings_changed(0))
    assert node.high_watermark == 3


def t31_without_a_checkpoint_nothing_is_cut() -> None:
    story = Story(A, B)
    for broker in (A, B):
        story.given(broker, (0, 0, 9), hw=10)
        story.restart(broker, checkpointed_hw=0)
    story.elect(A, A, B, epoch=1)
    assert (story[A].high_watermark, story[A].end, story[B].end) == (0, 10, 10)
    story.fetch(B)
    assert (story[A].high_watermark, story[B].high_watermark) == (10, 10)


def one_change_of_the_isr_at_a_time() -> None:
    story = Story(A, B, C)
    story.elect(A, A, epoch=0)
    story.fetch(B)
    story.fetch(C)
    story.fetch(C)
    assert story[A].proposed == [(A, B)]
    story.commit_proposal(A)
    story.fetch(C)
    assert story[A].proposed == [(A, B), (A, B, C)]


SCHEDULES: list[Callable[[], None]] = [
    t00_the_whole_reconciliation_walkthrough,
    t01_a_follower_is_not_cut_to_its_high_watermark,
    t02_power_loss_leaves_two_records_at_one_offset,
    t04_an_unknown_epoch_takes_two_rounds,
    t05_no_seat_below_the_leaders_epoch_start,
    t06_an_epoch_without_records_is_forgotten,
    t07_a_diverging_fetch_is_no_acknowledgement,
    t08_the_high_watermark_of_a_diverging_answer_is_ignored,
    t09_a_replica_in_shutdown_does_not_freeze_the_high_watermark,
    t10_a_proposed_shrink_commits_nothing,
    t11_after_a_lost_expand_reply_the_leader_keeps_waiting,
    t16_a_cut_off_leader_acknowledges_nothing,
    t17_epochs_out_of_step_change_nothing,
    t18_a_lagging_high_watermark_resets_nobody,
    t20_an_empty_answer_keeps_the_last_fetched_epoch,
    t21_bytes_that_changed_under_an_answer_are_discarded,
    t22_the_same_leader_in_a_later_epoch_is_asked_anew,
    t22_a_leader_that_missed_an_epoch_knows_nothing_of_its_followers,
    t28_a_retry_over_a_failover_makes_no_second_copy,
    t29_a_duplicate_waits_like_the_first_append,
    t30_too_few_replicas_commit_nothing,
    t31_without_a_checkpoint_nothing_is_cut,
    one_change_of_the_isr_at_a_time,
]
