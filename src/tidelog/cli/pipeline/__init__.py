"""`tidelog pipeline`: Spark jobs that are ready to run."""

import click

from tidelog.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "archive": Lazy("tidelog.cli.pipeline.archive", "Topics into a table, exactly once."),
    "upsert": Lazy("tidelog.cli.pipeline.upsert", "What topics have led to, as a table."),
    "mirror": Lazy("tidelog.cli.pipeline.mirror", "Topics to another cluster, exactly once."),
    "health": Lazy("tidelog.cli.pipeline.health", "Failovers, ISR, lag from a cluster's events."),
    "run": Lazy("tidelog.cli.pipeline.run", "A pipeline that a file describes."),
    "deploy": Lazy("tidelog.cli.pipeline.deploy", "What to submit to a Spark cluster."),
    "maintain": Lazy("tidelog.cli.pipeline.maintain", "Fewer files and older ones gone: tables."),
    "backfill": Lazy("tidelog.cli.pipeline.backfill", "Rows that an archive's table lacks."),
    "replay-dead-letters": Lazy(
        "tidelog.cli.pipeline.replay_dead_letters", "Send back what could not be decoded."
    ),
    "list": Lazy("tidelog.cli.pipeline.list_pipelines", "What there is, and what ran here."),
    "status": Lazy("tidelog.cli.pipeline.status", "How far a pipeline is, and its lag."),
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
