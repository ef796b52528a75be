"""Tables made from the same documents that `-o json` prints."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from tidelog.cli.output import print_json, table

TEXT, WIDE, JSON, TSV = "text", "wide", "json", "tsv"

Row = Mapping[str, Any]


class Column(NamedTuple):
    title: str
    field: str
    wide: bool = False
    """Only in wide output and tsv."""


def show(
    output: str, document: Any, columns: Sequence[Column], rows: Sequence[Row], *, head: str = ""
) -> None:
    """One result in the form that was asked for. `head` stands above a table for people."""
    if output == JSON:
        print_json(document)
        return
    if output == TSV:
        click.echo("\t".join(column.title for column in columns))
        for row in rows:
            click.echo("\t".join(_plain(row.get(column.field)) for column in columns))
        return
    if head:
        click.echo(head)
    chosen = [column for column in columns if output == WIDE or not column.wide]
    if rows:
        table(
            [column.title for column in chosen],
            [[cell(row.get(column.field)) for column in chosen] for row in rows],
        )


def cell(value: Any) -> str:
    """As people read it: lists with commas, nothing as a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return cell(value).replace("\t", " ").replace("\n", " ")
