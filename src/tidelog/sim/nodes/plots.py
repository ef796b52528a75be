"""Plots: a few faults that only together make trouble, with their times in step.

Drawn one by one, faults meet in the right order once in a thousand runs. A plot draws them
together: still at random, but around the moments that matter. It leaves ordinary faults in the
plan, so that shrinking takes it apart again.
"""

from collections.abc import Mapping
from random import Random
from typing import Final

from tidelog.broker.coordination.coordinators import java_hash
from tidelog.sim.entropy import stream
from tidelog.sim.nodes.client_plan import LATE_NAMES
from tidelog.sim.nodes.cluster_plan import ClusterPlan
from tidelog.sim.nodes.cut_plots import CUT_PLOTS
from tidelog.sim.nodes.fault_kinds import (
    CONTROLLER,
    COORDINATOR,
    FOLLOWER,
    LEADER,
    OUTSIDER,
    PARTITIONS,
    TRANSACTIONS,
    NodeFault,
)
from tidelog.sim.nodes.late_plots import LATE_PLOTS, RARE_PLOTS
from tidelog.sim.nodes.plot_setting import Plot, Setting


def _lonely_node(at: Setting) -> list[NodeFault]:
    alone = at.entropy.choice(at.cluster.broker_ids)
    others = [voter for voter in at.cluster.voter_ids if voter != alone]
    away = at.fault(0, "kill", "", at.entropy.randrange(65_000, 80_000))
    return [
        at.fault(0, "kill", "", 300)._replace(node=alone),
        *(away._replace(node=voter) for voter in others),
    ]


def _late_join(at: Setting) -> list[NodeFault]:
    """The proposal that names a replica arrives when it is back, as another incarnation
    (KIP-903)."""
    back_ms, window_ms = at.out_of_sync_ms, 0.8 * at.session_ms
    joining_ms = at.entropy.uniform(5, 0.4 * window_ms)
    return [
        at.fault(0, "pause", FOLLOWER, back_ms),
        at.fault(back_ms - 2, "controller_cut", LEADER, window_ms),
        at.fault(
            back_ms + joining_ms, at.one_of("kill", "kill", "wipe", "power_loss"), OUTSIDER, 50
        ),
    ]


def _late_proposal(at: Setting) -> list[NodeFault]:
    """A leader proposes to go on without a silent follower, and is not heard before the
    controller has fenced that follower by itself."""
    lag_ms = at.out_of_sync_ms / 1.6
    cut_ms = at.entropy.uniform(0.6, 1.0) * lag_ms
    return [
        at.fault(0, "pause", FOLLOWER, at.out_of_sync_ms + at.session_ms),
        at.fault(cut_ms, "controller_cut", LEADER, at.sessions(0.4, 0.9)),
    ]


def _slow_failover(at: Setting) -> list[NodeFault]:
    """The next leader cannot know what is committed, and whoever asks it has less than that."""
    back_ms = at.out_of_sync_ms
    slow_ms = back_ms - at.sessions(0, 0.5)
    dies_ms = back_ms + at.sessions(-0.9, 0.2)
    slow = at.entropy.choice((40, 200))
    return [
        at.fault(0, "pause", FOLLOWER, back_ms),
        at.fault(slow_ms, "slow_disk", FOLLOWER, 4 * at.session_ms, slow),
        at.fault(dies_ms, at.one_of("kill", "isolate", "pause"), LEADER, at.sessions(1.5, 3)),
    ]


def _rejoin_then_pause(at: Setting) -> list[NodeFault]:
    away_ms = at.out_of_sync_ms
    joining_ms = away_ms + at.sessions(0, 0.3)
    return [
        at.fault(0, "pause", FOLLOWER, away_ms),
        at.fault(
            joining_ms, at.one_of("pause", "kill", "power_loss"), OUTSIDER, at.sessions(0.2, 1.5)
        ),
    ]


