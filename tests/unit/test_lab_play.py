"""A story as somebody plays it in the console: forth, back, aside, and beyond its end."""

import json
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tidelog import lab
from tidelog.core.replication.leader import LeaderReplica
from tidelog.lab.free_play import MOST_COMMANDS
from tidelog.lab.play import Play, PlayError
from tidelog.lab.shelf import KEPT_SECONDS, Shelf, UnknownPlayError

QUORUM_STORY = "controller-failover"
every_story = pytest.mark.parametrize("story", lab.stories(), ids=lambda story: story.name)


@pytest.fixture
def reconcile() -> Iterator[Play]:
    play = Play(lab.find("reconcile"))
    yield play
    play.close()


@every_story
def test_a_story_is_played_to_its_end_and_back(story: lab.Story) -> None:
    play = Play(story)
    digests = [play.digest()]
    assert play.document()["next_sentence"] == story.chapters[0].sentence
    while not play.is_over:
        play.forward()
        document = json.loads(json.dumps(play.document()))
        assert document["error"] is None
        assert all(revealed["ok"] for revealed in document["revealed"])
        assert document["sentence"] == story.chapters[play.step - 1].sentence
        shown = "quorum" if story.name == QUORUM_STORY else "partition"
        assert document[shown] is not None
        digests.append(play.digest())
    with pytest.raises(PlayError, match="the story is over"):
        play.forward()
    fork = play.fork()
    assert fork.digest() == digests[-1]
    play.back()
    assert play.digest() == digests[-2]
    play.goto(1)
    assert play.digest() == digests[1]
    play.goto(len(story.chapters))
    assert play.digest() == digests[-1]
    play.close()
    fork.close()


@every_story
def test_what_free_play_offers_after_a_story_can_be_done(story: lab.Story) -> None:
    play = Play(story, len(story.chapters))
    told = play.digest()
    done: list[str] = []
    while fresh := [o["text"] for o in play.document()["commands"] if o["text"] not in done]:
        play.perform(fresh[0])
        done.append(fresh[0])
        assert play.document()["free"] is True
    assert len(done) > 6
    play.goto(play.step)
    assert play.digest() == told
    play.close()


def test_the_partition_is_shown_with_the_numbers_of_the_story(reconcile: Play) -> None:
    reconcile.goto(3)  # 103 leads, and has appended x and y
    partition = reconcile.document()["partition"]
    assert (partition["leader"], partition["leader_epoch"], partition["isr"]) == (
        103,
        1,
        [103, 102],
    )
    assert (partition["high_watermark"], partition["log_end"]) == (4, 7)
    assert partition["state"] == "under-replicated"
    assert partition["parked_produces"] == 1
    dead, leader, follower = partition["replica_logs"]
    assert (dead["broker"], dead["state"], dead["diverges_at"]) == (101, "down", 5)
    assert (leader["role"], leader["epochs"]) == ("leader", [[0, 0], [1, 5]])
    assert (follower["in_isr"], follower["log_end"], follower["lag"]) == (True, 6, 1)
    assert follower["records"][-1] == {"offset": 5, "last_offset": 5, "epoch": 0, "names": ["5"]}


def test_messages_carry_the_numbers_of_their_frames(reconcile: Play) -> None:
    reconcile.goto(4)
    messages = reconcile.document()["partition"]["messages"]
    assert [(m["from"], m["to"], m["kind"], m["text"]) for m in messages] == [
        (102, 103, "fetch", "Fetch offset 6, last epoch 0"),
        (103, 102, "diverging", "epoch 0 ends at 5"),
        (102, 102, "truncate", "truncated 6 → 5"),
    ]
    assert all(message["new"] for message in messages)
    reconcile.forward()
    messages = reconcile.document()["partition"]["messages"]
    assert [message["text"] for message in messages if message["new"]] == [
        "Fetch offset 5, last epoch 0",
        "records 5–6, HW 5",
    ]


def test_a_lost_answer_is_told_as_lost() -> None:
    play = Play(lab.find("fetch-is-the-ack"), 7)
    fates = [(m["kind"], m["fate"]) for m in play.document()["partition"]["messages"] if m["new"]]
    assert fates[:3] == [("fetch", "arrived"), ("answer", "held"), ("answer", "lost")]
    play.close()


