"""Measures the curves one after the other, each within a time of its own."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from tidelog.bench.compare.system import Scale, System
from tidelog.bench.growth import connections, log_size, partitions, record_size
from tidelog.bench.growth.curves import Curve, Measure, Point

MeasureSize = Callable[[System, int], Point]
OnPoint = Callable[[str, Point], None]


class Plan(NamedTuple):
    """One curve, before it is measured."""

    name: str
    title: str
    size_title: str
    measures: tuple[Measure, ...]
    sizes: Sequence[int]
    measure: MeasureSize
    within_s: float
    """No size is begun after it."""


def plans(scale: Scale) -> tuple[Plan, ...]:
    """What is measured at a scale; the tiny one only shows that all of it works."""
    within_s = WITHIN_S[scale]
    sizes = SIZES[scale]
    amount = AMOUNTS[scale]
    makers: Mapping[str, tuple[str, str, tuple[Measure, ...], MeasureSize]] = {
        "partitions": (
            partitions.TITLE,
            partitions.SIZE_TITLE,
            partitions.MEASURES,
            partial(partitions.measure, idle_s=amount.idle_s, records=amount.records),
        ),
        "connections": (
            connections.TITLE,
            connections.SIZE_TITLE,
            connections.MEASURES,
            partial(connections.measure, idle_s=amount.idle_s, busy_s=amount.busy_s),
        ),
        "record-size": (
            record_size.TITLE,
            record_size.SIZE_TITLE,
            record_size.MEASURES,
            partial(record_size.measure, total_bytes=amount.total_bytes),
        ),
        "log-size": (
            log_size.TITLE,
            log_size.SIZE_TITLE,
            log_size.MEASURES,
            partial(log_size.measure, records=amount.records),
        ),
    }
    return tuple(
        Plan(name, title, size_title, measures, sizes[name], measure, within_s)
        for name, (title, size_title, measures, measure) in makers.items()
    )


class Amount(NamedTuple):
    idle_s: float
    busy_s: float
    records: int
    """For one latency."""
    total_bytes: int


AMOUNTS: Mapping[Scale, Amount] = {
    Scale.TINY: Amount(0.2, 0.2, 5, 100_000),
    Scale.QUICK: Amount(4.0, 2.0, 200, 100_000_000),
    Scale.FULL: Amount(15.0, 5.0, 500, 400_000_000),
}
WITHIN_S: Mapping[Scale, float] = {Scale.TINY: 60.0, Scale.QUICK: 60.0, Scale.FULL: 300.0}
SIZES: Mapping[Scale, Mapping[str, Sequence[int]]] = {
    Scale.TINY: {
        "partitions": (1, 5),
        "connections": (1, 5),
        "record-size": (10, 1000),
        "log-size": (1, 2),
    },
    Scale.QUICK: {
        "partitions": (1, 10, 100, 1_000),
        "connections": (1, 10, 100, 1_000),
        "record-size": (10, 100, 1_000, 10_000, 100_000, 1_048_576),
        "log-size": (10, 100, 400),
    },
    Scale.FULL: {
        "partitions": (1, 10, 100, 1_000, 5_000),
        "connections": (1, 10, 100, 1_000, 2_000),
        "record-size": (10, 100, 1_000, 10_000, 100_000, 1_048_576),
        "log-size": (10, 100, 500, 1_000, 2_000),
    },
}


def measure(plan: Plan, system: System, on_point: OnPoint) -> Curve:
    """As many sizes as its time allows. A size that fails ends the curve, and is told of."""
    begin = time.monotonic()
    points: list[Point] = []
    remark = ""
    for size in plan.sizes:
        passed_s = time.monotonic() - begin
        if passed_s >= plan.within_s:
            remark = f"{size:,} and more are missing: {passed_s:.0f} s had passed"
            break
        try:
            point = plan.measure(system, size)
        except Exception as failure:  # the other curves are worth as much without this one
            remark = f"{size:,} failed: {type(failure).__name__}: {failure}"
            break
        points.append(point)
        on_point(plan.name, point)
    return Curve(plan.name, plan.title, plan.size_title, plan.measures, points, remark)
