"""What a section has found so far, when one row must not take the others along."""

from collections.abc import Callable, Mapping

from tidelog.bench.compare.system import PartlyFailed, SystemFailed


class Findings:
    """Values, and the reasons why others are missing."""

    __slots__ = ("_reasons", "_values")

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._reasons: dict[str, str] = {}

    def take(self, key: str, measured: Callable[[], float]) -> None:
        """One row."""
        self.take_all((key,), lambda: {key: measured()})

    def take_all(self, keys: tuple[str, ...], measured: Callable[[], Mapping[str, float]]) -> None:
        """Rows that are measured at once."""
        try:
            self._values.update(measured())
        except SystemFailed as reason:
            self._reasons.update(dict.fromkeys(keys, str(reason)))

    def values_or_raise(self) -> Mapping[str, float]:
        """PartlyFailed if a row is missing."""
        if self._reasons:
            raise PartlyFailed(self._values, self._reasons)
        return self._values
