"""Seeded random schedules: loss, copies, reordering, crashes, partitions, slow disks.

Every step is judged by `quorum_oracle`; after the faults the cluster must heal by itself.
"""

import heapq
import random
from typing import Any

import pytest

from support.quorum_cluster import Host, key_of
from support.quorum_oracle import Oracle, RuleBroken
from tidelog.core.errors import Error
from tidelog.core.quorum import rules
from tidelog.core.quorum.effects import Effect, Send
from tidelog.core.quorum.messages import QuorumMessage
from tidelog.core.quorum.node import QuorumNode
from tidelog.core.quorum.state import NEVER_MS, QuorumLostLog, QuorumSettings

CHAOS_MS = 25_000
HEAL_MS = 15_000


class Run:
    """One seed. Every draw comes from it, so a failing seed fails again."""

    def __init__(self, seed: int, *, hints: bool = False) -> None:
        """With `hints` followers are told at times that their leader is gone, true or not."""
        self.random = draw = random.Random(seed)
        self.hints = hints
        self.voter_count = draw.choice((1, 2, 3, 3, 3, 5))
        self.loss = draw.choice((0.0, 0.02, 0.2))
        self.copies = draw.choice((0.0, 0.1, 0.3))
        self.delay_max_ms = draw.choice((2, 30, 400))
        self.sync_max_ms = draw.choice((0, 20, 400, 2500))
        self.fault_gap_ms = draw.choice((300, 1500, 6000))
        self.reconfigures = draw.random() < 0.3
        self.now_ms = 0
        self.sequence = 0
        self.events: list[tuple[int, int, str, tuple[Any, ...]]] = []
        self.boots: dict[int, int] = {}
        self.cut_links: list[tuple[int, int]] = []
        self.fragile: list[int] = []
        self.value = 0
        self.chaos = True
        voters = tuple(key_of(node_id) for node_id in range(1, self.voter_count + 1))
        settings = QuorumSettings(max_entries=draw.choice((1, 3, 500)), snapshot_chunk_bytes=3)
        ids = range(1, self.voter_count + 1 + draw.choice((0, 1, 2)))
        self.hosts = {n: Host(n, voters, self.draw_timeout, settings) for n in ids}
        self.oracle = Oracle(self.hosts)

    def draw_timeout(self, timeout_ms: int) -> int:
        return timeout_ms + self.random.randrange(timeout_ms)

    def play(self) -> None:
        for node_id in self.hosts:
            self.boot(node_id)
        self.at(self.now_ms + 100, "client")
        self.at(self.now_ms + self.random.randrange(self.fault_gap_ms), "fault")
        self.run_until(CHAOS_MS)
        self.heal()
        self.run_until(CHAOS_MS + HEAL_MS)
        self.check_healed()

    # Scheduling --------------------------------------------------------------------------

    def at(self, time_ms: int, kind: str, *payload: Any) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (time_ms, self.sequence, kind, payload))

    def run_until(self, until_ms: int) -> None:
        while self.events and self.events[0][0] <= until_ms:
            self.now_ms, _, kind, payload = heapq.heappop(self.events)
            getattr(self, "do_" + kind)(*payload)
            self.oracle.after_step(self.now_ms)
        self.now_ms = until_ms

    def wake(self, host: Host) -> None:
        if host.node is not None:
            due_ms = max(self.now_ms, host.node.next_deadline_ms)
            if due_ms < NEVER_MS:
                self.at(due_ms, "tick", host.node_id, self.boots[host.node_id])

    def running(self, node_id: int, boot: int) -> QuorumNode | None:
        return self.hosts[node_id].node if self.boots[node_id] == boot else None

    def do_tick(self, node_id: int, boot: int) -> None:
        node = self.running(node_id, boot)
        if node is not None and node.next_deadline_ms <= self.now_ms:
            effects = node.tick(self.now_ms)
            assert node.next_deadline_ms > self.now_ms
            self.perform(node_id, effects)

    def do_sync(self, node_id: int, boot: int) -> None:
        node = self.running(node_id, boot)
        if node is not None:
            self.hosts[node_id].log.sync()
            self.perform(node_id, node.on_durable(self.now_ms))

    def do_deliver(self, source: int, target: int, message: QuorumMessage) -> None:
        host = self.hosts[target]
        if host.node is None or (source, target) in self.cut_links:
            return
        before = host.node.state
        self.oracle.on_arrival(host, source, message, self.now_ms)
        effects = host.node.on_message(source, message, self.now_ms)
        self.oracle.after_arrival(host, message, before)
        self.perform(target, effects)

    def do_client(self) -> None:
        self.at(self.now_ms + self.random.choice((5, 50, 300)), "client")
        for node_id, host in self.hosts.items():
            if host.node is not None and host.node.role == "leader":
                self.value += 1
                count = self.random.choice((1, 1, 3))
                records = tuple(f"v{self.value}.{i}" for i in range(count))
                _, effects = host.node.append(records, self.now_ms)
                self.perform(node_id, effects)

    # Effects -----------------------------------------------------------------------------

    def perform(self, node_id: int, effects: list[Effect]) -> None:
        host = self.hosts[node_id]
        stop_after = len(effects)
        if effects and node_id in self.fragile and self.random.random() < 0.3:
            stop_after = self.random.randrange(len(effects) + 1)  # power fails in the middle
            self.fragile.remove(node_id)
        needs_sync = False
        for effect in effects[:stop_after]:
            self.oracle.before(host, effect, self.now_ms)
            if type(effect) is Send:
                self.send(node_id, effect.target, effect.message)
            else:
                needs_sync |= host.perform(effect)
        if stop_after < len(effects):
            self.crash(node_id)
            return
        if needs_sync:
            delay_ms = self.random.randint(0, self.sync_max_ms) if self.chaos else 1
            self.at(self.now_ms + delay_ms, "sync", node_id, self.boots[node_id])
        self.wake(host)

    def send(self, source: int, target: int, message: QuorumMessage) -> None:
        copies = 1
        delay_max_ms = 2
        if self.chaos:
            copies = 0 if self.random.random() < self.loss else 1
            copies += self.random.random() < self.copies
            delay_max_ms = self.delay_max_ms
        for _ in range(copies):
            delay_ms = 1 + self.random.randint(0, delay_max_ms)
            if self.chaos and self.random.random() < 0.01:
                delay_ms += self.random.randint(0, 5000)
            self.at(self.now_ms + delay_ms, "deliver", source, target, message)

    # Faults ------------------------------------------------------------------------------

    def boot(self, node_id: int) -> None:
        host = self.hosts[node_id]
        self.boots[node_id] = self.boots.get(node_id, 0) + 1
        host.boot(self.now_ms)
        self.oracle.on_boot(host)
        self.wake(host)

    def crash(self, node_id: int) -> None:
        host = self.hosts[node_id]
        if host.node is not None:
            host.crash(self.random.randint(0, host.log.log_end_offset))
            back_ms = self.now_ms + self.random.choice((1, 100, 1000, 5000))
            self.at(back_ms, "restart", node_id)

    def do_restart(self, node_id: int) -> None:
        if self.hosts[node_id].node is None:
            self.boot(node_id)

    def do_fault(self) -> None:
        if not self.chaos:
            return
        self.at(self.now_ms + 1 + self.random.randrange(self.fault_gap_ms), "fault")
        kinds = ["crash", "crash", "fragile", "isolate", "one_way", "mend", "snapshot", "resign"]
        if self.reconfigures:
            kinds += ["voters", "voters"]
        if self.hints:
            kinds += ["hint"] * 6
        node_id = self.random.choice(list(self.hosts))
        getattr(self, "fault_" + self.random.choice(kinds))(node_id)

    def fault_crash(self, node_id: int) -> None:
        self.crash(node_id)

    def fault_fragile(self, node_id: int) -> None:
        self.fragile.append(node_id)

    def fault_isolate(self, node_id: int) -> None:
        group = [node_id, self.random.choice(list(self.hosts))]
        self.cut_links += [(a, b) for a in group for b in self.hosts if b not in group]
        self.cut_links += [(b, a) for a in group for b in self.hosts if b not in group]

    def fault_one_way(self, node_id: int) -> None:
        self.cut_links += [(node_id, b) for b in self.hosts if self.random.random() < 0.6]

    def fault_mend(self, node_id: int) -> None:
        self.cut_links.clear()

    def fault_snapshot(self, node_id: int) -> None:
        host = self.hosts[node_id]
        latest = host.log.latest_snapshot
        if host.node is not None and host.applied_offset > (latest.end_offset if latest else 0):
            host.take_snapshot(clean=self.random.random() < 0.7)

    def fault_resign(self, node_id: int) -> None:
        host = self.hosts[node_id]
        if host.node is not None:
            stop = self.random.random() < 0.3
            effects = (host.node.shutdown if stop else host.node.resign)(self.now_ms)
            self.perform(node_id, effects)
            if stop:
                self.at(self.now_ms + 200, "stop", node_id, self.boots[node_id])

    def fault_hint(self, node_id: int) -> None:
        host = self.hosts[node_id]
        if host.node is not None:
            leader_id, epoch = host.node.leader_id, host.node.epoch
            self.perform(node_id, host.node.on_leader_gone(leader_id, epoch, self.now_ms))

    def do_stop(self, node_id: int, boot: int) -> None:
        if self.running(node_id, boot) is not None:
            self.crash(node_id)

    def fault_voters(self, node_id: int) -> None:
        for leader_id, host in self.hosts.items():
            if host.node is None or host.node.role != "leader":
                continue
            change = host.node.remove_voter
            if key_of(node_id) not in host.node.voters:
                change = host.node.add_voter
            error, effects = change(key_of(node_id), self.now_ms)
            assert error is Error.NONE or not effects
            self.perform(leader_id, effects)

    # After the storm ---------------------------------------------------------------------

    def heal(self) -> None:
        self.chaos = False
        self.cut_links.clear()
        self.fragile.clear()
        for node_id, host in self.hosts.items():
            if host.node is None:
                self.boot(node_id)

    def check_healed(self) -> None:
        nodes = [host.node for host in self.hosts.values() if host.node is not None]
        leaders = [node for node in nodes if node.role == "leader"]
        assert len(leaders) == 1, [(n.role, n.epoch) for n in nodes]
        assert self.oracle.committed_end > 0
        offsets = [host.applied_offset for host in self.hosts.values()]
        assert max(offsets) - min(offsets) <= 60, f"somebody is left behind: {offsets}"
        assert max(offsets) == self.oracle.committed_end
        for host in self.hosts.values():
            records = [r for r in host.applied if isinstance(r, str)]
            assert records == self.oracle.state_at(host.applied_offset)


