"""What a comparison found: one document with every value, and the table that is made of it.

The document is all there is: tables and plots of an old run are made from its file. A ratio is
Tidelog's value by Kafka's of the same round; shown are the median of the ratios and the least and
the greatest of them.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from tidelog.bench.compare.runner import Results
from tidelog.bench.compare.system import KAFKA, MACHINE, TIDELOG, Row

KIND, FORMAT = "tidelog bench compare", 1

Document = dict[str, Any]


class BadDocument(Exception):  # noqa: N818 - it names what is so
    """A file that is no result of a comparison."""


class Ratio(NamedTuple):
    middle: float
    least: float
    greatest: float


def as_document(results: Results, about: Mapping[str, Any]) -> Document:
    """Everything that was measured, with what is known about the run."""
    limits = {
        row.key: median(values)
        for row in results.rows
        if (values := _present(results.values.of(row.key, MACHINE)))
    }
    return {
        "kind": KIND,
        "format": FORMAT,
        **about,
        "rounds": results.values.rounds,
        "rows": [_row_document(results, row, limits) for row in results.rows],
        "failures": [failure._asdict() for failure in results.failures],
    }


def check_document(document: Any) -> Document:
    """The same, if it is one."""
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise BadDocument(f'it is not a result of "{KIND}"')
    if document.get("format") != FORMAT:
        raise BadDocument(f"its format is {document.get('format')}, this program reads {FORMAT}")
    return document


def ratio_of(mine: Sequence[float | None], other: Sequence[float | None]) -> Ratio | None:
    """Paired by round; None if there is no round in which both were measured."""
    pairs = zip(mine, other, strict=False)
    ratios = [one / two for one, two in pairs if one is not None and two]
    return Ratio(median(ratios), min(ratios), max(ratios)) if ratios else None


def is_ahead(row: Mapping[str, Any]) -> bool | None:
    """Whether Tidelog is at least as good in the middle; None if nothing was compared, or if the
    row says something about both, like how many records were read back."""
    ratio = row["ratio"]
    if ratio is None or ratio["least"] == ratio["greatest"] == 1.0:
        return None
    middle = float(ratio["middle"])
    return middle >= 1.0 if row["more_is_better"] else middle <= 1.0


HEADERS = ("row", "unit", "Tidelog", "Kafka", "ratio", "spread", "ahead", "of the limit")


def table_cells(document: Document) -> list[tuple[str, ...]]:
    """One line per row, in the order of the headers."""
    failed = _failed_rows(document)
    return [_cells(row, failed) for row in document["rows"]]


def markdown(document: Document) -> str:
    """The same as a table of Markdown, one for each section."""
    parts: list[str] = []
    failed = _failed_rows(document)
    for section in dict.fromkeys(row["section"] for row in document["rows"]):
        rows = [row for row in document["rows"] if row["section"] == section]
        parts += ["", f"### {section}", "", _markdown_line(HEADERS)]
        parts.append("|---|---|" + "---:|" * (len(HEADERS) - 2))
        parts += [_markdown_line(_cells(row, failed)) for row in rows]
    return "\n".join(parts).strip() + "\n"


def figure(value: float | None) -> str:
    """Three digits that mean something: 0.0123, 1.23, 12.3, 123, 12,345."""
    if value is None:
        return "-"
    for least, digits in ((100, 0), (10, 1), (1, 2), (0.1, 3)):
        if abs(value) >= least:
            return f"{value:,.{digits}f}"
    return f"{value:.4f}"


def _row_document(results: Results, row: Row, limits: Mapping[str, float]) -> Document:
    values = {name: results.values.of(row.key, name) for name in results.values.systems(row.key)}
    medians = {name: median(found) for name in values if (found := _present(values[name]))}
    ratio = ratio_of(values.get(TIDELOG, ()), values.get(KAFKA, ()))
    limit = limits.get(row.limit_key or "")
    of_limit = {name: value / limit for name, value in medians.items()} if limit else {}
    return {
        **row._asdict(),
        "values": {name: found for name, found in values.items() if _present(found)},
        "median": medians,
        "ratio": None if ratio is None else ratio._asdict(),
        "of_limit": of_limit,
    }


def _cells(row: Document, failed: Mapping[str, str]) -> tuple[str, ...]:
    medians, ratio = row["median"], row["ratio"]
    ahead = {True: "yes", False: "NO", None: "-"}[is_ahead(row)]
    shares = [
        f"{row['of_limit'][name]:.2f}" for name in (TIDELOG, KAFKA) if name in row["of_limit"]
    ]
    own = figure(medians.get(TIDELOG, medians.get(MACHINE)))
    return (
        row["title"],
        row["unit"],
        failed.get(f"{TIDELOG} {row['key']}", own),
        failed.get(f"{KAFKA} {row['key']}", figure(medians.get(KAFKA))),
        "-" if ratio is None else f"{ratio['middle']:.2f} ×",
        "-" if ratio is None else f"{ratio['least']:.2f}–{ratio['greatest']:.2f}",
        ahead,
        " · ".join(shares) or "-",
    )


def _failed_rows(document: Document) -> dict[str, str]:
    """System and row → what to say instead of a figure, where there is none at all."""
    found = {}
    for failure in document["failures"]:
        for row in document["rows"]:
            is_its = failure["section"] == row["section"] and failure["row"] in (None, row["key"])
            if is_its and failure["system"] not in row["median"]:
                found[f"{failure['system']} {row['key']}"] = "failed"
    return found


def _markdown_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _present(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
