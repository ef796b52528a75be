"""`tidelog sim mutants`: does some rule notice when a rule of the protocol is broken?"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

import tidelog
from tidelog.cli.failure import ERROR, INTERRUPTED, OK, CommandError, unknown_name
from tidelog.cli.lazy import shared_options
from tidelog.cli.output import plural, print_json, table
from tidelog.cli.sim.crash_states import try_crash_states
from tidelog.cli.sim.options import jobs_option, load_mutants
from tidelog.cli.sim.run import run_with_progress
from tidelog.sim import mutation
from tidelog.sim.fleet import Orders
from tidelog.sim.mutation import Mutant
from tidelog.sim.nodes.run import run_node_seed
from tidelog.sim.results import SeedResult
from tidelog.sim.rules.recovery_rules import RECOVERY
from tidelog.sim.scenario import ScriptError, difference

SEEDS_DEFAULT = 300
"""M4 takes half of them, the others fewer."""
CRASH_DEPTH = "crash"
STORY_DEPTH = "story"
SCENARIOS = Path(tidelog.__file__).parents[2] / "tests" / "scenarios"
"""Of a source checkout, like the mutants."""


PAGE = """# Mutants

What happens if one thing is broken on purpose: which rule notices, and after how many seeds (crash
states for the storage engine, stories where no cluster survives). M mutants break the protocol, S
mutants the shell that carries it out; the unmutated code passes the same seeds. See
[simulation.md](simulation.md#mutants).

Made by `tidelog sim mutants -o markdown > docs/mutants.md`. A test keeps names and titles
up to date.
"""


class Verdict(NamedTuple):
    name: str
    killed: bool
    rule: str | None
    seeds: int
    """Seeds, crash states or stories until the first that noticed; all of them for a survivor."""
    title: str


@click.command(name="mutants")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=SEEDS_DEFAULT,
    show_default=True,
    help="Give up on a mutant after so many.",
)
@click.option("--first", type=click.IntRange(min=0), default=0, help="Seed to begin with.")
@click.option("--only", metavar="LETTER", help="Those whose names begin so: M, S.")
@jobs_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="How to print the result.",
)
@shared_options
@click.pass_context
def command(
    context: click.Context, /, names: tuple[str, ...], *, seeds: int, first: int, **given: Any
) -> None:
    """Break one thing at a time that a node must do, and run seeds until a rule notices.

    M mutants break the protocol, S mutants the shell around it. A seed counts if the unmutated
    code passes it. Rules of the storage engine are judged by the states a crash can leave instead
    of seeds, rules about what no cluster survives by a story of tests/scenarios.

    \b
    Examples:
      tidelog sim mutants
      tidelog sim mutants --only S --seeds 30
      tidelog sim mutants NAME --seeds 200 -o json
      tidelog sim mutants -o markdown > docs/mutants.md

    Ends with exit code 1 if a mutant survives.
    """
    verdicts = []
    interrupted = False
    for mutant in chosen(names, given["only"]):
        orders = Orders(first=first, seeds=seeds, jobs=given["jobs"], stop_at_first=True)
        verdict = judge(mutant, orders)
        if verdict is None:
            interrupted = True
            break
        verdicts.append(verdict)
        click.echo(_line(verdict, mutant.depth), err=True)
    if given["output"] == "json":
        print_json([verdict._asdict() for verdict in verdicts])
    elif given["output"] == "markdown":
        click.echo("\n".join(markdown(verdicts)))
    else:
        print_table(verdicts)
    if interrupted:
        context.exit(INTERRUPTED)
    context.exit(OK if all(verdict.killed for verdict in verdicts) else ERROR)


def chosen(names: tuple[str, ...], only: str | None = None) -> list[Mutant]:
    catalogue = list(load_mutants().catalogue())
    if only is not None:
        catalogue = [mutant for mutant in catalogue if mutant.name.startswith(only)]
        if not catalogue:
            raise CommandError(
                "no such mutants", why=f"no name begins with {only!r}", advice="--only S"
            )
    known = {mutant.name: mutant for mutant in catalogue}
    for name in names:
        if name not in known:
            raise unknown_name("mutant", name, list(known), advice="tidelog sim mutants")
    return [known[name] for name in names] if names else catalogue


def judge(mutant: Mutant, orders: Orders) -> Verdict | None:
    """None if it was interrupted."""
    if mutant.depth == CRASH_DEPTH:
        return judge_by_crash_states(mutant)
    if mutant.depth == STORY_DEPTH:
        return judge_by_stories(mutant)
    return judge_by_seeds(mutant, orders)


def judge_by_crash_states(mutant: Mutant) -> Verdict | None:
    name = mutant.name
    with mutation.applied(name):
        total = try_crash_states(
            f"crash states, {name}", workloads=mutant.focus, stop_at_first=True
        )
    if total is None:
        return None
    if not total.bad:
        return Verdict(name, False, None, total.states, mutant.title)
    rule = f"{RECOVERY}: {total.bad[0].workload}"
    for workload, states in total.by_workload.items():
        clean = try_crash_states(
            f"crash states without {name}", limit=states, workloads=(workload,), stop_at_first=True
        )
        if clean is None:
            return None
        if clean.bad:
            rule = f"{rule}, also without the mutant"
            return Verdict(name, False, rule, total.states, mutant.title)
    return Verdict(name, True, rule, total.states, mutant.title)


def judge_by_stories(mutant: Mutant) -> Verdict:
    """Killed if a story comes out differently, and without the mutant as it is written."""
    name = mutant.name
    for told, story in enumerate(mutant.focus, 1):
        text = (SCENARIOS / f"{story}.txt").read_text("utf-8")
        with mutation.applied(name):
            changed = _tells_otherwise(text)
        if changed:
            clean = not _tells_otherwise(text)
            rule = story if clean else f"{story}, also without the mutant"
            return Verdict(name, clean, rule, told, mutant.title)
    return Verdict(name, False, None, len(mutant.focus), mutant.title)


def _tells_otherwise(text: str) -> bool:
    try:
        return bool(difference(text))
    except (ScriptError, AssertionError):
        return True  # a command makes no sense any more, or an assertion of our own noticed


def judge_by_seeds(mutant: Mutant, orders: Orders) -> Verdict | None:
    """A seed that the unmutated code does not pass either shows nothing: the next one is tried."""
    name, tried, also_without = mutant.name, 0, ""
    budget = orders.seeds or SEEDS_DEFAULT
    while tried < budget:
        rest = replace(orders, first=orders.first + tried, seeds=budget - tried)
        total = run_with_progress(rest, _runner(mutant, name), f"seeds, {name}")
        if total.interrupted:
            return None
        if not total.failures:
            break
        killer = total.failures[0]
        tried = killer.seed - orders.first + 1
        if not _runner(mutant, None)(killer.seed).violations:
            return Verdict(name, True, killer.rule, tried, mutant.title)
        also_without = f"{killer.rule}, also without the mutant"
    return Verdict(name, False, also_without or None, budget, mutant.title)


def _runner(mutant: Mutant, name: str | None) -> Callable[[int], SeedResult]:
    """Runs a seed with the faults that suit this mutant, with it or without."""
    return partial(run_node_seed, focus=mutant.focus, mutant=name)


def _line(verdict: Verdict, depth: str) -> str:
    unit = {CRASH_DEPTH: "crash state", STORY_DEPTH: "story"}.get(depth, "seed")
    after = plural(verdict.seeds, unit)
    if not verdict.killed:
        return f"{verdict.name} SURVIVED {after}"
    return f"{verdict.name} killed by {verdict.rule} after {after}"


def print_table(verdicts: list[Verdict]) -> None:
    table(
        ["MUTANT", "KILLED", "SEEDS", "RULE", "WHAT IS BROKEN"],
        [
            [v.name, "yes" if v.killed else "NO", str(v.seeds), v.rule or "-", v.title]
            for v in verdicts
        ],
    )
    killed = sum(verdict.killed for verdict in verdicts)
    click.echo(f"{killed} of {plural(len(verdicts), 'mutant')} killed")


def markdown(verdicts: list[Verdict]) -> Iterator[str]:
    """A page of the documentation."""
    yield from PAGE.splitlines()
    yield "| mutant | what is broken | killed by | after |"
    yield "|---|---|---|---|"
    for verdict in verdicts:
        killed_by = verdict.rule if verdict.killed else "**nobody**"
        yield f"| {verdict.name} | {verdict.title} | {killed_by} | {verdict.seeds} |"
