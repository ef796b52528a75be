"""`tidelog pipeline replay-dead-letters`"""

import json

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.pipeline.launching import spoken
from tidelog.client import Client
from tidelog.spark.pipelines.dead_letter_topics import Replay, Replayed, reason_filter
from tidelog.survey.topics import named_topic


@click.command(name="replay-dead-letters")
@click.argument("topic", metavar="TOPIC")
@click.option("--to", "target", required=True, metavar="TOPIC", help="Where the records go.")
@click.option("--where", metavar="reason~EXPRESSION", help="Only those; the others are kept.")
@click.option("--dry-run", is_flag=True, help="Only tell what would be sent.")
@asks_cluster
@output_option
@shared_options
def command(
    *, topic: str, target: str, where: str | None, dry_run: bool, asking: Asking, output: str
) -> None:
    """Send records back that could not be decoded: as they were, in order, each once.

    \b
    Examples:
      tidelog pipeline replay-dead-letters orders.dead-letters --to orders --dry-run
      tidelog pipeline replay-dead-letters orders.dead-letters --to orders
      tidelog pipeline replay-dead-letters orders.dead-letters --to orders --where 'reason~JSON'
    """
    try:
        wanted = reason_filter(where)
    except ValueError as reason:
        raise CommandError(
            f"wrong value for --where: {where}",
            why=str(reason),
            advice="--where 'reason~no JSON'",
            code=USAGE,
        ) from None
    if topic == target:
        raise CommandError(
            "records cannot be sent back to the topic of dead letters",
            why=f"both are {topic}",
            advice="--to the topic that the records came from",
            code=USAGE,
        )

    async def work(client: Client) -> Replayed:
        for each in (topic, target):
            await named_topic(client, each)
        return await Replay(client, topic, target, wanted).run(dry=dry_run)

    with spoken():
        done = asking.run(work)
    if output == "json":
        counts = {"sent": done.sent, "kept": done.kept, "no_dead_letters": done.strangers}
        click.echo(json.dumps({**counts, "reasons": dict(done.reasons), "dry_run": dry_run}))
        return
    verb = "would be sent" if dry_run else "sent"
    click.echo(f"{done.sent:,} {verb} to {target}, {done.kept:,} kept in {topic}")
    for told, count in done.reasons.most_common():
        click.echo(f"  {count:,} × {told}")
    if done.strangers:
        click.echo(f"{done.strangers:,} records are no dead letters and were left alone", err=True)
