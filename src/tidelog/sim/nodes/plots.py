"""Plots: a few faults that only together make trouble, with their times in step.

Drawn one by one, faults meet in the right order once in a thousand runs. A plot draws them
together: still at random, but around the moments that matter. It leaves ordinary faults in the
plan, so that shrinking takes it apart again. Plots are drawn when a focus names them.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Final, NamedTuple

from tidelog.config.profiles import BRISK, PROFILES
from tidelog.sim.nodes.cluster_plan import ClusterPlan
from tidelog.sim.nodes.fault_plan import FOLLOWER, LEADER, OUTSIDER, PARTITIONS, NodeFault


class Setting(NamedTuple):
    """Where and when a plot happens."""

    at_ms: int
    cluster: ClusterPlan
    node: int
    """Hit when nobody has the role that is aimed at."""
    partition: int

    @property
    def session_ms(self) -> int:
        return self._duration("broker.session.timeout.ms")

    @property
    def out_of_sync_ms(self) -> int:
        """Silent for so long, a follower is out of the ISR one way or the other."""
        return round(1.6 * max(self.session_ms, self._duration("replica.lag.time.max.ms")))

    def _duration(self, key: str) -> int:
        return int(dict(self.cluster.settings).get(key) or PROFILES[BRISK][key])

    def fault(self, after_ms: float, kind: str, aim: str, lasts_ms: float) -> NodeFault:
        at_ms, lasts = self.at_ms + round(after_ms), max(1, round(lasts_ms))
        return NodeFault(at_ms, kind, self.node, self.node, lasts, aim, self.partition)


Plot = Callable[[Random, Setting], list[NodeFault]]


def lonely_node(entropy: Random, setting: Setting) -> list[NodeFault]:
    """A node starts, and for more than a minute there are too few controllers to register with."""
    cluster = setting.cluster
    alone = entropy.choice(cluster.broker_ids)
    away_ms = entropy.randrange(65_000, 80_000)
    others = [voter for voter in cluster.voter_ids if voter != alone]
    away = setting.fault(0, "kill", "", away_ms)
    return [
        setting.fault(0, "kill", "", 300)._replace(node=alone),
        *(away._replace(node=voter) for voter in others),
    ]


def late_join(entropy: Random, setting: Setting) -> list[NodeFault]:
    """A replica is about to join the ISR when it restarts, and the proposal that names it
    arrives only when it is back, as another incarnation (KIP-903)."""
    back_ms = setting.out_of_sync_ms
    window_ms = 0.8 * setting.session_ms
    joining_ms = entropy.uniform(5, 0.4 * window_ms)
    kind = entropy.choice(("kill", "kill", "wipe", "power_loss"))
    return [
        setting.fault(0, "pause", FOLLOWER, back_ms),
        setting.fault(back_ms - 2, "controller_cut", LEADER, window_ms),
        setting.fault(back_ms + joining_ms, kind, OUTSIDER, 50),
    ]


def late_proposal(entropy: Random, setting: Setting) -> list[NodeFault]:
    """A follower falls silent. Its leader proposes to go on without it, and is not heard before
    the controller has fenced the follower by itself."""
    lag_ms, session_ms = setting.out_of_sync_ms / 1.6, setting.session_ms
    return [
        setting.fault(0, "pause", FOLLOWER, setting.out_of_sync_ms + session_ms),
        setting.fault(
            entropy.uniform(0.6, 1.0) * lag_ms,
            "controller_cut",
            LEADER,
            entropy.uniform(0.4, 0.9) * session_ms,
        ),
    ]


def slow_failover(entropy: Random, setting: Setting) -> list[NodeFault]:
    """The leader dies while one follower is catching up and another is slow to sync: the next
    leader cannot know what is committed, and whoever asks it has less than that."""
    session_ms = setting.session_ms
    back_ms = setting.out_of_sync_ms
    return [
        setting.fault(0, "pause", FOLLOWER, back_ms),
        setting.fault(
            back_ms - entropy.uniform(0, 0.5) * session_ms,
            "slow_disk",
            FOLLOWER,
            4 * session_ms,
        )._replace(amount=entropy.choice((40, 200))),
        setting.fault(
            back_ms + entropy.uniform(-0.9, 0.2) * session_ms,
            entropy.choice(("kill", "isolate", "pause")),
            LEADER,
            entropy.uniform(1.5, 3) * session_ms,
        ),
    ]


PLOTS: Final[Mapping[str, Plot]] = {
    "lonely_node": lonely_node,
    "late_join": late_join,
    "late_proposal": late_proposal,
    "slow_failover": slow_failover,
}


def draw_plots(
    entropy: Random, cluster: ClusterPlan, begin_ms: int, end_ms: int, names: list[str]
) -> list[NodeFault]:
    """One after the other, and now and then at the same time."""
    faults: list[NodeFault] = []
    at_ms = begin_ms
    while names and at_ms < end_ms:
        node, partition = entropy.choice(cluster.broker_ids), entropy.randrange(PARTITIONS)
        setting = Setting(at_ms, cluster, node, partition)
        drawn = PLOTS[entropy.choice(names)](entropy, setting)
        faults += drawn
        longest_ms = max(fault.at_ms + fault.lasts_ms for fault in drawn) - at_ms
        at_ms += round(entropy.uniform(0.2, 1.2) * longest_ms)
    return faults