def _epoch_twice(at: Setting) -> list[NodeFault]:
    first_ms = at.sessions(0.05, 0.3)
    again = at.one_of("kill", "power_loss", "stop")
    return [
        at.fault(0, "pause", FOLLOWER, at.sessions(0.6, 1.4)),
        at.fault(first_ms, at.one_of("kill", "stop"), LEADER, at.sessions(0.05, 0.3)),
        at.fault(first_ms + at.sessions(0.05, 0.4), again, LEADER, at.sessions(0.05, 0.5)),
    ]


def _cut_then_kill(at: Setting) -> list[NodeFault]:
    cut_ms = at.sessions(0.05, 1.2)
    return [
        at.fault(0, at.one_of("isolate", "controller_cut"), LEADER, cut_ms + at.session_ms),
        at.fault(cut_ms, at.one_of("kill", "power_loss"), "", at.sessions(0.05, 0.5)),
        at.fault(cut_ms, at.one_of("kill", "power_loss"), LEADER, at.sessions(0.05, 0.5)),
    ]


def _two_of_three(at: Setting) -> list[NodeFault]:
    return [
        at.fault(0, "power_loss", LEADER, at.sessions(0.1, 1.5)),
        at.fault(at.entropy.randrange(20), "power_loss", FOLLOWER, at.sessions(0.1, 1.5)),
    ]


def _expansion_when_fenced(at: Setting) -> list[NodeFault]:
    away_ms = at.sessions(1.1, 1.5)
    return [
        at.fault(0, at.one_of("pause", "isolate"), FOLLOWER, away_ms),
        at.fault(away_ms - 5, "clog", "", at.sessions(0.5, 1.5), 2_000),
        at.fault(away_ms + at.sessions(0, 0.3), "controller_cut", OUTSIDER, at.sessions(1, 2)),
    ]


def _zombie_leader(at: Setting) -> list[NodeFault]:
    lasts_ms = at.sessions(1.1, 2.5)
    return [
        at.fault(0, at.one_of("isolate", "controller_cut", "pause"), LEADER, lasts_ms),
        at.fault(at.sessions(0.1, 1.2), "cut_one_way", "", lasts_ms),
    ]


def _controllers_die(at: Setting) -> list[NodeFault]:
    second_ms = at.entropy.choice((30, 300, 900, 2_000))
    kinds = ("kill", "power_loss", "pause", "isolate", "crash_at_sync")
    return [
        at.fault(0, at.one_of(*kinds), CONTROLLER, at.sessions(0.1, 1.2), 3),
        at.fault(second_ms, at.one_of(*kinds), CONTROLLER, at.sessions(0.1, 1.2), 4),
    ]


def _coordinators_die(at: Setting) -> list[NodeFault]:
    aim = at.one_of(TRANSACTIONS, COORDINATOR)
    kinds = ("kill", "pause", "stop", "power_loss", "client_cut")
    return [
        at.fault(0, at.one_of(*kinds), aim, at.sessions(0.1, 1.5), 2),
        at.fault(at.sessions(0.02, 0.5), at.one_of(*kinds), aim, at.sessions(0.1, 1), 2),
        at.fault(at.sessions(0.1, 1.2), at.one_of(*kinds), LEADER, at.sessions(0.1, 1), 2),
    ]


def _roll_restart(at: Setting) -> list[NodeFault]:
    lasts_ms, every_ms = at.sessions(0.05, 0.3), at.sessions(0.3, 1)
    order = at.entropy.sample(range(1, at.cluster.nodes + 1), at.cluster.nodes)
    return [
        at._replace(node=node).fault(every_ms * number, "stop", "", lasts_ms)
        for number, node in enumerate(order)
    ]


def _left_alone(at: Setting) -> list[NodeFault]:
    back_ms = at.out_of_sync_ms
    return [
        at.fault(0, "pause", FOLLOWER, back_ms),
        at.fault(1, "pause", FOLLOWER, back_ms),
        at.fault(back_ms + at.sessions(-0.2, 0.2), "power_loss", LEADER, at.sessions(0.5, 2)),
    ]


