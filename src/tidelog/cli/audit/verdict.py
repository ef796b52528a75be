"""Findings as people read them."""

import sys

import click

from tidelog.audit.history.findings import Findings
from tidelog.cli import session
from tidelog.cli.output import duration, plural

SHOWN_MAX = 10


def print_findings(found: Findings) -> None:
    """The verdict line first, then the first few findings by name."""
    click.echo(found.line())
    for each in found.shown[:SHOWN_MAX]:
        click.echo(f"  {each.told()}")
    more = sum(found.counts.values()) - min(len(found.shown), SHOWN_MAX)
    if more:
        click.echo(f"  and {more} more: {_kinds(found)}")
    good = found.holds
    word, colour = ("ok", "green") if good else ("NOT OK", "red")
    parts = [session.current().styled(word, colour, stream=sys.stdout)]
    if not good:
        parts.append(plural(found.violations, "violation"))
    parts.append(f"worst lag of readers {duration(found.totals.worst_lag_us / 1e6)}")
    if found.totals.stuck:
        parts.append("nothing succeeded after everything was healed")
    if not found.totals.drained:
        parts.append("no last read of everything: add -b to judge what was not read yet")
    click.echo(" · ".join(parts))


def _kinds(found: Findings) -> str:
    return ", ".join(f"{name} {number}" for name, number in found.counts.items())
