"""Numbers and tables as people read them; json as programs do."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from tidelog.cli import session


def print_json(document: object) -> None:
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def count(number: float) -> str:
    return f"{number:,.0f}"


def duration(seconds: float) -> str:
    """`0.4 s`, `38 s`, `12 min`, `3.5 h`, `2.1 days`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86_400:.1f} days"


def plural(number: int, noun: str) -> str:
    """`1 seed`, `2 seeds`, `2 stories`, `2 days`."""
    if number != 1:
        changes = noun.endswith("y") and noun[-2:-1] not in "aeiou"
        noun = f"{noun[:-1]}ies" if changes else f"{noun}s"
    return f"{count(number)} {noun}"


def tally(counts: Mapping[str, int]) -> str:
    """`crash 12 · pause 3`, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return " · ".join(f"{name} {count(number)}" for name, number in ordered) or "none"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns; drawn by rich when a person is looking."""
    if sys.stdout.isatty() and session.current().colour:
        _rich_table(headers, rows)
        return
    widths = [max(len(line[column]) for line in [headers, *rows]) for column in range(len(headers))]
    for line in [headers, *rows]:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _rich_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    drawn = Table(*headers, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        drawn.add_row(*(_coloured(cell) for cell in row))
    Console().print(drawn)


def _coloured(cell: str) -> Any:
    from rich.text import Text

    return Text(cell, style={"yes": "green", "NO": "bold red"}.get(cell, ""))
