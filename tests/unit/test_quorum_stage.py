"""The quorum stories of tests/scenarios come out differently when their rule is broken.

A story that no bug can change proves nothing. Each case breaks exactly one rule of the
production code and expects that the story told by its number notices.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tidelog.core.metadata import alter_partition, heartbeats, held_answers
from tidelog.core.metadata.controller import Controller
from tidelog.core.metadata.effects import Answer
from tidelog.core.metadata.held_answers import HeldAnswers
from tidelog.core.metadata.registration import BrokerRegistration
from tidelog.core.metadata.sessions import Lease, Sessions
from tidelog.core.quorum import rules
from tidelog.core.quorum.follower import Follower
from tidelog.core.quorum.node import QuorumNode
from tidelog.core.quorum.roles import Unattached
from tidelog.core.quorum.state import NEVER_MS
from tidelog.core.quorum.transitions import RoleKeeper
from tidelog.core.quorum.voters import VoterHistory
from tidelog.core.types import LogEntry
from tidelog.sim.scenario import ArgumentError, Player, ScriptError, difference
from tidelog.sim.scenario.quorum import QuorumStage

SCENARIOS = Path(__file__).parent.parent / "scenarios"


class Broken(NamedTuple):
    story: str
    owner: object
    rule: str
    replacement: object


def follows_what_it_led(self: RoleKeeper, stored: object, now_ms: int) -> object:
    self._member.epoch, _, self._member.voted = stored  # type: ignore[misc]
    return self._unattached(now_ms)


def begins_with_old_leases(
    self: Sessions, brokers: list[BrokerRegistration], newest_offset: int, now_ms: int
) -> None:
    self.clear()
    for broker in brokers:
        session = self._open(broker.broker_id, broker.broker_epoch, now_ms - 9000)
        self._leases[broker.broker_id] = session


def renounces_in_silence(self: Controller, now_ms: int) -> list[object]:
    self.current = None
    self._waiting.clear()
    return []


def believes_any_commit(self: HeldAnswers, _: LogEntry) -> list[object]:
    answers = [Answer(each.token, each.response) for each in self._waiting]
    self._waiting.clear()
    return answers


def yes(*_: object) -> bool:
    return True


def no(*_: object) -> bool:
    return False


CASES = [
    Broken("k01", QuorumNode, "_persist_vote", lambda self, effects: None),
    Broken("k01", Unattached, "may_grant_vote", lambda self, member, who, fresh: fresh),
    Broken("k02", rules, "own_epoch_covered", yes),
    Broken("k02", rules, "up_to_date", yes),
    Broken("k03", Follower, "may_grant_pre_vote", lambda self, up_to_date: up_to_date),
    Broken("k04", rules, "check_quorum_deadline_ms", lambda *_: NEVER_MS),
    Broken("k05", RoleKeeper, "_first_role", follows_what_it_led),
    Broken("k06", rules, "handover_delay_ms", lambda position, count, max_ms: max_ms),
    Broken("k07", rules, "snapshot_replaces_log", no),
    Broken("k08", rules, "needs_snapshot", no),
    Broken("k09", Controller, "renounce", renounces_in_silence),
    Broken("k09", HeldAnswers, "on_committed", believes_any_commit),
    Broken("k09", held_answers, "may_be_held", no),
    Broken("k10", alter_partition, "leader_epoch_is_old", no),
    Broken("k11", Sessions, "lease", lambda self, broker, now_ms: Lease(False, False)),
    Broken("k12", Sessions, "begin", begins_with_old_leases),
    Broken("k13", heartbeats, "departure_is_known", no),
    Broken("k15", VoterHistory, "truncate_to", no),
    Broken("k16", rules, "keeps_committed", yes),
]


def text_of(story: str) -> str:
    (path,) = SCENARIOS.glob(f"{story}_*.txt")
    return path.read_text()


@pytest.mark.parametrize("broken", CASES, ids=lambda broken: f"{broken.story}-{broken.rule}")
def test_a_broken_rule_changes_its_story(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broken.owner, broken.rule, broken.replacement)
    assert changed(lambda: difference(text_of(broken.story)))


def test_an_entry_longer_than_allowed_changes_its_story(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of("k14")
    player = Player(text)
    player.next()
    assert isinstance(player.stage, QuorumStage)
    for machine in player.stage.machines.values():
        assert machine.controller is not None
        machine.controller.settings.max_records_per_batch = 20_000
    told = [step.output == step.expected for step in iter(player.next, None)]
    assert not all(told)


def changed(tell: Callable[[], str]) -> bool:
    """Another text, a command that makes no sense any more, or an assertion of our own."""
    try:
        return bool(tell())
    except (ScriptError, AssertionError):
        return True


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("elect 7", "there is no 7"),
        ("append 2 x", "2 does not lead"),
        ("crash x", "a node is a number"),
        ("hold 1-2", "a route is like 1->2"),
        ("hold 1->2 letter", "a message is one of"),
        ("deliver 1->2", "no such message is held"),
        ("quorum voters=12", "from 1 to 9"),
        ("observe 1", "there is a machine 1 already"),
        ("jump", "unknown command"),
        ("metadata", "there is no active controller"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(command: str, problem: str) -> None:
    player = Player("quorum voters=3\n----\n")
    player.next()
    with pytest.raises(ArgumentError, match=problem):
        player.perform(command)


def test_the_audit_names_a_voter_that_voted_twice() -> None:
    player = Player("quorum voters=3\n----\n")
    player.next()
    assert isinstance(player.stage, QuorumStage)
    player.stage.history.on_vote_sent(2, 5, 1)
    player.stage.history.on_vote_sent(2, 5, 1)
    assert player.perform("audit")[1] == "votes: nobody voted twice in an epoch"
    player.stage.history.on_vote_sent(2, 5, 3)
    assert player.perform("audit")[1] == "votes: 2 voted for 1 and 3 in epoch 5"


def test_the_audit_finds_a_committed_entry_that_was_lost() -> None:
    player = Player("quorum voters=3\n----\n")
    player.next()
    player.perform("elect 1")
    player.perform("append 1 x")
    assert player.perform("audit")[2] == "committed 2, lost 0"
    assert isinstance(player.stage, QuorumStage)
    player.stage.machine("1").log.truncate_to(1)
    assert player.perform("audit")[2] == "committed 2, lost 1: x/1"
