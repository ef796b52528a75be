"""`tidelog sim crash-states`: does storage recover from every state a crash can leave?"""

from collections.abc import Iterable
from typing import Any

import click

from tidelog.cli.failure import INTERRUPTED, OK, VIOLATION, unknown_name
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import count, plural, print_json, table
from tidelog.cli.progress import Progress
from tidelog.sim.storage_proof import BadState, CrashReport, all_workloads, run_crash_states

BAD_SHOWN = 5


@click.command(name="crash-states")
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
@click.option(
    "--limit", type=click.IntRange(min=1), help="So many states of each workload, not all."
)
@output_option
@shared_options
@click.pass_context
def command(
    context: click.Context, /, workloads: tuple[str, ...], *, limit: int | None, output: str
) -> None:
    """Run storage workloads, crash them everywhere, and recover every disk that could be left.

    \b
    Examples:
      tidelog sim crash-states
      tidelog sim crash-states append roll --limit 200 -o json

    Ends with exit code 5 if a state does not recover as it must.
    """
    for name in workloads:
        if name not in all_workloads():
            raise unknown_name(
                "workload", name, list(all_workloads()), advice="tidelog sim crash-states"
            )
    report = try_crash_states("crash states", limit=limit or 0, workloads=workloads)
    if report is None:
        context.exit(INTERRUPTED)
    if output == "json":
        print_json(as_json(report))
    else:
        print_text(report)
    context.exit(VIOLATION if report.bad else OK)


def try_crash_states(
    what: str, *, limit: int = 0, workloads: Iterable[str] = (), stop_at_first: bool = False
) -> CrashReport | None:
    """With progress; None if it was interrupted."""
    with Progress(what, None) as progress:

        def tell(so_far: CrashReport) -> None:
            progress.update(so_far.states, f"{len(so_far.bad)} bad")

        try:
            return run_crash_states(
                limit, workloads=workloads, stop_at_first=stop_at_first, tell=tell
            )
        except KeyboardInterrupt:
            return None


def as_json(report: CrashReport) -> dict[str, Any]:
    return {
        "states": report.states,
        "bad": len(report.bad),
        "by_workload": report.by_workload,
        "failures": [bad._asdict() for bad in report.bad[:BAD_SHOWN]],
    }


def print_text(report: CrashReport) -> None:
    bad = dict.fromkeys(report.by_workload, 0)
    for each in report.bad:
        bad[each.workload] += 1
    table(
        ["WORKLOAD", "STATES", "BAD"],
        [[name, count(states), count(bad[name])] for name, states in report.by_workload.items()],
    )
    click.echo(f"{plural(report.states, 'state')}, {count(len(report.bad))} bad")
    for each in report.bad[:BAD_SHOWN]:
        print_bad(each)


def print_bad(bad: BadState) -> None:
    click.echo(f"{bad.workload}: {bad.story}")
    for fault in bad.faults:
        click.echo(f"  {fault}")
