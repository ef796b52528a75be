"""What is said of a comparison: ratios by round, spread, the limit, and what failed."""

import json

import pytest

from tidelog.bench.compare.plots import advantage, draw
from tidelog.bench.compare.report import (
    HEADERS,
    BadDocument,
    as_document,
    check_document,
    figure,
    is_ahead,
    markdown,
    ratio_of,
    table_cells,
)
from tidelog.bench.compare.runner import Failure, Results, Values
from tidelog.bench.compare.system import KAFKA, MACHINE, TIDELOG, Row
from tidelog.cli.bench.table import BEGIN, END, filled
from tidelog.cli.failure import CommandError

SPEED = Row("produce.x", "produce x", "MB/s", True, "throughput", limit_key="limit-x")
DELAY = Row("latency.x", "latency x", "ms", False, "latency")
LIMIT = Row("limit-x", "the limit of x", "MB/s", True, "limit")


def results_of(rows, values, failures=()):
    kept = Values(3)
    for (row, system), found in values.items():
        for number, value in enumerate(found):
            if value is not None:
                kept.put(row.key, system, number, value)
    return Results(rows, kept, list(failures))


def document_of(rows, values, failures=()):
    return as_document(results_of(rows, values, failures), {"scale": "tiny"})


def cells_of(document, row):
    place = [each["key"] for each in document["rows"]].index(row.key)
    return dict(zip(HEADERS, table_cells(document)[place], strict=True))


def test_a_ratio_is_made_of_the_two_values_of_one_round():
    # The machine was slow in the second round, for both: their ratio does not change.
    found = ratio_of([100.0, 10.0, 90.0], [50.0, 5.0, 60.0])
    assert found == (2.0, 1.5, 2.0)


def test_a_round_in_which_one_was_not_measured_does_not_count():
    assert ratio_of([100.0, None, 90.0], [50.0, 5.0, None]) == (2.0, 2.0, 2.0)
    assert ratio_of([None], [1.0]) is None
    assert ratio_of([1.0, 2.0], ()) is None


def test_less_is_better_where_the_row_says_so():
    values = {(DELAY, TIDELOG): [1.0, 1.0, 1.0], (DELAY, KAFKA): [2.0, 2.0, 2.0]}
    (row,) = document_of((DELAY,), values)["rows"]
    assert row["ratio"]["middle"] == 0.5
    assert is_ahead(row)
    assert advantage(row) == (2.0, 2.0, 2.0)


def test_the_table_tells_medians_ratio_spread_and_the_share_of_the_limit():
    document = document_of(
        (SPEED, LIMIT),
        {
            (SPEED, TIDELOG): [80.0, 100.0, 120.0],
            (SPEED, KAFKA): [80.0, 80.0, 160.0],
            (LIMIT, MACHINE): [400.0, 500.0, 200.0],
        },
    )
    assert cells_of(document, SPEED) == {
        "row": "produce x",
        "unit": "MB/s",
        "Tidelog": "100",
        "Kafka": "80.0",
        "ratio": "1.00 ×",
        "spread": "0.75–1.25",
        "ahead": "yes",
        "of the limit": "0.25 · 0.20",
    }
    assert cells_of(document, LIMIT)["Tidelog"] == "400"


def test_a_row_that_is_the_same_for_both_by_its_nature_has_no_winner():
    values = {(SPEED, TIDELOG): [500.0] * 3, (SPEED, KAFKA): [500.0] * 3}
    assert cells_of(document_of((SPEED,), values), SPEED)["ahead"] == "-"


def test_every_raw_value_is_in_the_document_and_survives_a_file():
    values = {(SPEED, TIDELOG): [1.0, None, 3.0]}
    document = json.loads(json.dumps(document_of((SPEED,), values)))
    assert check_document(document)["rows"][0]["values"] == {TIDELOG: [1.0, None, 3.0]}
    assert document["scale"] == "tiny"


def test_a_row_that_failed_says_so_and_the_others_have_their_figures():
    failure = Failure("latency", None, KAFKA, 0, "it did not start")
    values = {
        (SPEED, TIDELOG): [1.0, 1.0, 1.0],
        (SPEED, KAFKA): [1.0, 1.0, 1.0],
        (DELAY, TIDELOG): [4.0, 4.0, 4.0],
    }
    document = document_of((SPEED, DELAY), values, [failure])
    assert cells_of(document, DELAY)["Kafka"] == "failed"
    assert cells_of(document, DELAY)["ratio"] == "-"
    assert cells_of(document, SPEED)["ratio"] == "1.00 ×"
    assert document["failures"][0]["reason"] == "it did not start"


def test_without_kafka_there_are_our_figures_and_no_ratio():
    document = document_of((SPEED,), {(SPEED, TIDELOG): [5.0, 5.0, 5.0]})
    cells = cells_of(document, SPEED)
    assert (cells["Tidelog"], cells["Kafka"], cells["ahead"]) == ("5.00", "-", "-")


def test_markdown_has_a_table_for_each_section():
    values = {(SPEED, TIDELOG): [1.0], (DELAY, TIDELOG): [1.0]}
    text = markdown(document_of((SPEED, DELAY), values))
    assert text.index("### throughput") < text.index("produce x") < text.index("### latency")


@pytest.mark.parametrize("document", [[], {}, {"kind": "something else"}])
def test_a_file_that_is_no_comparison_is_refused(document):
    with pytest.raises(BadDocument, match="is not a result"):
        check_document(document)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "-"), (12_345.6, "12,346"), (123.4, "123"), (12.34, "12.3"), (1.234, "1.23")],
)
def test_figures_have_three_digits(value, shown):
    assert figure(value) == shown


def test_a_page_gets_the_table_between_its_marks_and_keeps_the_rest(tmp_path):
    page = tmp_path / "performance.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", "utf-8")
    assert filled(page, "new\n") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    page.write_text("no marks", "utf-8")
    with pytest.raises(CommandError, match="no place for a table"):
        filled(page, "new\n")


def test_plots_are_drawn_for_the_ratios_and_for_each_section(tmp_path):
    values = {
        (SPEED, TIDELOG): [80.0, 100.0, 120.0],
        (SPEED, KAFKA): [80.0, 80.0, None],
        (DELAY, TIDELOG): [1.0, 1.0, 1.0],
        (LIMIT, MACHINE): [400.0, 500.0, 200.0],
    }
    paths = draw(document_of((SPEED, DELAY, LIMIT), values), tmp_path)
    assert [path.name for path in paths] == [
        "ratios.png",
        "throughput.png",
        "latency.png",
        "limit.png",
    ]
    assert all(path.stat().st_size > 1000 for path in paths)
