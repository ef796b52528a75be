"""Plots about what comes late: proposals, metadata, records, refusals, the news of a successor.

Each is drawn around the one moment in which a rule of the protocol makes the difference.
"""

from collections.abc import Mapping
from typing import Final

from tidelog.sim.nodes.fault_kinds import CONTROLLER, FOLLOWER, LEADER, OUTSIDER, NodeFault
from tidelog.sim.nodes.plot_setting import Plot, Setting


def _deaf_leader(at: Setting) -> list[NodeFault]:
    """A replica is back, and its leader proposes it. Before that is decided another replica dies,
    which the leader does not hear: it has proposed on top of an older ISR."""
    back_ms = at.out_of_sync_ms
    held_ms = at.entropy.uniform(150, 500)
    dies_ms = back_ms + at.entropy.uniform(0.3, 0.7) * held_ms
    return [
        at.fault(0, "pause", FOLLOWER, back_ms),
        at.fault(back_ms - 5, "late_proposals", LEADER, held_ms, 100),
        at.fault(dies_ms - 10, "late_metadata", LEADER, held_ms + at.entropy.uniform(300, 2_000)),
        at.fault(dies_ms, "kill", FOLLOWER, at.entropy.uniform(1.2, 2) * at.lag_ms),
    ]


def _refused_join(at: Setting) -> list[NodeFault]:
    """The proposal that names a replica arrives when that is fenced; then it is back, as it was."""
    back_ms = at.out_of_sync_ms
    cut_ms = at.sessions(0.02, 0.2)
    fenced_ms = cut_ms + 1.15 * at.session_ms
    unfenced_ms = fenced_ms + at.proposal_timeout_ms + at.sessions(0.2, 0.4)
    held_ms = unfenced_ms + at.sessions(0, 0.2)
    return [
        at.fault(0, "pause", FOLLOWER, back_ms),
        at.fault(back_ms - 5, "late_proposals", LEADER, held_ms, round(100 * fenced_ms / held_ms)),
        at.fault(back_ms + cut_ms, "controller_cut", OUTSIDER, unfenced_ms - cut_ms),
    ]


def _blind_successor(at: Setting) -> list[NodeFault]:
    """The ISR shrinks to two, which commits much at once. The leader tells nobody and dies; its
    successor cannot know what is committed, and whoever asks it has less than that."""
    behind_ms = at.entropy.uniform(0.3, 0.7) * min(at.lag_ms, 1_000)
    dies_ms = behind_ms + at.entropy.uniform(10, 150)
    restart_ms = at.entropy.uniform(20, 200)
    return [
        at.fault(
            0, "late_records", FOLLOWER, dies_ms + restart_ms + at.entropy.uniform(300, 1_500)
        ),
        at.fault(behind_ms, "kill", FOLLOWER, restart_ms),
        at.fault(behind_ms + 1, "late_records", FOLLOWER, dies_ms + 200 - behind_ms),
        at.fault(dies_ms, "kill", LEADER, at.sessions(1.5, 2.5)),
    ]


def _leaders_by_turns(at: Setting) -> list[NodeFault]:
    """Two leaders write what nobody else has, at the same offsets, and the first leads again
    (KIP-279)."""
    cut_ms = at.sessions(0.02, 0.2)
    dies_ms = at.sessions(1.3, 1.6)
    return [
        at.fault(0, "pause", FOLLOWER, at.sessions(2.5, 3)),
        at.fault(cut_ms, "isolate", LEADER, dies_ms - cut_ms + at.sessions(0.05, 0.2)),
        at.fault(dies_ms, "kill", LEADER, at.sessions(0.4, 0.9)),
    ]


def _lonely_controller(at: Setting) -> list[NodeFault]:
    """Clients still reach a controller that the other nodes have left for another one."""
    alone_ms = at.entropy.choice((1.3, 2, 5, 6)) * at.entropy.uniform(1, 1.3) * at.quorum_ms
    alone_ms = min(alone_ms, 18_000)
    return [
        at.fault(0, "isolate", CONTROLLER, alone_ms),
        at.fault(alone_ms + 500, at.one_of("isolate", "pause"), CONTROLLER, 1.5 * at.quorum_ms),
    ]


def _late_refusal(at: Setting) -> list[NodeFault]:
    """A process is back from a restart before anybody hears that nobody listened meanwhile."""
    faults = []
    for number in range(3):
        begin_ms, other = number * 1_500, at._replace(node=at.entropy.choice(at.cluster.broker_ids))
        faults += [
            other.fault(begin_ms, "slow_handshake", "", 1_000, at.entropy.choice((350, 450))),
            other.fault(begin_ms + 10, at.one_of("kill", "kill", "stop"), "", 20),
        ]
    return faults


def _gamble(at: Setting) -> list[NodeFault]:
    """Every leader is left alone in its ISR, and one of them dies. Whoever is alive may not lead,
    unless somebody has allowed it."""
    alone_ms = at.entropy.uniform(1.7, 2.2) * at.lag_ms
    dies_ms = alone_ms - at.entropy.uniform(20, 200)
    asked_ms = [dies_ms + 100, dies_ms + 1.2 * at.session_ms, dies_ms + 1.7 * at.session_ms]
    return [
        *(
            at._replace(node=node).fault(0, "late_records", "", alone_ms)
            for node in at.cluster.broker_ids
        ),
        at.fault(dies_ms, at.one_of("kill", "power_loss", "isolate"), LEADER, at.sessions(1.5, 2)),
        *(at.fault(after_ms, "unclean_election", "", 1) for after_ms in asked_ms),
    ]


def _proposal_of_the_dead(at: Setting) -> list[NodeFault]:
    """The ISR proposal of a leader arrives when it is back, as another incarnation."""
    back_ms, held_ms = at.out_of_sync_ms, 1.5 * at.session_ms + 2_000
    dies_ms = at.entropy.uniform(100, 600)
    proposed = round(100 * dies_ms / held_ms)
    return [
        at.fault(0, "pause", FOLLOWER, back_ms),
        at.fault(back_ms - 5, "late_proposals", LEADER, held_ms, proposed),
        at.fault(back_ms + dies_ms, "power_loss", LEADER, 50),
    ]


RARE_PLOTS: Final[Mapping[str, Plot]] = {
    "proposal_of_the_dead": Plot(1, "a proposal of another incarnation", _proposal_of_the_dead),
    "late_refusal": Plot(1, "a process is back before its end is known", _late_refusal),
}
"""Drawn apart from the others, and beside them."""

LATE_PLOTS: Final[Mapping[str, Plot]] = {
    "deaf_leader": Plot(3, "a leader proposes on top of an ISR that is gone", _deaf_leader),
    "refused_join": Plot(2, "a replica is fenced as it joins, and comes back", _refused_join),
    "blind_successor": Plot(3, "a leader commits much, tells nobody, and dies", _blind_successor),
    "leaders_by_turns": Plot(3, "two leaders write in each other's absence", _leaders_by_turns),
    "lonely_controller": Plot(2, "clients ask a controller that was replaced", _lonely_controller),
    "gamble": Plot(0, "leaders die alone where a loss is allowed", _gamble),
    "late_refusal": Plot(2, "a process is back before its end is known", _late_refusal),
}
