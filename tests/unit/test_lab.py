"""The stories of the lab, as a learner meets them."""

import shlex

import pytest

from tidelog import lab
from tidelog.core.replication.leader import LeaderReplica
from tidelog.lab.catalogue import parse_story
from tidelog.lab.telling import WIDTH, tell_story
from tidelog.sim.scenario import Player
from tidelog.sim.scenario.stage import Stage

READING_ORDER = (
    "replicas-and-isr",
    "fetch-is-the-ack",
    "high-watermark",
    "leader-fails",
    "lowered-high-watermark",
    "reconcile",
    "rejoin",
    "slow-follower",
    "preferred-leader",
    "acks-and-min-isr",
    "unclean-election",
    "controller-failover",
    "follower-reads",
)
SHORT = """\
# A short one
# source: Leader Epoch
#
# Three brokers.
given replicas=(1,2,3)
----
1* leader-epoch=0 isr=(1,2,3)

# ? What does 2 get?
fetch 2
----
2 -> 1 fetch offset=0 last-epoch=none | no records high-watermark=0

# saw: Not much.
# next: tidelog lab list; tidelog demo
"""

every_story = pytest.mark.parametrize("story", lab.stories(), ids=lambda story: story.name)


def test_the_stories_are_listed_in_reading_order() -> None:
    assert tuple(story.name for story in lab.stories()) == READING_ORDER


@every_story
def test_it_runs_to_its_end_as_told(story: lab.Story) -> None:
    lines: list[str] = []
    assert lab.run(story.name, tell=lines.append) == []
    assert lines[0] == story.title
    assert lines[-1].startswith("next: tidelog ")
    assert "what you saw:" in "\n".join(lines[-4:])
    assert all(len(line) <= WIDTH + 30 for line in lines), "too wide for a terminal"


@every_story
def test_it_has_a_title_questions_and_a_section_of_the_source_documents(story: lab.Story) -> None:
    assert 10 <= len(story.title) <= 60
    assert not story.title.endswith(".")
    assert sum(bool(chapter.question) for chapter in story.chapters) >= 2
    assert all(chapter.question.endswith("?") for chapter in story.chapters if chapter.question)
    assert story.sources


@every_story
def test_nothing_happens_without_a_sentence_before_it(story: lab.Story) -> None:
    assert all(chapter.sentence or chapter.question for chapter in story.chapters)
    played = [directive for chapter in story.chapters for directive in chapter.directives]
    assert played == list(story.script.directives)


@every_story
def test_what_it_tells_to_try_next_exists(story: lab.Story) -> None:
    names = {known.name for known in lab.stories()}
    assert story.next_commands
    for command in story.next_commands:
        words = shlex.split(command)
        assert words[0] == "tidelog"
        if words[1:3] == ["lab", "run"]:
            assert words[3] in names
            assert words[3] != story.name


def test_every_section_of_the_replication_documents_is_shown_by_a_story() -> None:
    shown = {source for story in lab.stories() for source in story.sources}
    assert [section for section in SECTIONS if section not in shown] == []


SECTIONS = (
    "Kafka Data Replication",
    "Leader, Follower, and In-Sync Replica (ISR) List",
    "Leader Epoch",
    "Follower Fetch Request",
    "Follower Fetch Response",
    "Committing Partition Offsets",
    "Advancing the Follower High Watermark",
    "Handling Leader Failure",
    "Temporary Decreased High Watermark",
    "Partition Replica Reconciliation",
    "Fetch Response Informs Follower of Divergence",
    "Follower Truncates Log to Match Leader Log",
    "Subsequent Fetch with Updated Offset and Epoch",
    "Follower 102 Reconciled",
    "Follower 102 Acknowledges New Records",
    "Follower 101 Rejoins the Cluster",
    "Handling Failed or Slow Followers",
    "Partition Leader Balancing",
)


def test_a_story_reads_like_this() -> None:
    lines: list[str] = []
    assert tell_story(parse_story("short", SHORT), tell=lines.append) == []
    assert lines == [
        "A short one",
        "shows: Leader Epoch",
        "",
        "  1/2  Three brokers.",
        "",
        "       ▸ given replicas=(1,2,3)",
        "         1* leader-epoch=0 isr=(1,2,3)",
        "",
        "  2/2  ? What does 2 get?",
        "",
        "       ▸ fetch 2",
        "         2 -> 1 fetch offset=0 last-epoch=none",
        "           └ no records high-watermark=0",
        "",
        "what you saw: Not much.",
        "next: tidelog lab list   ·   tidelog demo",
    ]


def test_whoever_asks_is_shown_every_question_before_its_answer() -> None:
    lines: list[str] = []
    asked: list[str] = []

    def ask(question: str) -> bool:
        asked.append(question)
        assert not any("no records" in line for line in lines)
        return True

    assert tell_story(parse_story("short", SHORT), tell=lines.append, ask=ask) == []
    assert asked == ["step 1/2", "step 2/2  What does 2 get?"]


def test_whoever_has_seen_enough_leaves() -> None:
    lines: list[str] = []
    story = parse_story("short", SHORT)
    assert tell_story(story, tell=lines.append, ask=lambda question: "1/2" in question) == []
    assert not any("fetch" in line for line in lines)


def test_a_step_that_comes_out_otherwise_is_told_and_reported() -> None:
    lines: list[str] = []
    told = SHORT.replace("isr=(1,2,3)\n\n", "isr=(1,2)\n\n")
    broken = tell_story(parse_story("short", told), tell=lines.append)
    assert broken == [
        "line 5, given replicas=(1,2,3): told '1* leader-epoch=0 isr=(1,2)', "
        "came out '1* leader-epoch=0 isr=(1,2,3)'"
    ]
    assert f"       ✗ {broken[0]}" in lines


def test_a_broken_rule_is_reported_by_the_story_about_it(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = LeaderReplica.committed_offset
    monkeypatch.setattr(
        LeaderReplica,
        "committed_offset",
        lambda self, now_ms: max(everything(self, now_ms), self.state.log.log_end_offset),
    )
    assert lab.run("high-watermark", tell=lambda line: None) != []


def test_a_name_nobody_knows_is_answered_with_the_names_there_are() -> None:
    with pytest.raises(
        lab.UnknownStoryError, match="no story 'reconcil': there are replicas-and-isr"
    ):
        lab.run("reconcil", tell=print)


def test_after_a_story_one_may_go_on_playing() -> None:
    player = Player(lab.find("reconcile").script)
    while player.next() is not None:
        pass
    assert isinstance(player.stage, Stage)
    assert player.perform("crash 103") == (
        "controller: leader=101 leader-epoch=2 isr=(102,101) partition-epoch=3",
    )
