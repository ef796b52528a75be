"""Plots about former leaders that cut off what nobody else has, and are disturbed by it."""

from collections.abc import Mapping
from typing import Final

from tidelog.sim.nodes.fault_kinds import LEADER, TRANSACTIONS, NodeFault
from tidelog.sim.nodes.plot_setting import Plot, Setting


def _crash_amid_cut(at: Setting) -> list[NodeFault]:
    """The trap is set while it still leads: nobody knows afterwards who did."""
    alone_ms = at.sessions(1.05, 1.8)
    trapped_ms = alone_ms + 2 * at.session_ms
    return [
        at.fault(0, "crash_at_cut", LEADER, trapped_ms, at.entropy.choice((0, 0, 0, 1))),
        at.fault(1, "isolate", LEADER, alone_ms),
    ]


def _slow_cut(at: Setting) -> list[NodeFault]:
    """Writers still reach a leader with a slow disk, until it hears of its successor: its log is
    cut while a sync is under way."""
    alone_ms = at.sessions(1.02, 1.2)
    return [
        at.fault(0, "slow_disk", LEADER, alone_ms + 2 * at.session_ms, 200),
        at.fault(1, "isolate", LEADER, alone_ms),
    ]


def _slow_coordinator(at: Setting) -> list[NodeFault]:
    """Transactions end while leaders ask whether they go on."""
    slow_ms = at.sessions(1, 3)
    return [
        at.fault(0, "slow_network", TRANSACTIONS, slow_ms),
        at.fault(slow_ms / 2, "slow_disk", TRANSACTIONS, slow_ms, 40),
    ]


CUT_PLOTS: Final[Mapping[str, Plot]] = {
    "crash_amid_cut": Plot(3, "a former leader loses its power as it truncates", _crash_amid_cut),
    "slow_cut": Plot(3, "a former leader truncates what it is about to sync", _slow_cut),
    "slow_coordinator": Plot(2, "a coordinator is slow to say what goes on", _slow_coordinator),
}
