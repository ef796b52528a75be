"""The limit rows: the same bytes on the same way, moved by a program that does nothing else."""

from collections.abc import Mapping
from functools import partial

from tidelog.bench.compare.findings import Findings
from tidelog.bench.compare.system import Row, Scale, SystemFailed, SystemMissing
from tidelog.bench.limit.limit_row import LIMITS, measure
from tidelog.bench.limit.program import CompilerMissing, LimitFailed, compiled

SECTION = "limit"
SHARES: Mapping[Scale, float] = {Scale.TINY: 0.01, Scale.QUICK: 0.25, Scale.FULL: 1.0}


def check_program() -> None:
    """SystemMissing if the program cannot be had on this machine."""
    try:
        compiled()
    except (CompilerMissing, LimitFailed) as reason:
        raise SystemMissing(str(reason)) from None


class Limits:
    """Rows that others are set against; they have no ratio of their own."""

    __slots__ = ("_scale", "rows")

    name = SECTION

    def __init__(self, scale: Scale, keys: frozenset[str] | None = None) -> None:
        self._scale = scale
        self.rows = tuple(
            Row(key, f"limit: {case.title}", case.unit, case.more_is_better, SECTION)
            for key, case in LIMITS.items()
            if keys is None or key in keys
        )

    def only(self, keys: frozenset[str]) -> "Limits":
        return Limits(self._scale, keys)

    def measure_machine(self, round_number: int) -> Mapping[str, float]:
        found = Findings()
        for row in self.rows:
            found.take(row.key, partial(self._value, row.key))
        return found.values_or_raise()

    def _value(self, key: str) -> float:
        try:
            return measure(LIMITS[key], share=SHARES[self._scale])
        except LimitFailed as reason:
            raise SystemFailed(str(reason)) from None
