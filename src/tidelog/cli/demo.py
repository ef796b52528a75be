"""`tidelog demo`: the main job, end to end, in a few minutes."""

import time

import click

from tidelog.cli import lab_port
from tidelog.cli.failure import INTERRUPTED, OK, VIOLATION
from tidelog.cli.lab import print_broken
from tidelog.cli.lazy import shared_options
from tidelog.cli.sim import report
from tidelog.cli.sim.options import jobs_option
from tidelog.cli.sim.run import run_with_progress
from tidelog.sim.fleet import Orders
from tidelog.sim.run import run_seed

SEEDS = 200


@click.command(name="demo")
@click.option("--seeds", type=click.IntRange(min=1), default=SEEDS, show_default=True)
@jobs_option
@shared_options
@click.pass_context
def command(context: click.Context, seeds: int, jobs: int) -> None:
    """Play the story of a failover, then run simulated clusters full of faults.

    \b
    Example:
      tidelog demo
    """
    lab = lab_port.load_lab()
    story = lab_port.find_story(lab, lab_port.RECONCILE)
    click.echo(f"1. {story.title}")
    click.echo()
    broken = lab.run(story.name, tell=click.echo)
    print_broken(broken)
    click.echo()
    click.echo(f"2. {seeds} simulated clusters with crashes, power loss, cuts and slow disks")
    click.echo()
    begin = time.monotonic()
    total = run_with_progress(Orders(seeds=seeds, jobs=jobs), run_seed, "seeds")
    elapsed = time.monotonic() - begin
    report.print_fleet(total, depth="object", mutant=None, elapsed_seconds=elapsed)
    click.echo()
    click.echo("next: tidelog sim run --seed 7   ·   tidelog sim mutants   ·   tidelog lab list")
    if total.interrupted:
        context.exit(INTERRUPTED)
    context.exit(VIOLATION if broken or total.failures else OK)
