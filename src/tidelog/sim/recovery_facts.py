"""What is known about one log after a node has opened its disk again (rule R19)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.core.types import PartitionId

if TYPE_CHECKING:
    from tidelog.sim.rules.view import RecordBatch

POWER_LOSS = "power loss"
RESTART = "restart"


class Written(NamedTuple):
    """What a log was when its process ended: what recovery may find, and what it must find."""

    batches: Sequence[RecordBatch]
    """Also those of an append that was under way."""
    owed_end: int
    starts: tuple[int, ...]
    """Log starts that are possible: several if the log start has moved."""


class Found(NamedTuple):
    """What a new process reads."""

    batches: Sequence[RecordBatch]
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
