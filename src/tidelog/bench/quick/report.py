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
    is_apart: bool
    """No round of one run lies among those of the other: more than the noise of a machine."""
    secured: float | None = None
    to_plain: float | None = None
    """What was measured on secured clusters divided by the rest, the median of each round."""


def lines_of(document: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> list[Line]:
    lines = []
    for row in ROWS:
        values, limits = (document[name].get(row.key, []) for name in ("values", "limits"))
        before = [] if earlier is None else earlier["values"].get(row.key, [])
        now, to_earlier = median(values), _divided(median(values), median(before))
        to_limit = ratio(values, limits)
        secured = document.get("secured", {}).get(row.key, [])
        line = Line(row, now, median(limits), to_limit, to_earlier, are_apart(values, before))
        lines.append(line._replace(secured=median(secured), to_plain=ratio(secured, values)))
    return lines


def are_apart(values: Sequence[float], others: Sequence[float]) -> bool:
    if not values or not others:
        return False
    return max(values) < min(others) or max(others) < min(values)


def median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def ratio(values: Sequence[float], limits: Sequence[float]) -> float | None:
    """Paired by round; a round without one of the two has none."""
    return median([value / limit for value, limit in zip(values, limits, strict=False) if limit])


def document_of(
    values: Sequence[Mapping[str, float]],
    limits: Sequence[Mapping[str, float]],
    facts: Any,
    secured: Sequence[Mapping[str, float]] = (),
) -> dict[str, Any]:
    """Everything raw, and medians and ratios for whoever reads it without us."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "facts": facts,
        "values": _by_row(values),
        "limits": _by_row(limits),
        "secured": _by_row(secured),
    }
    document["rows"] = {
        line.row.key: {
            "title": line.row.title,
            "unit": line.row.unit,
            "more_is_better": line.row.more_is_better,
            "median": line.value,
            "limit": line.limit,
            "to_limit": line.to_limit,
            "secured": line.secured,
            "to_plain": line.to_plain,
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
