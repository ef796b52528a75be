"""From the figures of the limit program to the row of a table."""

import re

import pytest

from tidelog.bench.limit import limit_row
from tidelog.bench.limit.limit_row import LIMITS, words_of


def test_the_keys_of_the_docstring_are_the_keys() -> None:
    told = re.findall(r"`(limit-[\w-]+)`", limit_row.__doc__ or "")
    assert sorted(told) == sorted(LIMITS)


def test_what_the_wire_adds_to_a_value_is_moved_and_not_counted() -> None:
    figures = {"bytes_per_second": 110e6}
    assert LIMITS["limit-produce-100"].value_in(figures) == pytest.approx(100.0)
    assert LIMITS["limit-produce-1k"].value_in(figures) == pytest.approx(108.9, abs=0.1)


def test_each_unit_has_its_figure() -> None:
    figures = {"requests_per_second": 9.0, "p50_ms": 1.0, "p99_ms": 2.0, "p999_ms": 3.0}
    assert LIMITS["limit-small-1"].value_in(figures) == 9.0
    assert LIMITS["limit-e2e-p99"].value_in(figures) == 2.0
    assert LIMITS["limit-e2e-p999"].value_in(figures) == 3.0
    assert not LIMITS["limit-e2e-p99"].more_is_better
    assert LIMITS["limit-small-1"].more_is_better


def test_a_share_of_a_case_has_so_many_requests_and_at_least_one() -> None:
    case = LIMITS["limit-small-1-fsync"]
    words = words_of(case, 0.5)
    assert words[words.index("--requests") + 1] == "250"
    assert "--fsync" in words
    assert "--cold" not in words
    assert words_of(case, 0.0)[words.index("--requests") + 1] == "1"
