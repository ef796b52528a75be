"""What is known about one log after a node has opened its disk again (rule R19)."""

from typing import NamedTuple

from tidelog.core.types import PartitionId
from tidelog.sim.byte_log import Written
from tidelog.sim.sim_log import SimBatch

POWER_LOSS = "power loss"
RESTART = "restart"


class Found(NamedTuple):
    """What a new process reads."""

    batches: list[SimBatch]
    log_start_offset: int
    log_end_offset: int


class Recovery(NamedTuple):
    """One log, before and after. `faults` is what a slow reader of its files complains about."""

    node: int
    partition: PartitionId
    cause: str
    written: Written
    found: Found
    faults: tuple[str, ...]
    repaired: bool = False
    """It was cut before a bad batch, because others have the records."""
    torn: bool = False
    """The end of the last segment was no whole batch."""
