"""`tidelog sim bench`: how fast a simulated cluster runs on one core."""

import click

from tidelog.cli.failure import INTERRUPTED, OK, VIOLATION
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import count, plural, print_json
from tidelog.cli.sim.run import run_with_progress
from tidelog.sim.bench import kernel_us_per_step
from tidelog.sim.fleet import Orders
from tidelog.sim.nodes.run import run_node_seed


@click.command(name="bench")
@click.option("--seeds", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--first", type=click.IntRange(min=0), default=0, help="Seed to begin with.")
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, seeds: int, first: int, output: str) -> None:
    """Measure simulated steps per second on one core, all checks on.

    \b
    Example:
      tidelog sim bench --seeds 50
    """
    kernel_us = kernel_us_per_step()
    orders = Orders(first=first, seeds=seeds, jobs=1)
    total = run_with_progress(orders, run_node_seed, "seeds")
    if output == "json":
        print_json(
            {
                "seeds": total.seeds,
                "steps": total.steps,
                "steps_per_second": round(total.steps_per_second),
                "kernel_us_per_step": round(kernel_us, 3),
                "violations": total.violations,
            }
        )
    else:
        click.echo(
            f"{count(total.steps_per_second)} steps/s on one core, checks on · "
            f"{plural(total.seeds, 'seed')}, {plural(total.steps, 'step')}"
        )
        click.echo(f"of that: kernel {kernel_us:.2f} µs a step")
    if total.interrupted:
        context.exit(INTERRUPTED)
    context.exit(VIOLATION if total.failures else OK)
