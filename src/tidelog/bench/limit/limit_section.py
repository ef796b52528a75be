"""The limit as a section of the comparison: measured once in a round, whoever is compared."""

from collections.abc import Mapping

from tidelog.bench.compare.system import Row, Scale
from tidelog.bench.limit.limit_row import LATENCY, LIMITS, LimitCase, figures_of

SECTION = "limit"
SHARES: Mapping[Scale, float] = {Scale.TINY: 0.002, Scale.QUICK: 0.25, Scale.FULL: 1.0}


class LimitSection:
    """Every case of `LIMITS` is a row. CompilerMissing where none can be measured."""

    __slots__ = ("_scale", "rows")

    name = SECTION

    def __init__(self, scale: Scale, keys: frozenset[str] | None = None) -> None:
        self._scale = scale
        self.rows = tuple(
            Row(key, f"limit: {case.title}", case.unit, case.more_is_better, SECTION)
            for key, case in LIMITS.items()
            if keys is None or key in keys
        )

    def only(self, keys: frozenset[str]) -> "LimitSection":
        return LimitSection(self._scale, keys)

    def measure_machine(self, round_number: int) -> Mapping[str, float]:
        """One run for all quantiles of the latency: they are about the same records."""
        runs: dict[LimitCase, Mapping[str, float]] = {}
        values = {}
        for row in self.rows:
            case = LIMITS[row.key]
            same = case._replace(title="", quantile="") if case.mode == LATENCY else case
            if same not in runs:
                runs[same] = figures_of(case, share=SHARES[self._scale])
            values[row.key] = case.value_in(runs[same])
        return values
