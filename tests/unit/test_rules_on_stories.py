"""The judge listens to real replicas: silent on the named schedules of replication.md §13,
outspoken when the rule a schedule is about is broken on purpose."""

from collections.abc import Callable

import pytest

from support import replication_schedules as schedules
from support.judged_story import JudgedStory
from unit.test_replication_schedules import BROKEN_RULES

LOSSES = {
    # The story is about a disk that lost a committed record.
    "t02_power_loss_leaves_two_records_at_one_offset": {"R11"},
    # The story makes up a batch that no leader wrote.
    "t21_bytes_that_changed_under_an_answer_are_discarded": {"R01"},
}

CAUGHT = {
    "acknowledged before the high watermark": {"R06", "R13"},
    "high watermark is the greatest offset": {"R05", "R09", "R12"},
    "follower truncates to its high watermark": {"R04", "R05", "R06"},
    "fetch epoch not checked": {"R16"},
    "diverging fetch counts": {"R05", "R09", "R10"},
    "high watermark of a diverging answer": {"R05", "R22"},
    "high watermark follows the proposed ISR": {"R05", "R12"},
    "an ambiguous error reverts": {"R05", "R12"},
    "follower serves above its high watermark": {"R22"},
    "min ISR only checked before the append": {"R09"},
    "two changes in flight": {"R21"},
    "records of a later epoch appended": {"R01", "R02"},
}
"""The other broken rules are noticed by their stories before anything unsafe has happened."""


@pytest.fixture(autouse=True)
def judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "Story", JudgedStory)
    monkeypatch.setattr(JudgedStory, "told", [])


def verdicts() -> set[str]:
    found = set()
    for story in JudgedStory.told:
        story.judge_of_rules.sweep()
        found |= {verdict.rule.split()[0] for verdict in story.judge_of_rules.verdicts}
    return found


@pytest.mark.parametrize("schedule", schedules.SCHEDULES, ids=lambda schedule: schedule.__name__)
def test_the_judge_has_nothing_to_say_about(schedule: Callable[[], None]) -> None:
    schedule()
    for story in JudgedStory.told:
        story.judge_of_rules.finish()
    assert verdicts() == LOSSES.get(schedule.__name__, set())


@pytest.mark.parametrize(
    "broken", [b for b in BROKEN_RULES if b[0] in CAUGHT], ids=lambda broken: broken[0]
)
def test_the_judge_reports(
    broken: tuple[str, object, str, object, Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, owner, rule, replacement, story = broken
    monkeypatch.setattr(owner, rule, replacement)
    with pytest.raises(AssertionError):
        story()
    assert verdicts() == CAUGHT[name]


def test_every_broken_rule_that_is_caught_exists() -> None:
    assert set(CAUGHT) <= {broken[0] for broken in BROKEN_RULES}
