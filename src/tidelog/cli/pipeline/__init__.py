"""`tidelog pipeline`: Spark jobs that are ready to run."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "archive": Lazy("tidelog.cli.pipeline.archive", "Append topics to a table, exactly once."),
    "upsert": Lazy("tidelog.cli.pipeline.upsert", "Keep a table of the latest value per key."),
    "mirror": Lazy("tidelog.cli.pipeline.mirror", "Copy topics to another cluster, exactly once."),
    "health": Lazy(
        "tidelog.cli.pipeline.health", "Analyse failovers, ISR and lag from a cluster's events."
    ),
    "run": Lazy("tidelog.cli.pipeline.run", "Run a pipeline described by a file."),
    "deploy": Lazy("tidelog.cli.pipeline.deploy", "Print what to submit to a Spark cluster."),
    "maintain": Lazy("tidelog.cli.pipeline.maintain", "Compact a table and expire its old files."),
    "backfill": Lazy("tidelog.cli.pipeline.backfill", "Add rows that an archive's table lacks."),
    "replay-dead-letters": Lazy(
        "tidelog.cli.pipeline.replay_dead_letters",
        "Send repaired dead letters back to their topic.",
    ),
    "list": Lazy(
        "tidelog.cli.pipeline.list_pipelines", "List kinds of pipelines, and those that ran here."
    ),
    "status": Lazy("tidelog.cli.pipeline.status", "Show progress and lag of pipelines."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Spark jobs on topics: kept tables, mirrored topics, the health of a cluster.

    \b
    Examples:
      tidelog pipeline archive orders --to lake/orders --once
      tidelog pipeline mirror --from a:9092 --to b:9092 orders
      tidelog pipeline health --plot report
      tidelog pipeline run orders.toml
      tidelog pipeline status

    They need Java 17 or later, and: pip install 'tidelog[spark]'
    """
