"""`tidelog sim coverage`: how much of production's code the simulator runs."""

from collections.abc import Iterable, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import click

from tidelog.cli.failure import INTERRUPTED, NOT_REACHED, OK, VIOLATION, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import count, plural, print_json, table
from tidelog.cli.progress import Progress
from tidelog.cli.sim import report
from tidelog.cli.sim.options import jobs_option
from tidelog.sim.coverage import PACKAGES, SHELL, Lines, PackageCoverage, measure, packages_with
from tidelog.sim.results import SeedResult

SEEDS_DEFAULT = 30


@click.command(name="coverage")
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=SEEDS_DEFAULT,
    show_default=True,
    help="How many seeds.",
)
@click.option("--first", type=click.IntRange(min=0), default=0, help="Seed to begin with.")
@jobs_option
@click.option(
    "--missing",
    "missing",
    type=click.Choice(PACKAGES),
    multiple=True,
    help="List the lines of this package that were never reached. Can be given several times.",
)
@click.option(
    "--at-least",
    type=click.FloatRange(0, 100),
    metavar="PERCENT",
    help=f"Fail if less was run of one of {', '.join(SHELL)}.",
)
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Count the lines of production code that whole-node seeds execute, by package.

    \b
    Examples:
      tidelog sim coverage --seeds 100
      tidelog sim coverage --missing broker --missing node
      tidelog sim coverage --at-least 90 -o json

    A line counts if a statement of a function begins there; what importing a module runs does
    not count. Seeds take about five times as long as they do with `tidelog sim run`.

    Ends with exit code 5 if a rule was broken, and with exit code 4 if less was executed than
    --at-least asks for.
    """
    first = given["first"]
    executed, results, interrupted = _run(range(first, first + given["seeds"]), given["jobs"])
    packages = packages_with(executed)
    failures = [result for result in results if result.violations]
    if given["output"] == "json":
        print_json(as_json(packages, results, given["missing"]))
    else:
        print_text(packages, results, given["missing"])
        for failure in failures[: report.FAILURES_SHOWN]:
            report.print_failure(failure, mutant=None)
    if interrupted:
        context.exit(INTERRUPTED)
    if failures:
        context.exit(VIOLATION)
    low = [
        each for each in packages if each.name in SHELL and each.percent < (given["at_least"] or 0)
    ]
    context.exit(NOT_REACHED if low else OK)


def _run(seeds: range, jobs: int) -> tuple[Lines, list[SeedResult], bool]:
    """The lines that were run, what the seeds came to, and whether Ctrl-C ended it."""
    executed: Lines = {}
    results: list[SeedResult] = []
    with Progress("seeds", len(seeds)) as progress:
        try:
            for measured in measure(seeds, jobs=jobs):
                results.append(measured.result)
                for path, lines in measured.lines.items():
                    executed.setdefault(path, set()).update(lines)
                progress.update(len(results), f"{count(sum(map(len, executed.values())))} lines")
        except KeyboardInterrupt:
            return executed, results, True
        except BrokenProcessPool as reason:
            raise CommandError(
                f"a process died after {plural(len(results), 'seed')}",
                why=str(reason),
                advice="the same command with --jobs 1 --debug",
            ) from None
    return executed, results, False


def as_json(
    packages: Sequence[PackageCoverage], results: Sequence[SeedResult], missing: Sequence[str]
) -> dict[str, Any]:
    return {
        "seeds": len(results),
        "violations": sum(len(result.violations) for result in results),
        "packages": {
            each.name: {
                "lines": each.lines,
                "executed": each.executed,
                "percent": round(each.percent, 1),
            }
            for each in packages
        },
        "missing": {
            file.path: list(file.missing)
            for each in packages
            if each.name in missing
            for file in each.files
            if file.missing
        },
    }


def print_text(
    packages: Sequence[PackageCoverage], results: Sequence[SeedResult], missing: Sequence[str]
) -> None:
    steps = sum(result.steps for result in results)
    click.echo(f"{plural(len(results), 'seed')} of whole nodes, {plural(steps, 'step')}")
    rows = [
        (each.name, count(each.lines), count(each.executed), f"{each.percent:.1f} %")
        for each in packages
    ]
    table(("package", "lines", "executed", "share"), rows)
    for each in packages:
        if each.name in missing:
            for file in each.files:
                if file.missing:
                    click.echo(f"{file.path}: {ranges(file.missing, file.lines)}")


def ranges(missing: Iterable[int], lines: Sequence[int]) -> str:
    """`12-15, 20`: neighbours among the lines that could have been run are joined."""
    position = {line: index for index, line in enumerate(lines)}
    parts: list[list[int]] = []
    for line in missing:
        if parts and position[line] == position[parts[-1][-1]] + 1:
            parts[-1] = [parts[-1][0], line]
        else:
            parts.append([line])
    return ", ".join("-".join(map(str, part)) for part in parts)
