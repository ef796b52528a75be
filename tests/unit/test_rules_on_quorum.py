"""The judge listens to real quorum nodes under seeded chaos: silent, unless a rule is broken."""

from contextlib import suppress

import pytest

from support import quorum_oracle
from support.bench_books import Books
from support.quorum_cluster import Host
from tidelog.core.events import QuorumLeaderElected
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.quorum.effects import (
    AppendEntries,
    CommitAdvanced,
    Effect,
    InstallSnapshot,
    PersistState,
    Send,
    TruncateTo,
)
from tidelog.core.quorum.messages import FetchRequest, VoteResponse
from tidelog.core.quorum.node import QuorumNode
from tidelog.core.quorum.state import QuorumLostLog
from tidelog.sim.judge import Judge
from tidelog.sim.rules import quorum_rules
from tidelog.sim.rules.rule import Rule
from unit.test_quorum_random import MUTANTS, Run

QUORUM_RULES = [
    each
    for each in vars(quorum_rules).values()
    if isinstance(each, type) and issubclass(each, Rule) and each is not Rule
]


class JudgedRun(Run):
    """A seed that is told to the judge effect by effect, as it is performed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.books = Books(MetadataImage(), lambda count: (0,) * count)
        self.judge = Judge()
        self.judge.attend(self, QUORUM_RULES)
        self.check_quorum_ms = 3_000
        oracle_before = self.oracle.before

        def before(host: Host, effect: Effect, now_ms: int) -> None:
            self.tell(host, effect)
            oracle_before(host, effect, now_ms)

        self.oracle.before = before  # type: ignore[method-assign]

    def quorum_nodes(self) -> list[tuple[int, QuorumNode]]:
        return [(n, host.node) for n, host in self.hosts.items() if host.node is not None]

    def crash(self, node_id: int) -> None:
        if self.hosts[node_id].node is not None:
            self.judge.node_stopped(node_id, "power_loss")
        super().crash(node_id)

    def tell(self, host: Host, effect: Effect) -> None:
        node, judge = host.node_id, self.judge
        assert host.node is not None
        if isinstance(effect, PersistState):
            judge.quorum_state_persisted(node, effect.state)
        elif isinstance(effect, AppendEntries):
            for entry in effect.entries:
                judge.metadata_appended(node, entry)
        elif isinstance(effect, TruncateTo):
            judge.metadata_truncated(node, effect.offset, host.node.high_watermark)
        elif isinstance(effect, InstallSnapshot):
            judge.snapshot_installed(node, effect.snapshot.end_offset, None)
        elif isinstance(effect, QuorumLeaderElected):
            judge.quorum_leader(node, effect.leader_epoch, effect.start_offset)
        elif isinstance(effect, CommitAdvanced):
            judge.quorum_high_watermark(node, effect.high_watermark)
            for entry in host.log.entries_from(host.applied_offset, 1 << 30):
                if entry.next_offset <= effect.high_watermark:
                    judge.metadata_committed(node, entry)
        elif isinstance(effect, Send):
            self.tell_message(host, effect)

    def tell_message(self, host: Host, effect: Send) -> None:
        message = effect.message
        if isinstance(message, VoteResponse) and message.granted and not message.pre_vote:
            self.judge.vote_sent(host.node_id, message.epoch, effect.target)
        elif isinstance(message, FetchRequest) and host.node is not None and host.node.is_voter:
            durable = host.log.durable_offset
            self.judge.quorum_fetch_sent(host.node_id, message.fetch_offset, durable)


@pytest.mark.parametrize("first_seed", [1_000, 1_020])
def test_the_judge_has_nothing_to_say_about_sound_nodes(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 20):
        run = JudgedRun(seed)
        run.play()
        assert run.judge.verdicts == [], f"seed {seed}"
        assert run.judge.chronicle is not None
        assert run.judge.chronicle.next_offset > 0, f"seed {seed}"


CAUGHT: dict[str, set[str]] = {
    "vote granted without fsync": {"K02"},
    "vote without log comparison": {"K03", "K04", "K05", "K06"},
    "old epoch committed by count": {"K07"},
    "no check-quorum": {"K10"},
}
FIRST_SEED = {"no check-quorum": 140}
"""Rare: the seeds before have nothing to show, and take long. The others are met at once."""


@pytest.mark.parametrize("name", CAUGHT)
def test_the_judge_reports(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, function, mutant, _ = MUTANTS[name]
    monkeypatch.setattr(owner, function, mutant)
    # The quorum's own oracle would stop the run before the judge has heard enough.
    monkeypatch.setattr(quorum_oracle, "require", lambda holds, rule, text: None)
    seeds = range(FIRST_SEED.get(name, 40), 400)
    found = next((rules for seed in seeds if (rules := rules_broken_by(seed))), set())
    assert found
    assert found <= CAUGHT[name]


def rules_broken_by(seed: int) -> set[str]:
    run = JudgedRun(seed)
    with suppress(
        AssertionError, QuorumLostLog
    ):  # a node noticed by itself that something is wrong
        run.play()
    return {verdict.rule.split()[0] for verdict in run.judge.verdicts}