@pytest.mark.parametrize("first_seed", range(0, 200, 20))
def test_random_schedules_keep_every_rule_and_heal(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 20):
        try:
            Run(seed).play()
        except AssertionError as broken:
            raise AssertionError(f"seed {seed}: {broken}") from broken


@pytest.mark.parametrize("first_seed", range(200, 300, 20))
def test_false_alarms_about_the_leader_break_no_rule(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 20):
        try:
            Run(seed, hints=True).play()
        except AssertionError as broken:
            raise AssertionError(f"seed {seed} with hints: {broken}") from broken


def test_the_same_seed_is_the_same_run() -> None:
    first, second = Run(7), Run(7)
    first.play()
    second.play()
    assert first.sequence == second.sequence
    assert first.oracle.committed == second.oracle.committed


MUTANTS = {
    "vote granted without fsync": (QuorumNode, "_persist_vote", lambda self, effects: None, {2}),
    "vote without log comparison": (rules, "up_to_date", lambda a, b: True, {4, 5, 6}),
    "old epoch committed by count": (rules, "own_epoch_covered", lambda offset, _: offset > 0, {7}),
    "no check-quorum": (rules, "check_quorum_deadline_ms", lambda *a: NEVER_MS, {10}),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_judges_notice_a_broken_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, function, mutant, expected = MUTANTS[name]
    monkeypatch.setattr(owner, function, mutant)
    broken = next((rule for seed in range(200) if (rule := rule_broken_by(seed))), None)
    assert broken in expected, f"{name} broke rule {broken}"


def rule_broken_by(seed: int) -> int | None:
    try:
        Run(seed).play()
    except RuleBroken as broken:
        return broken.rule
    except (AssertionError, QuorumLostLog):
        return None  # the node noticed by itself; look for what the judges say
    return None
