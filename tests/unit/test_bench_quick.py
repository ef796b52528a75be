"""Tables of the quick benchmark: medians, ratios paired by round, and an earlier run."""

import json
from pathlib import Path
from typing import Any

import pytest

from tidelog.bench.limit.limit_row import LIMITS
from tidelog.bench.quick.report import Line, NotARun, are_apart, document_of, lines_of, load, ratio
from tidelog.bench.quick.rows import ROWS
from tidelog.cli.bench.quick import figure, judged


def line_of(document: dict[str, Any], key: str, earlier: dict[str, Any] | None = None) -> Line:
    return next(line for line in lines_of(document, earlier) if line.row.key == key)


def test_a_slow_minute_slows_both_and_leaves_the_ratio() -> None:
    values = [{"produce-1k": 100.0}, {"produce-1k": 20.0}, {"produce-1k": 120.0}]
    limits = [{"produce-1k": 1000.0}, {"produce-1k": 200.0}, {"produce-1k": 1000.0}]
    line = line_of(document_of(values, limits, {}), "produce-1k")
    assert (line.value, line.limit) == (100.0, 1000.0)
    assert line.to_limit == pytest.approx(0.1)


def test_without_a_limit_there_is_no_ratio_and_the_values_stay() -> None:
    line = line_of(document_of([{"start": 2.0, "consume": 5.0}], [], {}), "consume")
    assert line == Line(line.row, 5.0, None, None, None, False)
    assert ratio([1.0], [0.0]) is None


def test_a_row_that_was_not_measured_has_no_figure() -> None:
    assert line_of(document_of([{"start": 2.0}], [], {}), "small-1").value is None


def test_a_secured_cluster_is_divided_by_the_plain_one_of_the_same_round() -> None:
    values = [{"consume": 100.0}, {"consume": 20.0}, {"consume": 90.0}]
    secured = [{"consume": 50.0}, {"consume": 12.0}, {"consume": 27.0}]
    line = line_of(document_of(values, [], {}, secured), "consume")
    assert (line.value, line.secured) == (90.0, 27.0)
    assert line.to_plain == pytest.approx(0.5)
    assert line_of(document_of(values, [], {}), "consume").to_plain is None


def test_an_earlier_run_is_a_divisor() -> None:
    before = document_of([{"produce-1k": 50.0, "e2e-p99": 4.0}], [], {})
    now = document_of([{"produce-1k": 60.0, "e2e-p99": 5.0, "start": 1.0}], [], {})
    faster, later, new = (line_of(now, key, before) for key in ("produce-1k", "e2e-p99", "start"))
    assert faster.to_earlier == pytest.approx(1.2)
    assert later.to_earlier == pytest.approx(1.25)
    assert new.to_earlier is None
    assert [judged(each) for each in (faster, later, new)] == ["better", "worse", ""]


def test_less_than_a_twentieth_is_not_called_a_change() -> None:
    before = document_of([{"start": 1.0}], [], {})
    now = document_of([{"start": 1.04}], [], {})
    assert judged(line_of(now, "start", before)) == ""


def test_a_change_that_may_be_chance_has_a_ratio_and_no_word() -> None:
    before = document_of([{"start": 1.0}, {"start": 2.0}, {"start": 3.0}], [], {})
    now = document_of([{"start": 2.9}, {"start": 4.0}, {"start": 5.0}], [], {})
    line = line_of(now, "start", before)
    assert line.to_earlier == pytest.approx(2.0)
    assert judged(line) == ""
    assert not are_apart([], [1.0])


def test_what_is_written_can_be_read_again_with_every_raw_value(tmp_path: Path) -> None:
    document = document_of([{"start": 1.0}, {"start": 3.0}], [], {"rounds": 2})
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document), "utf-8")
    assert load(path) == document
    assert document["values"]["start"] == [1.0, 3.0]
    assert document["rows"]["start"]["median"] == 2.0


@pytest.mark.parametrize(
    ("text", "reason"), [("nonsense", "not JSON"), ("[]", "format"), ('{"format": "x"}', "format")]
)
def test_another_file_is_refused_with_the_reason(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text, "utf-8")
    with pytest.raises(NotARun, match=reason):
        load(path)


def test_every_row_is_set_against_a_limit_that_exists() -> None:
    named = [row.limit_key for row in ROWS if row.limit_key is not None]
    assert set(named) <= set(LIMITS)
    assert len({row.key for row in ROWS}) == len(ROWS)


def test_figures_have_the_digits_that_count() -> None:
    shown = [figure(each) for each in (None, 0.01234, 1.2345, 12.345, 1234.5)]
    assert shown == ["-", "0.0123", "1.23", "12.3", "1,234"]
