"""`tidelog txn describe`"""

import time
from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.output import duration
from tidelog.cli.tables import JSON, TSV, Column, show
from tidelog.cli.times import moment, passed
from tidelog.cli.txn.survey import TransactionPart, named_transaction, parts_of
from tidelog.cli.watching import watch_option, watched
from tidelog.client import Client
from tidelog.client.transactions import TransactionView

COLUMNS = (
    Column("PARTITION", "partition"),
    Column("START-OFFSET", "start_offset"),
    Column("LAST-STABLE", "last_stable_offset"),
    Column("READERS", "readers"),
)

Described = tuple[TransactionView, list[TransactionPart]]


@click.command(name="describe")
@click.argument("names", nargs=-1, required=True, metavar="TRANSACTIONAL-ID…")
@asks_cluster
@watch_option
@table_option
@shared_options
def command(asking: Asking, names: tuple[str, ...], watch: bool, output: str) -> None:
    """Show what a transaction holds, since when, and when it will be aborted.

    \b
    Examples:
      tidelog txn describe billing-1
      tidelog txn describe billing-1 -o json
    """

    async def look(client: Client) -> list[Described]:
        found = [await named_transaction(client, name) for name in names]
        return [(each, await parts_of(client, each)) for each in found]

    def once() -> None:
        now_ms = int(time.time() * 1000)
        described = asking.run(look)
        documents = [as_document(each, parts, now_ms) for each, parts in described]
        if output == JSON:
            show(output, documents, COLUMNS, [])
            return
        for (transaction, _), document in zip(described, documents, strict=True):
            head = "" if output == TSV else head_of(transaction, now_ms)
            show(output, document, COLUMNS, document["partitions"], head=head)

    watched(once, watch=watch)


def as_document(
    transaction: TransactionView, parts: list[TransactionPart], now_ms: int
) -> dict[str, Any]:
    started, aborted_at = transaction.start_ms, transaction.aborted_at_ms
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "coordinator": transaction.coordinator,
        "timeout_ms": transaction.timeout_ms,
        "started": None if started is None else moment(started),
        "age_ms": None if started is None else max(0, now_ms - started),
        "aborted_at": None if aborted_at is None else moment(aborted_at),
        "partitions": [
            {
                "partition": each.name,
                "start_offset": each.start_offset,
                "last_stable_offset": each.last_stable_offset,
                "readers": "wait here" if each.holds else None,
            }
            for each in parts
        ],
    }


def head_of(transaction: TransactionView, now_ms: int) -> str:
    """`billing-1 · Ongoing · producer 4001, epoch 3 · coordinator 2 · open for 12 s · …`"""
    parts = [
        transaction.transactional_id,
        transaction.state,
        f"producer {transaction.producer_id}, epoch {transaction.producer_epoch}",
        f"coordinator {transaction.coordinator}",
        fate(transaction, now_ms),
    ]
    return " · ".join(parts)


def fate(transaction: TransactionView, now_ms: int) -> str:
    """Since when it is open, and when that ends."""
    timeout = duration(transaction.timeout_ms / 1000)
    if transaction.start_ms is None:
        return f"nothing open, timeout {timeout}"
    told = f"open for {passed(transaction.start_ms, now_ms)}"
    aborted_at = transaction.aborted_at_ms
    if aborted_at is None:
        return f"{told}, decided: markers are being written"
    if aborted_at <= now_ms:
        return f"{told}, its timeout of {timeout} is over: about to be aborted"
    left = duration((aborted_at - now_ms) / 1000)
    return f"{told}, aborted in {left} (at {moment(aborted_at)}) unless it ends"