def _power_amid_catching_up(at: Setting) -> list[NodeFault]:
    """Metadata and records that were fetched in a hurry and are not synced yet."""
    away_ms = at.sessions(1, 2)
    return [
        at.fault(0, "slow_disk", "", away_ms + 3 * at.session_ms, 200),
        at.fault(1, "pause", "", away_ms),
        at.fault(away_ms + at.sessions(0.01, 0.5), "power_loss", "", at.sessions(0.1, 0.5)),
    ]


def _crash_after_crash(at: Setting) -> list[NodeFault]:
    aim = at.one_of(LEADER, FOLLOWER, CONTROLLER)
    amounts = at.entropy.choices(range(1, 64), k=2)
    return [
        at.fault(0, at.one_of("crash_at_sync", "crash_at_change"), aim, 500, amounts[0]),
        at.fault(550, "crash_in_start", aim, at.sessions(0.02, 0.2), amounts[1]),
        at.fault(600 + at.sessions(0.1, 0.4), "kill_in_start", aim, 100, 20),
    ]


def _full_followers(at: Setting) -> list[NodeFault]:
    room = at.entropy.choice((0, 3_000, 60_000))
    return [
        at.fault(0, "disk_full", FOLLOWER, at.sessions(1, 3), room),
        at.fault(20, "disk_full", FOLLOWER, at.sessions(1, 3), room),
        at.fault(at.sessions(0.3, 1), at.one_of("kill", "stop", "pause"), LEADER, at.session_ms),
    ]


def _lost_answers(at: Setting) -> list[NodeFault]:
    """Clients are not told what was done, ask again, and meet another leader."""
    silent_ms = at.sessions(0.1, 0.8)
    return [
        at.fault(0, "client_cut", LEADER, silent_ms, 2),
        at.fault(silent_ms / 2, at.one_of("tear", "reset_all", "let_wait"), LEADER, 500),
        at.fault(silent_ms - 5, at.one_of("kill", "stop", "isolate"), LEADER, at.sessions(0.1, 1)),
    ]


def _stale_coordinator(at: Setting) -> list[NodeFault]:
    """What a coordinator tells a leader is on its way until another coordinator has said the same,
    and the producer has gone on."""
    name = f"{LATE_NAMES}0"
    partitions = at.cluster.duration_ms("transaction.state.log.num.partitions")
    at = at._replace(partition=java_hash(name) % partitions)
    begins_ms = at.entropy.uniform(1_000, 3_000)  # all is well again after the last time
    dies_ms = begins_ms + at.entropy.uniform(200, 600)
    held_ms = dies_ms - begins_ms + at.entropy.uniform(300, 1_500)
    return [
        at.fault(begins_ms, "late_markers", TRANSACTIONS, held_ms),
        at.fault(dies_ms, "kill", TRANSACTIONS, held_ms),
    ]


PLOTS: Final[Mapping[str, Plot]] = {
    "lonely_node": Plot(0, "a node finds no controllers for more than a minute", _lonely_node),
    "late_join": Plot(3, "a replica joins, as its proposal has it, and restarted", _late_join),
    "late_proposal": Plot(2, "a proposal comes after the fence that it asks for", _late_proposal),
    "rejoin_then_pause": Plot(3, "a replica stops as it joins the ISR again", _rejoin_then_pause),
    "epoch_twice": Plot(3, "two elections while a follower is paused", _epoch_twice),
    "cut_then_kill": Plot(3, "a leader is cut off with writes in flight, and dies", _cut_then_kill),
    "two_of_three": Plot(2, "leader and follower lose power together", _two_of_three),
    "expansion_when_fenced": Plot(
        2, "a replica that joins is cut off from the controller", _expansion_when_fenced
    ),
    "zombie_leader": Plot(3, "clients still reach a leader that is replaced", _zombie_leader),
    "controllers_die": Plot(3, "a controller and the next one die", _controllers_die),
    "coordinators_die": Plot(3, "a coordinator moves twice", _coordinators_die),
    "stale_coordinator": Plot(0, "a replaced coordinator is heard late", _stale_coordinator),
    "roll_restart": Plot(2, "all nodes are restarted in turn", _roll_restart),
    "slow_failover": Plot(2, "the leader dies while others lag and sync slowly", _slow_failover),
    "left_alone": Plot(2, "the leader dies alone in its ISR", _left_alone),
    "power_amid_catching_up": Plot(
        2, "power fails before what was fetched is synced", _power_amid_catching_up
    ),
    "crash_after_crash": Plot(2, "a node dies again in each recovery", _crash_after_crash),
    "full_followers": Plot(2, "no follower has room, then the leader goes", _full_followers),
    "lost_answers": Plot(2, "answers to clients are lost, then the leader goes", _lost_answers),
    **RARE_PLOTS,
    **LATE_PLOTS,
    **CUT_PLOTS,
}


