"""Curves as pictures, both axes in powers of ten: what is linear is a straight line."""

from pathlib import Path
from typing import Any

from tidelog.bench.growth.curves import Curve, Measure, price_of

INCHES = (3.4, 3.2)
BLUE, ORANGE = "#1d6bc0", "#b35900"
LEAST = 1e-9
"""Nothing at all has no place on an axis of powers."""


def draw(curve: Curve, path: Path) -> None:
    """One picture: a panel per measure with its value, and its price per unit if it has one."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import; no window is asked for

    panels = len(curve.measures)
    figure = Figure(figsize=(INCHES[0] * panels, INCHES[1]), layout="constrained")
    every_axes = figure.subplots(1, panels, squeeze=False)[0]
    for axes, measure in zip(every_axes, curve.measures, strict=True):
        _panel(axes, curve, measure)
    figure.suptitle(curve.title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _panel(axes: Any, curve: Curve, measure: Measure) -> None:
    sizes = [point.size for point in curve.points]
    values = [max(LEAST, point.values[measure.key]) for point in curve.points]
    axes.plot(sizes, values, "o-", color=BLUE, label=measure.unit)
    if measure.per_unit is not None:
        prices = [max(LEAST, price_of(measure, point)) for point in curve.points]
        axes.plot(sizes, prices, "s--", color=ORANGE, label=measure.per_unit)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(measure.title, fontsize=10)
    axes.set_xlabel(curve.size_title)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize=8)
