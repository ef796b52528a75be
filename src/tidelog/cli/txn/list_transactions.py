"""`tidelog txn list`"""

import asyncio
import time
from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.tables import Column, show
from tidelog.cli.times import moment, passed
from tidelog.cli.txn.survey import UNKNOWN_ID
from tidelog.client import Client, KafkaError
from tidelog.client.transactions import (
    OPEN_STATES,
    ListedTransaction,
    TransactionAdmin,
    TransactionView,
)

COLUMNS = (
    Column("TRANSACTIONAL-ID", "transactional_id"),
    Column("STATE", "state"),
    Column("PRODUCER-ID", "producer_id"),
    Column("COORDINATOR", "coordinator"),
    Column("AGE", "age"),
    Column("PARTITIONS", "partitions"),
    Column("EPOCH", "producer_epoch", wide=True),
    Column("STARTED", "started", wide=True),
)
AT_ONCE = 16
"""Transactions that are asked about at the same time."""


@click.command(name="list")
@click.option("--open", "only_open", is_flag=True, help="Only those that are not decided.")
@asks_cluster
@table_option
@shared_options
def command(*, asking: Asking, only_open: bool, output: str) -> None:
    """List the transactional ids of all coordinators.

    \b
    Examples:
      tidelog txn list
      tidelog txn list --open -o json
    """

    async def look(client: Client) -> list[TransactionView]:
        return await all_of(client, OPEN_STATES if only_open else ())

    found = asking.run(look)
    now_ms = int(time.time() * 1000)
    rows = [row_of(each, now_ms) for each in sorted(found, key=order)]
    if not rows and output in ("text", "wide"):
        click.echo("no open transactions" if only_open else "no transactional ids", err=True)
    show(output, rows, COLUMNS, rows)


def order(transaction: TransactionView) -> tuple[bool, int, str]:
    """Open ones first, the oldest of them at the top."""
    started = transaction.start_ms
    return started is None, started or 0, transaction.transactional_id


async def all_of(client: Client, states: tuple[str, ...]) -> list[TransactionView]:
    admin = TransactionAdmin(client)
    gate = asyncio.Semaphore(AT_ONCE)

    async def look_at(listed: ListedTransaction) -> TransactionView | None:
        async with gate:
            try:
                return await admin.describe(listed.transactional_id, coordinator=listed.coordinator)
            except KafkaError as error:
                if error.error not in UNKNOWN_ID:
                    raise
                return None  # it expired since it was listed

    asked = [look_at(each) for each in await admin.list_transactions(states=states)]
    return [each for each in await asyncio.gather(*asked) if each is not None]


def row_of(transaction: TransactionView, now_ms: int) -> dict[str, Any]:
    started = transaction.start_ms
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "coordinator": transaction.coordinator,
        "age": None if started is None else passed(started, now_ms),
        "age_ms": None if started is None else max(0, now_ms - started),
        "started": None if started is None else moment(started),
        "partitions": [f"{topic}-{index}" for topic, index in transaction.partitions],
    }
