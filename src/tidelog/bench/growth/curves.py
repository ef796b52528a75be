"""Curves: sizes, what was measured at each, the cost per unit and how it changes.

A cost is in order when its price per unit stays or falls from one size to the next. A fixed cost
that is shared by more units makes it fall; what makes it rise has to be explained.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

RISES = 1.25
"""Below it, a higher price per unit may be chance."""


class Measure(NamedTuple):
    """One thing that is measured at every size."""

    key: str
    title: str
    unit: str
    per_unit: str | None = None
    """What the value divided by the size is given in; None: the value itself should not change."""
    per_unit_factor: float = 1.0
    """From the unit of the value to that of the price: 1,000,000 from seconds to µs."""
    is_cost: bool = True
    """False: more is better, and it may rise."""


class Point(NamedTuple):
    size: int
    values: Mapping[str, float]


class Curve(NamedTuple):
    name: str
    title: str
    size_title: str
    """What one of the units is: partition, connection, byte."""
    measures: tuple[Measure, ...]
    points: Sequence[Point]
    remark: str = ""
    """Why some size is missing, if one is."""


class Line(NamedTuple):
    """What one measure says at one size."""

    value: float
    price: float
    """Per unit, or the value itself if that should not change."""
    ratio: float | None
    """Of the price to that of the size before; None for the first."""


def line_of(measure: Measure, points: Sequence[Point], place: int) -> Line:
    """At the point in this place; what comes before it is compared with."""
    value = points[place].values[measure.key]
    price = price_of(measure, points[place])
    if place == 0:
        return Line(value, price, None)
    before = price_of(measure, points[place - 1])
    return Line(value, price, price / before if before > 0 else None)


def price_of(measure: Measure, point: Point) -> float:
    value = point.values[measure.key]
    if measure.per_unit is None:
        return value
    return value * measure.per_unit_factor / point.size


def marginal_of(measure: Measure, before: Point, after: Point) -> float:
    """What each unit cost that came after the size before: without the fixed part."""
    added = after.values[measure.key] - before.values[measure.key]
    return added * measure.per_unit_factor / (after.size - before.size)


def rising(curve: Curve) -> Iterator[str]:
    """Every cost whose price per unit is higher than at the size before, in words."""
    for measure in curve.measures:
        if not measure.is_cost:
            continue
        for place, (before, after) in enumerate(pairwise(curve.points), 1):
            ratio = line_of(measure, curve.points, place).ratio
            if ratio is not None and ratio > RISES:
                yield f"{measure.title}: {ratio:.2f} × from {before.size:,} to {after.size:,}"


HEADERS = ("", "size", "value", "per unit", "each more", "× before")


def table_rows(curve: Curve) -> list[list[str]]:
    """For every measure and size: the value, its price per unit, the price of those that were
    added since the row before, and the ratio of the price to that of the row before."""
    rows = []
    for measure in curve.measures:
        for place, point in enumerate(curve.points):
            line = line_of(measure, curve.points, place)
            per_unit = each_more = ""
            if measure.per_unit is not None:
                per_unit = f"{figure(line.price)} {measure.per_unit}"
                if place:
                    before = curve.points[place - 1]
                    each_more = figure(marginal_of(measure, before, point))
            name = measure.title if place == 0 else ""
            value = f"{figure(line.value)} {measure.unit}"
            ratio = "" if line.ratio is None else f"{line.ratio:.2f}"
            rows.append([name, f"{point.size:,}", value, per_unit, each_more, ratio])
    return rows


def figure(value: float) -> str:
    """Three figures that count, never an exponent."""
    magnitude = abs(value)
    if magnitude >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if magnitude >= 10 else f"{value:.2f}" if magnitude >= 1 else small(value)


def small(value: float) -> str:
    return f"{value:.3f}" if abs(value) >= 0.01 else f"{value:.5f}"


def as_document(curve: Curve) -> dict[str, Any]:
    """Everything that was measured, and what the table makes of it."""
    return {
        "name": curve.name,
        "title": curve.title,
        "size": curve.size_title,
        "remark": curve.remark,
        "measures": [measure._asdict() for measure in curve.measures],
        "points": [_point_document(curve, place) for place in range(len(curve.points))],
        "rising": list(rising(curve)),
    }


def _point_document(curve: Curve, place: int) -> dict[str, Any]:
    point = curve.points[place]
    return {
        "size": point.size,
        "values": dict(point.values),
        "per_unit": {
            measure.key: line_of(measure, curve.points, place).price for measure in curve.measures
        },
        "ratio_to_before": {
            measure.key: line_of(measure, curve.points, place).ratio for measure in curve.measures
        },
    }
