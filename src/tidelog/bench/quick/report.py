"""Medians, ratios and the document of a quick run."""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.bench.compare.system import Row
from tidelog.bench.quick.rows import ROWS

FORMAT = "tidelog-bench-quick-1"


class NotARun(Exception):  # noqa: N818 - it names what is so
    """A file is not the document of an earlier run."""


class Line(NamedTuple):
    """One row of the table; None where nothing was measured."""

    row: Row
    value: float | None
    limit: float | None
    to_limit: float | None
    """The median of the ratios of each round: a slow minute slows both."""
    to_earlier: float | None
    """This run divided by the earlier one."""


def lines_of(document: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> list[Line]:
    lines = []
    for row in ROWS:
        values, limits = (document[name].get(row.key, []) for name in ("values", "limits"))
        now = median(values)
        then = None if earlier is None else median(earlier["values"].get(row.key, []))
        lines.append(Line(row, now, median(limits), ratio(values, limits), _divided(now, then)))
    return lines


def median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def ratio(values: Sequence[float], limits: Sequence[float]) -> float | None:
    """Paired by round; a round without one of the two has none."""
    return median([value / limit for value, limit in zip(values, limits, strict=False) if limit])


def document_of(
    values: Sequence[Mapping[str, float]], limits: Sequence[Mapping[str, float]], facts: Any
) -> dict[str, Any]:
    """Everything raw, and medians and ratios for whoever reads it without us."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "facts": facts,
        "values": _by_row(values),
        "limits": _by_row(limits),
    }
    document["rows"] = {
        line.row.key: {
            "title": line.row.title,
            "unit": line.row.unit,
            "more_is_better": line.row.more_is_better,
            "median": line.value,
            "limit": line.limit,
            "to_limit": line.to_limit,
        }
        for line in lines_of(document, None)
    }
    return document


def load(path: Path) -> dict[str, Any]:
    """The document of an earlier run; NotARun says why it is none."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as reason:
        raise NotARun(f"it cannot be read: {reason.strerror or reason}") from None
    except ValueError as reason:
        raise NotARun(f"it is not JSON: {reason}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise NotARun(f'its "format" is not "{FORMAT}"')
    return document


def _by_row(rounds: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    keys = [row.key for row in ROWS if any(row.key in each for each in rounds)]
    return {key: [each[key] for each in rounds if key in each] for key in keys}


def _divided(now: float | None, then: float | None) -> float | None:
    return None if now is None or not then else now / then
