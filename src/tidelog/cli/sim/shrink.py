"""`tidelog sim shrink`: the smallest plan that fails the way a seed does."""

import time
from pathlib import Path

import click

from tidelog.cli.failure import CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import plural, print_json
from tidelog.cli.progress import Progress
from tidelog.cli.sim import report
from tidelog.cli.sim.options import check_mutant, mutant_option
from tidelog.sim import mutation
from tidelog.sim.nodes import replay_file
from tidelog.sim.nodes.plan import NodePlan, draw_node_plan
from tidelog.sim.nodes.run import run_node_plan
from tidelog.sim.nodes.shrink import TRIES_MAX, Shrunk, shrink
from tidelog.sim.results import SeedResult, Violation


@click.command(name="shrink")
@click.argument("seed", type=click.IntRange(min=0))
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Stop looking after so long.",
)
@mutant_option
@output_option
@shared_options
def command(
    *, seed: int, out: Path | None, seconds: float, mutant: str | None, output: str
) -> None:
    """Find the smallest plan that breaks the same rule as SEED, and write it to a file.

    \b
    Example:
      tidelog sim shrink 4711 --out bug.json
    """
    check_mutant(mutant)
    plan = draw_node_plan(seed, mutation.focus(mutant))
    found = run_node_plan(plan, mutant=mutant)
    if found.rule is None:
        again = report.replay_command(seed, mutant=mutant)
        raise CommandError(
            f"seed {seed} breaks no rule", why="there is nothing to shrink", advice=again
        )
    shrunk = search(plan, found.violations[0], mutant, seconds)
    result = run_node_plan(shrunk.plan, mutant=mutant)
    path = out or Path(f"seed-{seed}.replay.json")
    write(path, shrunk.plan, result, mutant)
    if output == "json":
        print_json(as_json(plan, shrunk, result, path))
    else:
        print_text(plan, shrunk, result, path)


def write(path: Path, plan: NodePlan, result: SeedResult, mutant: str | None) -> None:
    try:
        replay_file.write(path, plan, result, mutant=mutant)
    except OSError as reason:
        raise CommandError(
            f"cannot write {path}", why=str(reason.strerror), advice="another --out FILE"
        ) from None


def search(plan: NodePlan, violation: Violation, mutant: str | None, seconds: float) -> Shrunk:
    deadline = time.monotonic() + seconds
    # A smaller plan may take longer to fail, but most that do not fail by then never will, and
    # living through their healing is what would take the time.
    until_ms = violation.at_ms * 5 // 4 + 1_000
    tries = 0
    with Progress("tries", None, seconds=seconds) as progress:

        def fails(candidate: NodePlan) -> str | None:
            nonlocal tries
            tries += 1
            progress.update(tries, plural(len(candidate.faults), "fault"))
            return run_node_plan(candidate, mutant=mutant, until_ms=until_ms).rule

        return shrink(
            plan,
            violation.rule,
            fails,
            broke_at_ms=violation.at_ms,
            tries_max=TRIES_MAX,
            expired=lambda: time.monotonic() >= deadline,
        )


def as_json(plan: NodePlan, shrunk: Shrunk, result: SeedResult, path: Path) -> dict[str, object]:
    return {
        "seed": plan.seed,
        "rule": shrunk.rule,
        "text": result.violations[0].text if result.violations else "",
        "tries": shrunk.tries,
        "faults_before": len(plan.faults),
        "faults": [fault._asdict() for fault in shrunk.plan.faults],
        "nodes_before": plan.cluster.nodes,
        "nodes": shrunk.plan.cluster.nodes,
        "file": str(path),
        "replay": f"tidelog sim replay {path}",
    }


def print_text(plan: NodePlan, shrunk: Shrunk, result: SeedResult, path: Path) -> None:
    small = shrunk.plan
    click.echo(
        f"seed {plan.seed} broke {shrunk.rule}; {plural(shrunk.tries, 'smaller plan')} tried"
    )
    click.echo(
        f"  {len(plan.faults)} → {plural(len(small.faults), 'fault')} · "
        f"{plan.cluster.nodes} → {plural(small.cluster.nodes, 'node')} · "
        f"{plan.phases.duration_ms / 1000:g} → {small.phases.duration_ms / 1000:g} s"
        " before healing"
    )
    for fault in small.faults:
        click.echo(f"  {fault.at_ms / 1000:8.3f}s  {fault}")
    for name, value in small.cluster.settings:
        click.echo(f"  {name}={value}")
    if result.violations:
        click.echo(f"  {result.violations[0].text}")
    click.echo(f"written to {path}; replay: tidelog sim replay {path}")
