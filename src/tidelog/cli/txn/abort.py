"""`tidelog txn abort`"""

import time
from typing import Any, NamedTuple

import click

from tidelog.cli.asking import Asking, asks_cluster, parse_partition
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.tables import Column, show
from tidelog.cli.txn.describe import fate
from tidelog.cli.txn.survey import named_transaction, parts_of, transaction_of
from tidelog.client import Client
from tidelog.client.transactions import ONGOING, OpenProducer, TransactionAdmin, TransactionView
from tidelog.survey.topics import named_topic

COLUMNS = (
    Column("PARTITION", "partition"),
    Column("START-OFFSET", "start_offset"),
    Column("PRODUCER-ID", "producer_id"),
    Column("EPOCH", "producer_epoch"),
    Column("BY", "by"),
)


class Hanging(NamedTuple):
    """An open transaction in one partition that no coordinator will end."""

    topic: str
    partition: int
    producer: OpenProducer


@click.command(name="abort")
@click.argument("transactional_id", required=False, metavar="[TRANSACTIONAL-ID]")
@click.option("--partition", "text", metavar="TOPIC-PARTITION", help="In this partition alone …")
@click.option("--start-offset", type=click.IntRange(min=0), help="… the one that began here.")
@click.option("-y", "--yes", is_flag=True, help="Do it.")
@click.option("--dry-run", is_flag=True, help="Only the plan, as without --yes.")
@asks_cluster
@table_option
@shared_options
def command(asking: Asking, **given: Any) -> None:
    """Abort a transaction, and fence its producer.

    \b
    Examples:
      tidelog txn abort billing-1
      tidelog txn abort billing-1 --yes
      tidelog txn abort --partition orders-0 --start-offset 1041 --yes

    By its id, the coordinator aborts it everywhere. By partition and offset, a marker is written
    into that partition alone: for a transaction that no coordinator knows (hanging). Prints the
    plan, and does nothing without --yes.
    """
    check_usage(given)
    doing = given["yes"] and not given["dry_run"]

    async def work(client: Client) -> list[dict[str, Any]]:
        if given["transactional_id"] is not None:
            return await abort_by_id(client, given["transactional_id"], doing=doing)
        topic, index = parse_partition(given["text"])
        return await abort_in_partition(client, topic, index, given["start_offset"], doing=doing)

    rows = asking.run(work)
    show(given["output"], {"aborted": doing, "partitions": rows}, COLUMNS, rows)
    told = "aborted" if doing else "nothing is aborted yet: the same with --yes does it"
    click.echo(told, err=True)


def check_usage(given: dict[str, Any]) -> None:
    in_partition = given["text"] is not None and given["start_offset"] is not None
    any_of_it = given["text"] is not None or given["start_offset"] is not None
    if (given["transactional_id"] is None) != any_of_it or any_of_it != in_partition:
        raise CommandError(
            "which transaction is not clear",
            why="it is a transactional id, or --partition together with --start-offset",
            advice="tidelog txn list --open",
            code=USAGE,
        )
    if in_partition:
        parse_partition(given["text"])


async def abort_by_id(client: Client, name: str, *, doing: bool) -> list[dict[str, Any]]:
    transaction = await named_transaction(client, name)
    if transaction.state != ONGOING:
        raise CommandError(
            f"{name} has no transaction to abort",
            why=f"it is {transaction.state}",
            advice=f"tidelog txn describe {name}",
        )
    parts = await parts_of(client, transaction)
    if doing:
        await TransactionAdmin(client).fence(transaction)
    return [
        {
            "partition": each.name,
            "start_offset": each.start_offset,
            "producer_id": transaction.producer_id,
            "producer_epoch": transaction.producer_epoch,
            "by": f"coordinator {transaction.coordinator}",
        }
        for each in parts
    ]


async def abort_in_partition(
    client: Client, topic: str, index: int, start_offset: int, *, doing: bool
) -> list[dict[str, Any]]:
    await named_topic(client, topic)
    admin = TransactionAdmin(client)
    found = which(topic, index, await admin.producers(topic, index), start_offset)
    transaction = await transaction_of(client, found.producer.producer_id)
    refuse_known(transaction, found)
    if doing:
        await admin.abort_in_partition(topic, index, found.producer)
    return [
        {
            "partition": f"{topic}-{index}",
            "start_offset": found.producer.start_offset,
            "producer_id": found.producer.producer_id,
            "producer_epoch": found.producer.producer_epoch,
            "by": "a marker in this partition",
        }
    ]


def which(topic: str, index: int, producers: list[OpenProducer], start_offset: int) -> Hanging:
    for each in producers:
        if each.start_offset == start_offset:
            return Hanging(topic, index, each)
    begun = sorted(each.start_offset for each in producers if each.start_offset is not None)
    listed = ", ".join(map(str, begun))
    raise CommandError(
        f"no transaction began at {start_offset} in {topic}-{index}",
        why=f"those that are open began at {listed}" if begun else "none is open there",
        advice=f"tidelog explain {topic}-{index}",
    )


def refuse_known(transaction: TransactionView | None, found: Hanging) -> None:
    """A marker behind the back of its coordinator would tear a transaction apart: aborted here,
    perhaps committed elsewhere."""
    where = (found.topic, found.partition)
    if transaction is None or not transaction.is_open or where not in transaction.partitions:
        return
    name = transaction.transactional_id
    raise CommandError(
        "this transaction is not hanging",
        why=f"coordinator {transaction.coordinator} has it as {name}: "
        f"{fate(transaction, int(time.time() * 1000))}",
        advice=f"tidelog txn abort {name} --yes",
    )
