"""The judge: takes every happening of a run to the rules that care, and keeps the verdicts.

The world calls hooks on the judge (`judge.leader_appended(replica, batch)`); each hook is a plain
attribute that holds either the one method to call or a small function that calls several, put
together once. What nobody listens to costs an empty call. The chronicle always hears first.

The order in which the world has to call, where it matters: `metadata_committed` before the node
acts on the entry; `quorum_high_watermark` before the `metadata_committed` it allows;
`quorum_state_persisted` before any message behind it; `became_leader` before a move of the high
watermark that the same metadata caused; `high_watermark_moved` before the answers it releases.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidelog.sim.rules import ALL_RULES, Rule
from tidelog.sim.rules.acknowledgement_rules import AcknowledgedIsKept
from tidelog.sim.rules.chronicle import Chronicle, ignore
from tidelog.sim.rules.controller_rules import CleanElections
from tidelog.sim.rules.view import Hook, Report, WorldView

KEPT_PER_RULE = 3
"""One cause breaks a rule many times over; the first few tell the story."""

HOOKS: dict[str, int] = {
    # data plane
    "leader_appended": 2,
    "follower_appended": 2,
    "became_leader": 2,
    "became_follower": 1,
    "high_watermark_moved": 2,
    "truncated": 2,
    "isr_proposed": 2,
    "isr_adopted": 2,
    "produce_refused": 3,
    "produce_acked": 3,
    "duplicate_answered": 4,
    "follower_fetched": 3,
    "answer_heard": 3,
    "consumer_read": 4,
    "latest_answered": 2,
    # coordinators
    "coordinator_answered": 4,
    "coordinator_began": 2,
    "member_joining": 2,
    "member_heard": 4,
    "member_left": 3,
    "committed_read": 3,
    # control plane
    "metadata_appended": 2,
    "metadata_committed": 2,
    "metadata_truncated": 3,
    "quorum_state_persisted": 2,
    "quorum_state_unsure": 1,
    "vote_sent": 3,
    "quorum_leader": 3,
    "quorum_high_watermark": 2,
    "quorum_fetch_sent": 3,
    "controller_claimed": 2,
    "controller_renounced": 3,
    "controller_answered": 3,
    "fenced_by_hint": 3,
    "snapshot_taken": 4,
    "snapshot_installed": 3,
    # nodes and phases
    "node_stopped": 2,
    "node_started": 1,
    "log_recovered": 1,
    "sweep": 0,
    "finish": 0,
}
"""Each hook with its number of arguments."""

DERIVED_HOOKS: dict[str, int] = {
    "batch_committed": 2,
    "record_committed": 2,
    "partition_changed": 3,
    "entry_committed": 1,
    "transaction_ended": 3,
    "group_changed": 3,
}
"""Facts the chronicle finds out by itself and offers to the rules."""


class Verdict(NamedTuple):
    """A rule that did not hold, and the numbers that show it."""

    rule: str
    text: str


class Judge:
    """Made before the world it judges; `attend` joins the two."""

    __slots__ = (*HOOKS, "_told", "_world", "broken", "chronicle", "rules", "verdicts")

    leader_appended: Hook
    follower_appended: Hook
    became_leader: Hook
    became_follower: Hook
    high_watermark_moved: Hook
    truncated: Hook
    isr_proposed: Hook
    isr_adopted: Hook
    produce_refused: Hook
    produce_acked: Hook
    duplicate_answered: Hook
    follower_fetched: Hook
    answer_heard: Hook
    consumer_read: Hook
    latest_answered: Hook
    coordinator_answered: Hook
    coordinator_began: Hook
    member_joining: Hook
    member_heard: Hook
    member_left: Hook
    committed_read: Hook
    metadata_appended: Hook
    metadata_committed: Hook
    metadata_truncated: Hook
    quorum_state_persisted: Hook
    quorum_state_unsure: Hook
    vote_sent: Hook
    quorum_leader: Hook
    quorum_high_watermark: Hook
    quorum_fetch_sent: Hook
    controller_claimed: Hook
    controller_renounced: Hook
    controller_answered: Hook
    fenced_by_hint: Hook
    snapshot_taken: Hook
    snapshot_installed: Hook
    node_stopped: Hook
    node_started: Hook
    log_recovered: Hook
    sweep: Hook
    finish: Hook

    def __init__(self, report: Report = ignore) -> None:
        """`report(rule, text)` is told of every verdict that is kept."""
        self.verdicts: list[Verdict] = []
        # Rule → how often it was broken, also when the verdict itself is no longer kept.
        self.broken: dict[str, int] = {}
        self.rules: tuple[Rule, ...] = ()
        self.chronicle: Chronicle | None = None
        self._world: WorldView | None = None
        self._told = report
        for hook in HOOKS:
            setattr(self, hook, ignore)

    def attend(
        self,
        world: WorldView,
        rules: Iterable[type[Rule]] = ALL_RULES,
        *,
        witnesses: Sequence[object] = (),
    ) -> None:
        """Judge this world from now on, by these rules. Witnesses hear the same hooks, after
        the rules, and judge nothing: the marks are recognised that way."""
        assert self._world is None, f"{type(self._world).__name__} is judged already"
        self._world = world
        self.chronicle = chronicle = Chronicle(world)
        self.rules = tuple(rule(world, chronicle, self.report) for rule in rules)
        listeners: tuple[object, ...] = (chronicle, chronicle.quorum, *self.rules, *witnesses)
        for hook, arity in HOOKS.items():
            setattr(self, hook, fan_out(methods(listeners, hook), arity))
        for hook, arity in DERIVED_HOOKS.items():
            setattr(chronicle, hook, fan_out(methods((*self.rules, *witnesses), hook), arity))

    def report(self, rule: str, text: str) -> None:
        """A rule is broken."""
        assert self._world is not None, f"{rule} reported before there is a world"
        count = self.broken[rule] = self.broken.get(rule, 0) + 1
        if count > KEPT_PER_RULE:
            return
        self.verdicts.append(Verdict(rule, text))
        self._told(rule, text)

    @property
    def lost(self) -> int:
        """Records acknowledged with acks=all that are gone although the promise held."""
        return sum(rule.lost for rule in self.rules if isinstance(rule, AcknowledgedIsKept))

    @property
    def forfeited(self) -> int:
        """Those that are gone because the promise had been given up: an unclean election, or
        the last intact copy destroyed. Both are known after `finish`."""
        return sum(rule.forfeited for rule in self.rules if isinstance(rule, AcknowledgedIsKept))

    @property
    def unclean_elections(self) -> int:
        return sum(r.unclean_elections for r in self.rules if isinstance(r, CleanElections))


def methods(listeners: Sequence[object], hook: str) -> tuple[Hook, ...]:
    return tuple(getattr(each, hook) for each in listeners if hasattr(type(each), hook))


def fan_out(hooks: tuple[Hook, ...], arity: int) -> Hook:
    """One callable for all of them. Fixed argument counts: packing them would cost more than
    many a rule does."""
    if not hooks:
        return ignore
    if len(hooks) == 1:
        return hooks[0]
    return _FAN_OUTS[arity](hooks)


def _fan_out_0(hooks: tuple[Hook, ...]) -> Hook:
    def call() -> None:
        for hook in hooks:
            hook()

    return call


def _fan_out_1(hooks: tuple[Hook, ...]) -> Hook:
    def call(a: object) -> None:
        for hook in hooks:
            hook(a)

    return call


def _fan_out_2(hooks: tuple[Hook, ...]) -> Hook:
    def call(a: object, b: object) -> None:
        for hook in hooks:
            hook(a, b)

    return call


def _fan_out_3(hooks: tuple[Hook, ...]) -> Hook:
    def call(a: object, b: object, c: object) -> None:
        for hook in hooks:
            hook(a, b, c)

    return call


def _fan_out_4(hooks: tuple[Hook, ...]) -> Hook:
    def call(a: object, b: object, c: object, d: object) -> None:
        for hook in hooks:
            hook(a, b, c, d)

    return call


_FAN_OUTS = (_fan_out_0, _fan_out_1, _fan_out_2, _fan_out_3, _fan_out_4)
