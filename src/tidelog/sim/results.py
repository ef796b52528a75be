"""What one run came to."""

import gc
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Final, NamedTuple

ASSERTION: Final = "assertion"
EXCEPTION: Final = "exception"


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


class Caught(NamedTuple):
    """An exception that came out of a run: a finding like a broken rule."""

    rule: str
    text: str
    traceback: str

    @classmethod
    def of(cls, reason: Exception) -> "Caught":
        text = str(reason).strip() or "no message"
        rule = ASSERTION if isinstance(reason, AssertionError) else EXCEPTION
        if rule == EXCEPTION:
            text = f"{type(reason).__name__}: {text}"
        told = "".join(traceback.format_exception(reason))
        return cls(rule, f"{text} ({_place(reason)})", told)


def _place(reason: BaseException) -> str:
    """`core/replication/leader.py:120 in on_follower_fetch`: where it was raised."""
    frames = traceback.extract_tb(reason.__traceback__)
    if not frames:
        return "nowhere"
    last = frames[-1]
    parts = PurePath(last.filename).parts
    start = len(parts) - 1 - parts[::-1].index("tidelog") + 1 if "tidelog" in parts else -1
    return f"{'/'.join(parts[start:])}:{last.lineno} in {last.name}"


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
