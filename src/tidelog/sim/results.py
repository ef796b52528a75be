"""What one run came to."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Violation(NamedTuple):
    """A rule that did not hold, and the numbers that show it."""

    rule: str
    at_ms: int
    text: str


class SeedResult(NamedTuple):
    """What one run came to. Plain values: it travels between processes."""

    seed: int
    steps: int
    simulated_ms: int
    acknowledged: int
    refused: int
    timed_out: int
    lost: int
    forfeited: int
    violations: tuple[Violation, ...]
    marks: dict[str, int]
    faults: dict[str, int]
    declined: dict[str, int]
    digest: str
    traceback: str = ""
    """Of an assertion or exception, for --debug."""

    @property
    def rule(self) -> str | None:
        """The rule that was broken first, if any."""
        return self.violations[0].rule if self.violations else None


@contextmanager
def quiet_collector() -> Iterator[None]:
    """No garbage collection while a seed runs: it costs a tenth of the time and finds little.

    What was there before is frozen, so that the collection at the end looks only at what
    the seed has left behind, and memory stays that of one seed.
    """
    was_enabled = gc.isenabled()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()
        if was_enabled:
            gc.enable()
