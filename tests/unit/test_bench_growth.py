"""Growth: prices per unit, what rises, tables, and curves that end early."""

import struct

import pytest

from tidelog.bench.compare.system import Scale
from tidelog.bench.growth.connections import Answer, metadata_request
from tidelog.bench.growth.curves import (
    Curve,
    Measure,
    Point,
    as_document,
    figure,
    line_of,
    marginal_of,
    rising,
    table_rows,
)
from tidelog.bench.growth.plots import draw
from tidelog.bench.growth.run import Plan, measure, plans

RSS = Measure("rss_mb", "RSS", "MB", "kB each", 1000)
LATENCY = Measure("latency_ms", "p50", "ms")
SPEED = Measure("per_s", "requests", "per s", is_cost=False)


def curve(*points: tuple[int, dict[str, float]], measures: tuple[Measure, ...] = (RSS,)) -> Curve:
    found = [Point(size, values) for size, values in points]
    return Curve("partitions", "idle partitions", "partitions", measures, found)


# -- prices


def test_a_fixed_cost_is_shared_and_what_each_adds_is_told_apart():
    grown = curve((10, {"rss_mb": 101.0}), (100, {"rss_mb": 110.0}))
    line = line_of(RSS, grown.points, 1)
    assert line.price == pytest.approx(1100)
    assert line.ratio == pytest.approx(1100 / 10_100)
    assert marginal_of(RSS, *grown.points) == pytest.approx(100)


def test_a_cost_that_grows_faster_than_its_size_rises():
    grown = curve((100, {"rss_mb": 1.0}), (1000, {"rss_mb": 10.0}), (5000, {"rss_mb": 100.0}))
    assert list(rising(grown)) == ["RSS: 2.00 × from 1,000 to 5,000"]


def test_a_value_that_should_not_change_rises_when_it_does():
    points = [(1, {"latency_ms": 2.0}), (10, {"latency_ms": 2.1}), (100, {"latency_ms": 4.2})]
    assert list(rising(curve(*points, measures=(LATENCY,)))) == ["p50: 2.00 × from 10 to 100"]


def test_what_is_better_when_more_may_rise():
    points = [(1, {"per_s": 1.0}), (10, {"per_s": 5.0})]
    assert not list(rising(curve(*points, measures=(SPEED,))))


def test_nothing_at_all_has_no_ratio():
    grown = curve((1, {"rss_mb": 0.0}), (10, {"rss_mb": 3.0}))
    assert line_of(RSS, grown.points, 1).ratio is None
    assert not list(rising(grown))


# -- what people and programs get


def test_the_table_has_a_row_for_every_measure_and_size():
    values = [
        (10, {"rss_mb": 101.0, "latency_ms": 2.0}),
        (1000, {"rss_mb": 200.0, "latency_ms": 2.0}),
    ]
    assert table_rows(curve(*values, measures=(RSS, LATENCY))) == [
        ["RSS", "10", "101 MB", "10,100 kB each", "", ""],
        ["", "1,000", "200 MB", "200 kB each", "100", "0.02"],
        ["p50", "10", "2.00 ms", "", "", ""],
        ["", "1,000", "2.00 ms", "", "", "1.00"],
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (12345.6, "12,346"), (12.34, "12.3"), (1.234, "1.23"), (-0.5, "-0.500")],
)
def test_figures_have_the_digits_that_count(value, shown):
    assert figure(value) == shown


def test_the_document_has_every_value_and_its_price():
    document = as_document(curve((10, {"rss_mb": 1.0}), (20, {"rss_mb": 4.0})))
    assert document["points"][1] == {
        "size": 20,
        "values": {"rss_mb": 4.0},
        "per_unit": {"rss_mb": 200.0},
        "ratio_to_before": {"rss_mb": 2.0},
    }
    assert document["rising"] == ["RSS: 2.00 × from 10 to 20"]


def test_a_picture_is_drawn_even_of_nothing(tmp_path):
    path = tmp_path / "new" / "growth.png"
    draw(curve((1, {"rss_mb": 0.0}), (10, {"rss_mb": 2.0})), path)
    assert path.read_bytes().startswith(b"\x89PNG")


# -- running


class NoSystem:
    name = "none"

    def start(self, nodes=3, settings=None):
        raise AssertionError("nobody asked for it")

    def facts(self):
        return {}


def doubled(system, size):
    if size > 100:
        raise OSError("no space left")
    return Point(size, {"rss_mb": 2.0 * size})


def planned(*sizes, within_s=60.0):
    return Plan("p", "title", "partitions", (RSS,), sizes, doubled, within_s)


def test_a_size_that_fails_ends_its_curve_and_is_told_of():
    told = []
    found = measure(planned(1, 10, 1000, 2000), NoSystem(), lambda name, point: told.append(point))
    assert [point.size for point in found.points] == [1, 10]
    assert told == found.points
    assert found.remark == "1,000 failed: OSError: no space left"


def test_no_size_is_begun_after_the_time_of_a_curve():
    found = measure(planned(1, 10, within_s=0.0), NoSystem(), lambda name, point: None)
    assert not found.points
    assert found.remark.startswith("1 and more are missing")


@pytest.mark.parametrize("scale", Scale)
def test_sizes_grow(scale):
    for plan in plans(scale):
        assert list(plan.sizes) == sorted(set(plan.sizes))


# -- connections


def test_a_request_for_metadata_is_a_whole_frame():
    frame = metadata_request("orders")
    assert struct.unpack_from(">ihhi", frame) == (len(frame) - 4, 3, 1, 1)
    assert frame.endswith(b"\x00\x00\x00\x01\x00\x06orders")


def test_an_answer_is_whole_with_its_last_byte_however_it_comes():
    frame = struct.pack(">i", 6) + b"abcdef"
    answer = Answer()
    assert [answer.take(frame[at : at + 1]) for at in range(10)] == [False] * 9 + [True]
    assert answer.take(frame)
    assert not answer.take(frame[:3])
    assert not answer.take(frame[3:9])
    assert answer.take(frame[9:])
