"""`tidelog demo`: the main job, end to end."""

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tidelog.cli.durations import DURATION
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.sim.options import jobs_option

ORDERS = 40_000
RECORDS = 20_000
SEEDS = 20
REPORT = "demo-report"
WITH_SPARK = {"orders": "--orders", "for_ms": "--for", "report": "--report"}
WITHOUT_SPARK = {"records": "--records", "seeds": "--seeds", "jobs": "--jobs"}
"""Options that only one of the two stories knows."""


@click.command(name="demo")
@click.option(
    "--orders",
    type=click.IntRange(min=500),
    default=ORDERS,
    show_default=True,
    help="How many are written.",
)
@click.option(
    "--for",
    "for_ms",
    type=DURATION,
    default="35s",
    show_default=True,
    help="How long the producer takes for them.",
)
@click.option(
    "--report",
    type=click.Path(file_okay=False, path_type=Path),
    default=REPORT,
    show_default=True,
    metavar="DIR",
    help="Where the plot and the page go.",
)
@click.option("--without-spark", is_flag=True, help="The short story: no Java, about ten seconds.")
@click.option(
    "--records",
    type=click.IntRange(min=300),
    default=RECORDS,
    show_default=True,
    help="Without Spark: acknowledged before the writers stop.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=0),
    default=SEEDS,
    show_default=True,
    help="Without Spark: simulated clusters afterwards.",
)
@jobs_option
@click.option("--keep", is_flag=True, help="Leave the data and the logs there.")
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Orders through a real cluster and Spark while a leader is killed, and proof of every cent.

    Three brokers; a producer with acks=all; Spark makes revenue per minute of the orders, into a
    topic, and keeps them in a table, both exactly once. The leader of a partition is killed on
    the way. At the end topic, table and acknowledgements must agree, and all replicas too.

    \b
    Examples:
      tidelog demo
      tidelog demo --orders 100000 --for 60s --report out
      tidelog demo --without-spark --records 100000 --keep
      tidelog demo -o json

    Exit code 5 if an acknowledged record was lost, duplicated or reordered, if a sum is not what
    was sold, or if replicas differ. Spark needs Java 17 and: pip install 'tidelog[spark]'
    """
    if given["without_spark"]:
        refuse_given(context, WITH_SPARK, "the story without Spark does not have it")
        from tidelog.cli.demo import failover

        failover.run(
            context,
            **{name: given[name] for name in (*WITHOUT_SPARK, "keep")},
        )
    else:
        refuse_given(context, WITHOUT_SPARK, "it belongs to --without-spark")
        from tidelog.cli.demo.requirements import check_spark

        check_spark()
        from tidelog.cli.demo import story  # needs what was just looked for

        story.run(
            context,
            story.Plan(given["orders"], given["for_ms"] / 1000),
            report_dir=given["report"],
            keep=given["keep"],
        )


def refuse_given(context: click.Context, options: dict[str, str], why: str) -> None:
    for name, option in options.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise CommandError(
                f"{option} does not fit here", why=why, advice="tidelog demo --help", code=USAGE
            )
