"""The kinds of faults that a whole-node run can have. A fault is plain data.

It may be aimed at a role ("whoever leads this partition then"). That is resolved when it happens,
and `node` is hit when nobody has the role.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

ALL_NODES: Final = 0
"""As the target of a fault."""

LEADER, FOLLOWER, OUTSIDER = "leader", "follower", "outsider"
CONTROLLER, COORDINATOR, TRANSACTIONS = "controller", "coordinator", "transactions"
AIMS: Final = (LEADER, FOLLOWER, OUTSIDER, CONTROLLER, COORDINATOR, TRANSACTIONS)
"""The leader, a follower in the ISR, or a replica outside the ISR of the partition; the active
controller; the leader of a partition of __consumer_offsets or __transaction_state."""

CRASH_IN_START: Final = "crash_in_start"
"""Its amount says whether the process is killed or power fails."""

PARTITIONS: Final = 1 << 16
"""A fault names a partition by a number below this; the partitions that there are take turns."""


class NodeFault(NamedTuple):
    """Something is broken at a time, for a while. Plain values only: it travels in files."""

    at_ms: int
    kind: str
    node: int
    other: int
    """A second node, for faults between two."""
    lasts_ms: int
    aim: str = ""
    """One of AIMS, or nothing: `node` as it stands."""
    partition: int = 0
    amount: int = 0
    """How much or which; `KINDS` says what it means."""

    @property
    def loses_unsynced(self) -> bool:
        """What was written and not synced may be gone after it."""
        if self.kind == CRASH_IN_START:
            return self.amount % 2 == 1
        return self.kind in LOSE_UNSYNCED

    def __str__(self) -> str:
        where = "all nodes" if self.node == ALL_NODES else f"node {self.node}"
        if self.aim:
            where = f"the {self.aim} or {where}"
        other = f" and {self.other}" if self.kind in BETWEEN_TWO else ""
        amount = f" ({self.amount})" if KINDS[self.kind].amounts else ""
        return f"{self.kind.replace('_', ' ')}{amount} {where}{other}, for {self.lasts_ms} ms"


class Kind(NamedTuple):
    weight: int
    """How often, beside the others that are switched on."""
    meaning: str
    amounts: tuple[int, ...] = ()
    """What `amount` is drawn from."""


_MANY: Final = tuple(range(1, 64))

KINDS: Final[Mapping[str, Kind]] = {
    # Processes and machines.
    "kill": Kind(8, "SIGKILL; it starts again in the end"),
    "power_loss": Kind(6, "the machine is gone, and what was not synced"),
    "stop": Kind(5, "SIGTERM; it starts again in the end"),
    "pause": Kind(6, "SIGSTOP until the end"),
    "crash_at_sync": Kind(4, "power fails at a sync: even numbers before it", _MANY),
    "crash_at_change": Kind(4, "the process dies before a change of its disk", _MANY),
    "crash_at_cut": Kind(4, "power fails amid a truncation, before it cuts a file", (0, 0, 1, 2)),
    CRASH_IN_START: Kind(
        4, "killed (odd: power fails), and again amid its recovery, at a change of disk", _MANY
    ),
    "kill_in_start": Kind(3, "killed, and again so many ms after it starts", (1, 5, 20, 100, 400)),
    "crash_in_stop": Kind(3, "power fails so many ms after a SIGTERM", (0, 1, 5, 20, 100, 500)),
    "stall_worker": Kind(4, "a thread hangs: of which pool", _MANY),
    "clock_jump": Kind(2, "the wall clock, ms, and back", (-3_600_000, -5_000, 5_000, 3_600_000)),
    "clock_rate": Kind(2, "millionths of true time", (900_000, 990_000, 1_010_000, 1_100_000)),
    # Disks.
    "slow_disk": Kind(5, "work beside the loop takes so many times longer", (10, 40, 200)),
    "disk_full": Kind(3, "so many bytes of room are left", (0, 40, 3_000, 40_000, 60_000)),
    "sync_error": Kind(2, "syncs fail, after so many good ones", (0, 1, 3, 10)),
    "write_error": Kind(2, "writes fail, after so many good ones", (0, 1, 10, 100)),
    "read_error": Kind(2, "reads fail, after so many good ones", (0, 1, 10)),
    "bit_flip": Kind(3, "a bit of a synced batch: of which", tuple(range(1_000))),
    "segment_loss": Kind(2, "the first file of a log vanishes, and the process dies"),
    "wipe": Kind(2, "it comes back with empty log directories"),
    # Network.
    "cut": Kind(6, "between two nodes"),
    "cut_one_way": Kind(5, "from one node to another"),
    "isolate": Kind(6, "a node from all others; odd: from clients, too", (0, 0, 1)),
    "split": Kind(4, "two sides; each bit a node", tuple(range(1, 31))),
    "client_cut": Kind(
        3, "a node from all clients; 1: their way there, 2: back, 3: both", (1, 2, 3)
    ),
    "controller_cut": Kind(4, "a node from the active controller"),
    "flap": Kind(3, "a cut between two nodes that comes and goes every so many ms", (20, 150, 900)),
    "clog": Kind(4, "from one node to another up to so many times slower", (20, 200, 2_000)),
    "slow_network": Kind(4, "all that a node sends and gets takes 50 times longer"),
    "reset": Kind(4, "the connections between two nodes break"),
    "reset_all": Kind(3, "all connections of a node break"),
    "tear": Kind(4, "half of the next write on each connection of a node arrives, then a reset"),
    "let_wait": Kind(3, "connections accepted, not served; odd: dropped in the end", (0, 1)),
    "narrow_window": Kind(3, "a node takes so many bytes at once", (0, 100, 5_000)),
    "pause_client": Kind(3, "a client neither reads nor writes: which", _MANY),
    "late_proposals": Kind(
        4,
        "ISR proposals of a node arrive in the end, if it connected in the first percents of it",
        (1, 50, 100),
    ),
    "late_metadata": Kind(4, "what the quorum tells a node arrives in the end"),
    "late_records": Kind(4, "what leaders send to a follower arrives in the end"),
    "late_markers": Kind(4, "what a coordinator of transactions decides arrives in the end"),
    "slow_handshake": Kind(
        4, "whoever connects to a node is answered so many ms later", (50, 200, 450)
    ),
    # Operators.
    "elect": Kind(4, "preferred leaders are elected"),
    "unclean_election": Kind(4, "anybody is elected where a loss is allowed and nobody leads"),
}

BETWEEN_TWO: Final = ("cut", "cut_one_way", "flap", "clog", "reset")
AIMED: Final = (
    "kill",
    "power_loss",
    "stop",
    "pause",
    "crash_at_sync",
    "crash_at_change",
    "crash_at_cut",
    "crash_in_start",
    "kill_in_start",
    "crash_in_stop",
    "stall_worker",
    "slow_disk",
    "disk_full",
    "sync_error",
    "write_error",
    "read_error",
    "bit_flip",
    "segment_loss",
    "wipe",
    "isolate",
    "client_cut",
    "controller_cut",
    "reset_all",
    "tear",
    "let_wait",
    "narrow_window",
    "late_proposals",
    "late_metadata",
    "late_records",
    "late_markers",
    "slow_handshake",
)
DRAWN_APART: Final = (
    *("late_proposals", "late_metadata", "late_records", "late_markers", "slow_handshake"),
    "unclean_election",
    "crash_at_cut",
)
"""From streams of their own: they came later, and seeds are otherwise what they were."""
LOSE_UNSYNCED: Final = (
    "power_loss",
    "crash_at_sync",
    "crash_at_cut",
    "crash_in_stop",
    "sync_error",
    "write_error",
    "read_error",
)
"""Whatever their amount is; `NodeFault.loses_unsynced` knows about all kinds."""
ALL_AT_ONCE: Final = ("kill", "power_loss", "pause")
"""They happen to all nodes, now and then."""