def test_whoever_leaves_the_story_goes_back_to_it(reconcile: Play) -> None:
    reconcile.goto(2)
    told = reconcile.digest()
    reconcile.perform("kill 102")
    document = reconcile.document()
    assert document["free"] is True
    assert document["revealed"][-1]["command"] == "crash 102"
    assert document["partition"]["isr"] == [103]
    fork = reconcile.fork()
    assert fork.digest() == reconcile.digest()
    fork.close()
    with pytest.raises(PlayError, match="has left the story"):
        reconcile.forward()
    reconcile.back()
    assert reconcile.digest() == told
    reconcile.forward()


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("fetch 7", "fetch: there is no broker 7: the story has 101, 103, 102; usage: fetch"),
        ("dance", "unknown command 'dance': known are"),
        ("restart 103", "restart: 103 is running; usage: restart"),
        ("crash 103 quickly", "crash: unknown argument 'quickly'"),
        ("given replicas=(1,2)", "given begins another scene"),
        ("advance 6min", "6min is too long"),
        ("fetch 102 times=1000", "times=1000: numbers have at most 3 digits"),
        ("produce " + 200 * "x", "a command has at most 200 characters"),
        ("produce 'x", "No closing quotation"),
        ("", "a command is missing"),
    ],
)
def test_a_command_that_makes_no_sense_changes_nothing(
    reconcile: Play, command: str, problem: str
) -> None:
    reconcile.goto(2)
    told = reconcile.digest()
    with pytest.raises(PlayError) as refused:
        reconcile.perform(command)
    assert problem in str(refused.value)
    assert refused.value.advice
    assert reconcile.digest() == told


def test_there_is_nothing_to_do_before_the_first_step(reconcile: Play) -> None:
    document = reconcile.document()
    assert document["partition"] is None
    assert document["commands"] == []
    with pytest.raises(PlayError, match="nothing on the stage yet"):
        reconcile.perform("crash 101")
    with pytest.raises(PlayError, match="this is the beginning"):
        reconcile.back()


@pytest.mark.parametrize("step", [-1, 9])
def test_a_step_that_does_not_exist_is_refused(reconcile: Play, step: int) -> None:
    with pytest.raises(PlayError, match="there is no step"):
        reconcile.goto(step)


def test_free_commands_are_counted(reconcile: Play) -> None:
    reconcile.goto(1)
    for _ in range(MOST_COMMANDS):
        reconcile.perform("audit")
    with pytest.raises(PlayError, match="takes 100 free commands"):
        reconcile.perform("audit")


def test_a_step_that_comes_out_otherwise_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = LeaderReplica.committed_offset
    monkeypatch.setattr(
        LeaderReplica,
        "committed_offset",
        lambda self, now_ms: max(everything(self, now_ms), self.state.log.log_end_offset),
    )
    play = Play(lab.find("high-watermark"), 2)
    document = play.document()
    assert not all(revealed["ok"] for revealed in document["revealed"])
    assert "told '2 -> 1 fetch offset=4" in document["error"]
    play.close()


def test_the_shelf_keeps_the_plays_that_were_used_last() -> None:
    shelf = Shelf(Play, lambda: 0.0, limit=2)
    story = lab.find("high-watermark")
    first, second = (shelf.begin(story, 1)["id"] for _ in range(2))
    shelf.forward(first)
    fork = shelf.fork(first)
    assert len(shelf) == 2
    assert fork["step"] == 2
    with pytest.raises(UnknownPlayError):
        shelf.show(second)
    shelf.remove(first)
    with pytest.raises(UnknownPlayError):
        shelf.back(first)
    shelf.close()
    assert len(shelf) == 0


def test_a_play_that_nobody_looked_at_for_half_an_hour_is_gone() -> None:
    now_s = 0.0
    shelf = Shelf(Play, lambda: now_s)
    play = shelf.begin(lab.find("high-watermark"), 0)["id"]
    now_s = KEPT_SECONDS - 1.0
    shelf.show(play)
    now_s += KEPT_SECONDS + 1.0
    with pytest.raises(UnknownPlayError):
        shelf.show(play)
    assert len(shelf) == 0


def test_plays_in_two_threads_leave_the_journal_as_it_was() -> None:
    before = logging.root.manager.disable
    story = lab.find("high-watermark")
    together = threading.Barrier(2, timeout=60)

    def play() -> str:
        together.wait()
        told = Play(story, len(story.chapters))
        digest = told.digest()
        told.close()
        return digest

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.submit(play), threads.submit(play)
    assert first.result() == second.result()
    assert logging.root.manager.disable == before
