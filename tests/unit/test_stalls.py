"""Which followers of a leader stand still, and since when."""

from support.partition_story import Story
from tidelog.core.replication.stalls import Stall, Stalls

A, B, C = 1, 2, 3
LAG_MS = 30_000


def led_by_a() -> Story:
    """A leads B and C; C is outside the ISR."""
    story = Story(A, B, C)
    story.given(A, (0, 0, 9), hw=10)
    story.given(B, (0, 0, 9), hw=10)
    story.given(C, (0, 0, 4), hw=5)
    story.elect(A, A, B, epoch=1)
    return story


def test_a_follower_that_never_fetches_is_stalled_after_two_lag_times() -> None:
    story, stalls = led_by_a(), Stalls()
    assert stalls.look(story[A].leader, 0) == []
    assert stalls.look(story[A].leader, 2 * LAG_MS - 1) == []
    assert stalls.look(story[A].leader, 2 * LAG_MS) == [Stall(C, 1, -1, 0)]


def test_a_follower_that_moves_is_not_stalled_however_far_behind_it_is() -> None:
    story, stalls = led_by_a(), Stalls()
    assert stalls.look(story[A].leader, 0) == []
    story.serve(A, story.ask(C))
    assert stalls.look(story[A].leader, 2 * LAG_MS) == []
    assert stalls.look(story[A].leader, 4 * LAG_MS) == [Stall(C, 1, 5, 2 * LAG_MS)]


def test_a_follower_in_the_isr_may_stand_still_for_ever() -> None:
    story, stalls = led_by_a(), Stalls()
    story.set_isr(A, B, C)
    assert stalls.look(story[A].leader, 0) == []
    assert stalls.look(story[A].leader, 10 * LAG_MS) == []


def test_a_follower_whose_broker_is_fenced_is_not_expected_to_move() -> None:
    story, stalls = led_by_a(), Stalls()
    stalls.look(story[A].leader, 0)
    story.status(C, active=False)
    assert stalls.look(story[A].leader, 10 * LAG_MS) == []
    story.status(C, active=True)
    assert stalls.look(story[A].leader, 11 * LAG_MS) == []  # it has just come back
    assert stalls.look(story[A].leader, 13 * LAG_MS) == [Stall(C, 1, -1, 11 * LAG_MS)]


def test_each_leader_epoch_gives_a_follower_its_time_anew() -> None:
    story, stalls = led_by_a(), Stalls()
    stalls.look(story[A].leader, 0)
    story.elect(A, A, B, epoch=2)
    assert stalls.look(story[A].leader, 3 * LAG_MS) == []


def test_what_is_not_led_any_more_is_forgotten() -> None:
    story, stalls = led_by_a(), Stalls()
    stalls.look(story[A].leader, 0)
    stalls.forget(story[A].leader.state.partition)
    assert stalls.look(story[A].leader, 3 * LAG_MS) == []