AT_MOST: Final = 3
"""In a run that names none."""


def draw_plots(
    entropy: Random, cluster: ClusterPlan, begin_ms: int, end_ms: int, names: list[str]
) -> list[NodeFault]:
    """Those that are named, one after the other, and now and then at the same time. The late ones
    need the cluster for themselves."""
    faults: list[NodeFault] = []
    at_ms = begin_ms
    while names and at_ms < end_ms:
        name = entropy.choice(names)
        drawn = draw_plot(name, entropy, cluster, at_ms)
        faults += drawn
        longest_ms = max(fault.at_ms + fault.lasts_ms for fault in drawn) - at_ms
        least, most = (1.0, 1.4) if name in LATE_PLOTS else (0.2, 1.2)
        at_ms += round(entropy.uniform(least, most) * longest_ms)
    return faults


def draw_some(entropy: Random, cluster: ClusterPlan, begin_ms: int, end_ms: int) -> list[NodeFault]:
    """Half of all runs have some, at any time."""
    if cluster.brokers < 2:
        return []
    count = entropy.choice((0, 0, 0, 1, 2, AT_MOST))
    drawn = [name for name in PLOTS if name not in (*LATE_PLOTS, *CUT_PLOTS, *RARE_PLOTS)]
    names = entropy.choices(drawn, [PLOTS[name].weight for name in drawn], k=count)
    last_ms = max(begin_ms + 1, end_ms - cluster.duration_ms("broker.session.timeout.ms"))
    return [
        fault
        for name in names
        for fault in draw_plot(name, entropy, cluster, entropy.randrange(begin_ms, last_ms))
    ]


APART: Final[Mapping[str, Mapping[str, Plot]]] = {
    "late plots": LATE_PLOTS,
    "plots of cuts": CUT_PLOTS,
}
"""From streams of these names: they came later, and seeds are otherwise what they were."""


def draw_rare_plot(seed: int, cluster: ClusterPlan) -> str:
    """The name of one, in one run of six."""
    entropy = stream(seed, "rare plots")
    drawn = entropy.choice(list(RARE_PLOTS))
    return drawn if cluster.brokers > 2 and entropy.random() < 1 / 6 else ""


def draw_plots_apart(
    seed: int, cluster: ClusterPlan, begin_ms: int, end_ms: int
) -> list[NodeFault]:
    """One run in six has one of the first, another one in six one of the second."""
    faults: list[NodeFault] = []
    for name, plots in APART.items():
        entropy = stream(seed, name)
        if cluster.brokers > 1 and entropy.random() <= 1 / 6:
            (drawn,) = entropy.choices(list(plots), [plot.weight for plot in plots.values()])
            at_ms = entropy.randrange(begin_ms, max(begin_ms + 1, end_ms))
            faults += draw_plot(drawn, entropy, cluster, at_ms)
    return faults


def draw_plot(name: str, entropy: Random, cluster: ClusterPlan, at_ms: int) -> list[NodeFault]:
    node, partition = entropy.choice(cluster.broker_ids), entropy.randrange(PARTITIONS)
    return PLOTS[name].draw(Setting(entropy, at_ms, cluster, node, partition))
