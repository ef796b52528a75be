"""`tidelog bench table`: the table and the plots of a comparison that was kept."""

import json
from pathlib import Path

import click

from tidelog.bench.compare.report import (
    HEADERS,
    BadDocument,
    Document,
    check_document,
    markdown,
    table_cells,
)
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import shared_options
from tidelog.cli.output import table

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
"""What stands between these lines of a page is the table."""


@click.command(name="table")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--markdown", "as_markdown", is_flag=True, help="As tables of Markdown.")
@click.option(
    "--into",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the Markdown into this page, between its two marks.",
)
@click.option(
    "--plots", type=click.Path(path_type=Path, file_okay=False), help="Draw the plots in here."
)
@shared_options
def command(file: Path, as_markdown: bool, into: Path | None, plots: Path | None) -> None:
    """Show what `tidelog bench compare --json FILE` measured.

    \b
    Examples:
      tidelog bench table bench.json
      tidelog bench table bench.json --into docs/performance.md --plots docs/bench
    """
    document = read_document(file)
    if plots is not None:
        from tidelog.bench.compare.plots import draw

        for path in draw(document, plots):
            click.echo(f"plot: {path}", err=True)
    if into is not None:
        into.write_text(filled(into, markdown(document)), "utf-8")
        click.echo(f"written into {into}", err=True)
    elif as_markdown:
        click.echo(markdown(document), nl=False)
    else:
        table(HEADERS, table_cells(document))


def read_document(file: Path) -> Document:
    try:
        return check_document(json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, BadDocument) as reason:
        raise CommandError(
            f"{file} cannot be shown",
            why=str(reason),
            advice="tidelog bench compare --json FILE writes one",
            code=USAGE,
        ) from None


def filled(page: Path, text: str) -> str:
    """The page with this text between its marks."""
    try:
        before, begin, rest = page.read_text("utf-8").partition(BEGIN)
        _, end, after = rest.partition(END)
    except OSError as reason:
        raise CommandError(
            f"{page} cannot be read", why=str(reason), advice="name a page that is there"
        ) from None
    if not begin or not end:
        raise CommandError(
            f"{page} has no place for a table",
            why=f"there must be a line {BEGIN} and a line {END}",
            advice="put both where the table shall be",
        )
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"
