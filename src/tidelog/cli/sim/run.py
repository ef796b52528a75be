"""`tidelog sim run`: many seeds added up, or one told as a story."""

import time
from functools import partial
from typing import Any, NamedTuple

import click

from tidelog.cli.failure import ERROR, INTERRUPTED, OK, USAGE, VIOLATION, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import plural, print_json
from tidelog.cli.progress import Progress
from tidelog.cli.sim import report
from tidelog.cli.sim.options import check_mutant, jobs_option, mutant_option
from tidelog.cli.spark_options import spark_options
from tidelog.sim import mutation
from tidelog.sim.fleet import FleetError, FleetReport, Orders, RunOne, run_fleet
from tidelog.sim.marks import MARKS, unreached
from tidelog.sim.nodes import run as runs

SEEDS_DEFAULT = 100


class RunOptions(NamedTuple):
    """The command's options, as click found them."""

    seeds: int | None
    seed: int | None
    first: int | None
    minutes: float | None
    jobs: int
    mutant: str | None
    everything: bool
    require_marks: bool
    spark_url: str | None
    conf: dict[str, str]
    opens: bool
    output: str


@click.command(name="run")
@click.option("--seeds", type=click.IntRange(min=1), help="How many seeds (100 if not given).")
@click.option("--seed", type=click.IntRange(min=0), help="Only this one, as a story.")
@click.option("--first", type=click.IntRange(min=0), help="Seed to begin with (0 if not given).")
@click.option(
    "--minutes", type=click.FloatRange(min=0, min_open=True), help="New seeds for so long."
)
@jobs_option
@mutant_option
@click.option("--everything", is_flag=True, help="Also appends and high watermarks in the story.")
@click.option("--require-marks", is_flag=True, help="Fail if a rare state was never reached.")
@click.option("--open", "opens", is_flag=True, help="Also show the seed in a browser.")
@spark_options
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Run simulated clusters and judge them by every safety rule.

    \b
    Examples:
      tidelog sim run --seeds 2000
      tidelog sim run --minutes 10 --first 50000
      tidelog sim run --seed 4711
      tidelog sim run --seed 4711 --open
      tidelog sim run --seeds 200 -o json
      tidelog sim run --seeds 20000 --master spark://host:7077

    Ends with exit code 5 if a rule was broken, with --require-marks also with exit code 1 if
    a mark was not reached. The same seed always does the same.
    """
    options = RunOptions(**given)
    check_mutant(options.mutant)
    check_spark(options)
    check_open(options)
    if options.seed is None:
        context.exit(run_many(_orders(options), options))
    if options.require_marks or any(
        given[name] is not None for name in ("seeds", "first", "minutes")
    ):
        raise CommandError(
            "--seed together with --seeds, --first, --minutes or --require-marks",
            why="--seed tells one run as a story, the others are for many runs",
            advice=report.replay_command(options.seed),
            code=USAGE,
        )
    context.exit(tell_one(options.seed, options))


def check_spark(options: RunOptions) -> None:
    """On Spark there are many seeds of the real code, and their number is known."""
    other = {
        "--seed": options.seed,
        "--minutes": options.minutes,
        "--mutant": options.mutant,
    }
    wrong = next((name for name, value in other.items() if value is not None), None)
    if options.spark_url is not None and wrong is not None:
        raise CommandError(
            f"--master together with {wrong}",
            why="a number of seeds is spread over a Spark cluster, without mutants",
            advice=f"tidelog sim run --seeds 2000 --master {options.spark_url}",
            code=USAGE,
        )


def check_open(options: RunOptions) -> None:
    if options.opens and (options.seed is None or options.output == "json"):
        raise CommandError(
            "--open without --seed" if options.seed is None else "--open together with -o json",
            why="a browser shows the story of one seed, beside the text",
            advice=f"tidelog sim run --seed {options.seed or 1} --open",
            code=USAGE,
        )


def _orders(options: RunOptions) -> Orders:
    seeds = options.seeds
    if seeds is None and options.minutes is None:
        seeds = SEEDS_DEFAULT
    return Orders(
        first=options.first or 0,
        seeds=seeds,
        jobs=options.jobs,
        seconds=None if options.minutes is None else 60 * options.minutes,
    )


def tell_one(seed: int, options: RunOptions) -> int:
    again = report.replay_command(seed, mutant=options.mutant)
    focus = mutation.focus(options.mutant)
    told = runs.tell_node_seed(seed, focus=focus, mutant=options.mutant)
    if options.output == "json":
        print_json(report.story_json(told, everything=options.everything))
    else:
        report.print_story(told, again=again, everything=options.everything)
        if told.result.violations and not options.opens:
            click.echo(f"  open: {again} --open")
    if options.opens:
        from tidelog.cli.sim.opening import open_seed

        shown = report.story_json(told, everything=False)
        open_seed(seed, options.mutant, shown)
    return VIOLATION if told.result.violations else OK


def run_many(orders: Orders, options: RunOptions) -> int:
    mutant = options.mutant
    begin = time.monotonic()
    if options.spark_url is not None:
        total = run_on_spark_with_progress(orders, options)
    else:
        focus = mutation.focus(mutant)
        run_one = partial(runs.run_node_seed, focus=focus, mutant=mutant)
        total = run_with_progress(orders, run_one, "seeds")
    if options.output == "json":
        print_json(report.fleet_json(total, mutant=mutant))
    else:
        elapsed = time.monotonic() - begin
        report.print_fleet(total, mutant=mutant, elapsed_seconds=elapsed)
    if total.interrupted:
        return INTERRUPTED
    if total.failures:
        return VIOLATION
    if options.require_marks:
        check_marks(total)
    return OK


def check_marks(total: FleetReport) -> None:
    missing = unreached(total.marks)
    if missing:
        raise CommandError(
            f"{plural(len(missing), 'mark')} not reached in {plural(total.seeds, 'seed')}",
            why="; ".join(f"{name}: {MARKS[name]}" for name in missing),
            advice="more seeds, or make the state likelier in sim.nodes.plan and sim.nodes.plots",
        )


def run_with_progress(
    orders: Orders, run_one: RunOne, what: str, collected: FleetReport | None = None
) -> FleetReport:
    """Run a fleet and show how far it is."""
    with Progress(what, orders.seeds, seconds=orders.seconds) as progress:
        try:
            return run_fleet(orders, run_one, partial(tell, progress), collected)
        except FleetError as reason:
            raise CommandError(
                "a process of the fleet died",
                why=str(reason),
                advice="the same command with --jobs 1 --debug",
                code=ERROR,
            ) from None


def run_on_spark_with_progress(orders: Orders, options: RunOptions) -> FleetReport:
    from tidelog.cli.sim.on_spark import Cluster, run_on_spark

    assert options.spark_url is not None, options
    cluster = Cluster(options.spark_url, options.conf)
    with Progress("seeds", orders.seeds) as progress:
        return run_on_spark(cluster, orders, runs.run_node_seed, partial(tell, progress))


def tell(progress: Progress, so_far: FleetReport) -> None:
    progress.update(so_far.seeds, plural(so_far.violations, "violation"))
