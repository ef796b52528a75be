"""What happens in a run beside the events of `core`: phases, faults, nodes, verdicts.

Like `core.events` these are facts as NamedTuples of plain values; the trace keeps them and
the story renders them.
"""

from typing import NamedTuple

from tidelog.sim.faults import Fault


class PhaseBegan(NamedTuple):
    phase: str


class FaultInjected(NamedTuple):
    fault: Fault


class FaultDeclined(NamedTuple):
    """The fault ledger said that nothing could be promised after it."""

    fault: Fault


class FaultEnded(NamedTuple):
    kind: str
    nodes: tuple[int, ...]


class NodeStopped(NamedTuple):
    node: int
    kind: str
    """crash, power_loss, clean_stop, wipe …"""
    lost_records: int


class NodeStarted(NamedTuple):
    node: int


class MarkReached(NamedTuple):
    """A named rare state, reached for the first time in this run."""

    name: str


class RuleBroken(NamedTuple):
    rule: str
    text: str


class Note(NamedTuple):
    """Anything else worth a line in the story."""

    text: str


Happening = (
    PhaseBegan
    | FaultInjected
    | FaultDeclined
    | FaultEnded
    | NodeStopped
    | NodeStarted
    | MarkReached
    | RuleBroken
    | Note
)
