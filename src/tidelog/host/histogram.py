"""Durations, counted by size: what Prometheus calls a histogram."""

from typing import Final

BOUNDS_S: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Histogram:
    """How many durations were not above each bound, and their sum."""

    __slots__ = ("over", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.over: list[int] = [0] * (len(BOUNDS_S) + 1)
        """By the first bound that is not below the duration; the last: above all."""

    def note(self, duration_s: float) -> None:
        self.seconds += duration_s
        place = next((i for i, bound in enumerate(BOUNDS_S) if duration_s <= bound), len(BOUNDS_S))
        self.over[place] += 1
