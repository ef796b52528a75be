"""What a run needs of the world it drives and of the judge that watches it.

The world (nodes, disks, clients around the real state machines) and the judge (the safety
rules) are built by `tidelog.sim.world.assemble`; tests of the machinery pass a toy instead.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tidelog.sim.faults import Fault
from tidelog.sim.kernel import Kernel
from tidelog.sim.plan import Plan
from tidelog.sim.trace import Trace


@dataclass(slots=True)
class Counters:
    """What happened to the clients, counted by the world; the run itself counts faults."""

    acknowledged: int = 0
    refused: int = 0
    timed_out: int = 0
    lost: int = 0
    """Acknowledged with acks=all and gone, against the promise."""
    forfeited: int = 0
    """Gone after the promise was given up: unclean election, last intact copy destroyed."""
    marks: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    declined: Counter[str] = field(default_factory=Counter)


class WorldPort(Protocol):
    @property
    def counters(self) -> Counters: ...

    def start(self) -> None:
        """Start every node and client."""
        ...

    def apply(self, fault: Fault) -> bool:
        """Let it happen and schedule its end; False when the fault ledger declines it."""
        ...

    def heal(self, *, everything: bool) -> None:
        """Make a sufficient core work again, or all of it. Later ends of faults do nothing."""
        ...

    def stop_producing(self) -> None: ...

    def unfinished(self) -> str | None:
        """None when all that was asked for has come about; else what is still missing."""
        ...

    def describe(self) -> list[str]:
        """The state of the cluster as a table, for the report of a failure."""
        ...


class JudgePort(Protocol):
    def sweep(self) -> None:
        """Compare the whole cluster; called every few hundred steps and at phase ends."""
        ...

    def finish(self) -> None:
        """The last word, when everything has settled."""
        ...


Report = Callable[[str, str], None]
"""(rule, text): called by a rule that does not hold; ends the run."""

Assemble = Callable[[Plan, Kernel, Trace, Report], tuple[WorldPort, JudgePort]]
