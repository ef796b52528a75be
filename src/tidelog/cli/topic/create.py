"""`tidelog topic create`"""

from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster, refused
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import plural, print_json
from tidelog.client import Admin, Client, KafkaError, NewTopic
from tidelog.client.admin import CreatedTopic
from tidelog.core.errors import Error
from tidelog.storage.uuids import uuid_text


@click.command(name="create")
@click.argument("name")
@click.option("-p", "--partitions", type=click.IntRange(1, 100_000), help="The cluster's default.")
@click.option(
    "-r", "--replication-factor", type=click.IntRange(1, 100), help="The cluster's default."
)
@click.option("-c", "--config", "configs", metavar="KEY=VALUE", multiple=True)
@click.option(
    "--replicas",
    metavar="1:2:3,2:3:1",
    help="The brokers of each partition, in place of -p and -r.",
)
@click.option("--if-not-exists", is_flag=True, help="No error if it is there already.")
@click.option("--dry-run", is_flag=True, help="Only ask whether it could be created.")
@asks_cluster
@output_option
@shared_options
def command(*, asking: Asking, **given: Any) -> None:
    """Make the topic NAME.

    \b
    Examples:
      tidelog topic create orders -p 3
      tidelog topic create audit -r 3 -c min.insync.replicas=2 -c cleanup.policy=compact
    """
    name, dry_run = given["name"], given["dry_run"]
    topic = NewTopic(
        name,
        given["partitions"] or -1,
        given["replication_factor"] or -1,
        key_values(given["configs"], option="-c"),
        parse_replicas(given["replicas"]) if given["replicas"] else {},
    )

    async def create(client: Client) -> CreatedTopic | None:
        try:
            return await Admin(client).create_topic(topic, validate_only=dry_run)
        except KafkaError as error:
            if error.error == Error.TOPIC_ALREADY_EXISTS and given["if_not_exists"]:
                return None
            raise await explained(client, topic, error) from None

    made = asking.run(create)
    if given["output"] == "json":
        print_json(as_document(name, made, dry_run=dry_run))
    elif made is None:
        click.echo(f"{name} is there already")
    else:
        done = "could be created" if dry_run else "created"
        count = plural(max(made.partitions, 0) or topic.partitions, "partition")
        factor = made.replication_factor
        copies = f", replication factor {factor}" if factor > 0 else ""
        click.echo(f"{name} {done}: {count}{copies}")


async def explained(client: Client, topic: NewTopic, error: KafkaError) -> CommandError:
    """The broker's words, and what we can add to them."""
    name = topic.name
    if error.error == Error.TOPIC_ALREADY_EXISTS:
        return refused(error, advice=f"tidelog topic describe {name}")
    if error.error == Error.INVALID_REPLICATION_FACTOR:
        alive = len((await client.brokers()).brokers)
        why = f"replication factor {topic.replication_factor} asked for, {alive} brokers are alive"
        said = KafkaError(error.error, why if topic.replication_factor > alive else error.message)
        advice = f"tidelog cluster health    or    tidelog topic create {name} -r {alive}"
        return refused(said, advice=advice)
    return refused(error)


def as_document(name: str, made: CreatedTopic | None, *, dry_run: bool) -> dict[str, Any]:
    return {
        "topic": name,
        "created": made is not None and not dry_run,
        "topic_id": None if made is None else uuid_text(made.topic_id),
        "partitions": None if made is None else made.partitions,
        "replication_factor": None if made is None else made.replication_factor,
    }


def key_values(texts: tuple[str, ...], *, option: str) -> dict[str, str]:
    values = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise CommandError(
                f"wrong value for {option}: {text}",
                why="there is no key=value",
                advice=f"{option} retention.ms=86400000",
                code=USAGE,
            )
        values[key.strip()] = value
    return values


def parse_replicas(text: str) -> dict[int, list[int]]:
    try:
        return {
            index: [int(broker) for broker in part.split(":")]
            for index, part in enumerate(text.split(","))
        }
    except ValueError:
        raise CommandError(
            f"wrong value for --replicas: {text}",
            why="brokers are numbers with colons between them, partitions have commas",
            advice="--replicas 1:2:3,2:3:1",
            code=USAGE,
        ) from None
