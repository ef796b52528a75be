"""Which stories a real cluster can play, and how it gets to where they begin."""

import pytest

from tidelog import lab
from tidelog.lab.scenes import read_scene, why_not
from tidelog.sim.scenario import ArgumentError
from tidelog.sim.scenario.script import split_command

ON_A_CLUSTER = (
    "replicas-and-isr",
    "fetch-is-the-ack",
    "high-watermark",
    "leader-fails",
    "reconcile",
)


def plan_of(command: str) -> list[str]:
    _, arguments = split_command(command)
    return [f"{act} {what}" for act, what in read_scene(arguments).plan()]


def test_these_stories_play_on_a_cluster_and_the_others_say_why_not() -> None:
    reasons = {story.name: why_not(story) for story in lab.stories()}
    assert tuple(name for name, reason in reasons.items() if reason is None) == ON_A_CLUSTER
    assert reasons["rejoin"] == "its scene begins in the middle: leader=103"
    assert reasons["slow-follower"] == "20s pass in it, and no real cluster skips them"
    assert reasons["controller-failover"] == "it is about the quorum, which has no gate"
    assert reasons["acks-and-min-isr"] == "set cannot be done to a real cluster on command"


def test_empty_logs_need_nothing() -> None:
    assert plan_of("given replicas=(1,2,3)") == []


def test_followers_copy_as_much_as_the_scene_says() -> None:
    scene = "given replicas=(1,2,3) 1='a/0 b/0 c/0' 2='a/0 b/0' 3='a/0'"
    assert plan_of(scene) == ["produce a", "fetch 3", "produce b", "fetch 2", "produce c"]


def test_what_is_committed_was_asked_for_and_told() -> None:
    scene = "given replicas=(1,2) 1='a/0 b/0' 2='a/0' hw=1"
    assert plan_of(scene) == ["produce a", "fetch 2", "fetch 2", "fetch 2", "produce b"]


def test_a_leader_that_knows_more_has_heard_a_question_that_it_never_answered() -> None:
    scene = "given replicas=(1,2) 1='a/0 b/0' 2='a/0' hw.1=1 hw.2=0"
    assert plan_of(scene) == ["produce a", "fetch 2", "produce b", "ask 2"]


@pytest.mark.parametrize(
    ("scene", "reason"),
    [
        ("given", "replicas= is missing"),
        ("given replicas=(1,2) 1='a/1'", "a later leader epoch"),
        ("given replicas=(1,2) 1='a/0' 2='b/0'", "logs that differ"),
        ("given replicas=(1,2) 1='a/0' 2='a/0 b/0'", "logs that differ"),
        ("given replicas=(1,2) down=(2)", "in the middle: down=(2)"),
        ("given replicas=(1,2,3) 1='a/0' 2='a/0' 3='a/0' hw.2=1", "that nobody can arrange"),
    ],
)
def test_a_scene_that_cannot_be_reached_is_refused(scene: str, reason: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        plan_of(scene)
    assert reason in str(refused.value)
