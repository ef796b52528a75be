"""Plots: a few faults that only together make trouble, with their times in step.

Drawn one by one, faults meet in the right order once in a thousand runs. A plot draws them
together: still at random, but around the moments that matter. It is drawn like a kind of
fault and leaves ordinary faults in the schedule, so that shrinking takes it apart again.
"""

import random
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tidelog.sim.faults import Fault


class Setting(NamedTuple):
    """Where and when a plot is to happen."""

    at_ms: int
    topic: int
    partition: int
    node: int
    """Hit when nobody has the role that is aimed at."""
    brokers: int
    replication_factor: int
    session_timeout_ms: int
    replica_lag_time_max_ms: int

    def some_nodes(self, entropy: random.Random) -> tuple[int, ...]:
        """An assignment with `node` in it."""
        others = [node for node in range(1, self.brokers + 1) if node != self.node]
        return (self.node, *entropy.sample(others, self.replication_factor - 1))

    @property
    def out_of_sync_ms(self) -> int:
        """Silent for so long, a follower is out of the ISR one way or the other."""
        return round(1.6 * max(self.session_timeout_ms, self.replica_lag_time_max_ms))

    def fault(self, after_ms: float, kind: str, aim: str, duration_ms: float, *args: int) -> Fault:
        return Fault(
            self.at_ms + round(after_ms),
            kind,
            nodes=(self.node,),
            duration_ms=max(1, round(duration_ms)),
            args=args,
            aim=aim,
            topic=self.topic,
            partition=self.partition,
        )


class Plot(NamedTuple):
    weight: int
    meaning: str
    draw: Callable[[random.Random, Setting], list[Fault]]


def late_join(entropy: random.Random, setting: Setting) -> list[Fault]:
    """A replica is about to join the ISR when it stops or restarts, and the proposal that names
    it arrives only when it is back: as another incarnation (KIP-903), or as one that was
    refused in between."""
    session_ms = setting.session_timeout_ms
    back_ms = setting.out_of_sync_ms
    joining_ms = entropy.uniform(20, 0.5 * session_ms)
    kind = entropy.choice(("pause", "pause", "wipe", "crash", "controller_cut"))
    away_ms = entropy.uniform(1.1, 2.0) * session_ms if kind != "wipe" else 50
    late_ms = joining_ms + away_ms + entropy.uniform(0, 1.5) * session_ms
    window_ms = joining_ms + entropy.uniform(0.8, 2.5) * session_ms
    return [
        setting.fault(0, "pause", "follower", back_ms),
        setting.fault(back_ms - 5, "late_proposals", "leader", window_ms, round(late_ms), 0),
        setting.fault(back_ms + joining_ms, kind, "outsider", away_ms),
    ]


def slow_failover(entropy: random.Random, setting: Setting) -> list[Fault]:
    """The leader dies while one follower is catching up and another is slow to sync: the next
    leader cannot know what is committed, and whoever asks it has less than that."""
    session_ms = setting.session_timeout_ms
    back_ms = setting.out_of_sync_ms
    sync_ms = round(entropy.uniform(0.1, 1.5) * session_ms)
    slow_from_ms = back_ms - entropy.uniform(0, 0.5) * session_ms
    return [
        setting.fault(0, "pause", "follower", back_ms),
        setting.fault(slow_from_ms, "slow_disk", "follower", 4 * session_ms, sync_ms),
        setting.fault(
            back_ms + entropy.uniform(-0.9, 0.2) * session_ms,
            entropy.choice(("crash", "isolate", "pause")),
            "leader",
            entropy.uniform(1.5, 3) * session_ms,
            0,
        ),
    ]


def left_alone(entropy: random.Random, setting: Setting) -> list[Fault]:
    """The leader is alone in the ISR, nobody gets back into it, and then the leader dies. Who is
    alive may not lead, unless an operator has no patience."""
    session_ms = setting.session_timeout_ms
    back_ms = setting.out_of_sync_ms
    dies_ms = back_ms + entropy.uniform(0.1, 0.8) * session_ms
    faults = [
        setting.fault(0, "pause", "follower", back_ms),
        setting.fault(1, "pause", "follower", back_ms),
        setting.fault(back_ms - 5, "late_proposals", "leader", 3 * session_ms, 3 * session_ms, 0),
        setting.fault(dies_ms, "crash", "leader", entropy.uniform(2, 5) * session_ms),
    ]
    if entropy.random() < 0.5:
        faults.append(setting.fault(dies_ms + 1, "unclean_election", "", 4 * session_ms))
    return faults


def old_fetches(entropy: random.Random, setting: Setting) -> list[Fault]:
    """A follower restarts; what its former incarnation has asked for is read only then."""
    session_ms = setting.session_timeout_ms
    late_ms = round(entropy.uniform(1.2, 2.5) * session_ms)
    return [
        setting.fault(0, "late_fetches", "follower", 0.5 * session_ms, late_ms),
        setting.fault(0, "late_proposals", "follower", 0.5 * session_ms, late_ms, 1),
        setting.fault(
            entropy.uniform(0.1, 0.5) * session_ms,
            entropy.choice(("crash", "wipe", "power_loss")),
            "follower",
            50,
            0,
        ),
    ]


def change_in_absence(entropy: random.Random, setting: Setting) -> list[Fault]:
    """An operator moves or deletes what a broker that is down has, or is to have, on its disk."""
    away_ms = entropy.uniform(1, 4) * setting.session_timeout_ms
    deleted = entropy.random() < 0.3
    change = setting.fault(
        entropy.uniform(0.1, 0.9) * away_ms, "delete_topic" if deleted else "reassign", "", 0
    )
    if not deleted:
        change = change._replace(nodes=setting.some_nodes(entropy))
    return [setting.fault(0, "crash", "", away_ms), change]


def unsynced_snapshot(entropy: random.Random, setting: Setting) -> list[Fault]:
    """A node catches up with metadata that others have committed, keeps a snapshot of it, and
    loses its power before the entries themselves were synced."""
    session_ms = setting.session_timeout_ms
    sync_ms = round(entropy.uniform(0.3, 1.5) * session_ms)
    away_ms = entropy.uniform(1.0, 2.0) * session_ms
    return [
        setting.fault(0, "slow_disk", "", away_ms + 3 * session_ms, sync_ms),
        setting.fault(1, "pause", "", away_ms),
        setting.fault(
            away_ms + entropy.uniform(0.1, 1.0) * sync_ms, "power_loss", "", 0.5 * session_ms, 0
        ),
    ]


PLOTS: Final[Mapping[str, Plot]] = {
    "late_join": Plot(3, "a proposal arrives after its replica went and came back", late_join),
    "slow_failover": Plot(3, "the leader dies while others lag and sync slowly", slow_failover),
    "left_alone": Plot(2, "the leader dies alone in its ISR", left_alone),
    "old_fetches": Plot(2, "fetches of a former incarnation arrive late", old_fetches),
    "change_in_absence": Plot(2, "a topic moves or goes while a broker is down", change_in_absence),
    "unsynced_snapshot": Plot(2, "power fails between snapshot and sync", unsynced_snapshot),
}
