"""`tidelog produce`"""

import asyncio
import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster, refused
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import plural, print_json
from tidelog.cli.record_format import BadFormat
from tidelog.cli.record_input import (
    BadRecord,
    Reader,
    format_reader,
    json_reader,
    line_reader,
)
from tidelog.client import Admin, Client, KafkaError, NewRecord, NewTopic, Producer, Written
from tidelog.client.errors import ClientError
from tidelog.client.producer import ALL, LEADER, NOBODY_WAITS
from tidelog.client.transactional_producer import TransactionalProducer
from tidelog.core.errors import Error
from tidelog.wire.records import CODEC_NAMES

ACKS = {"all": ALL, "-1": ALL, "1": LEADER, "0": NOBODY_WAITS}
CODECS = {name: number for number, name in CODEC_NAMES.items()}
BATCH_RECORDS = 1_000
BATCH_BYTES = 512 * 1024
READ_BYTES = 64 * 1024
RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:/s)?")


@click.command(name="produce")
@click.argument("topic")
@click.option("-k", "--key", help="The key of every record.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="In place of the key's.")
@click.option("-f", "--format", "template", metavar="FORMAT", help="How lines look: '%k:%v'.")
@click.option("--json", "as_json", is_flag=True, help="Lines are what `consume --json` prints.")
@click.option("--value", help="Write this and read nothing; {} is the number of the record.")
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option("--compression", type=click.Choice(list(CODECS)), default="none", show_default=True)
@click.option("--rate", metavar="N/s", help="Records per second at most.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many records.")
@click.option("--create", is_flag=True, help="Make the topic if there is none, without asking.")
@click.option(
    "--transactional-id", metavar="ID", help="All records in one transaction, or none of them."
)
@asks_cluster
@output_option
@shared_options
def command(asking: Asking, **given: Any) -> None:
    """Write records to TOPIC: one per line of the input.

    \b
    Examples:
      seq 1 600 | tidelog produce orders --rate 5/s
      tidelog produce orders -k customer-7 --value hello
      tidelog consume orders --to end --json | tidelog produce copy --json --create
      tidelog produce orders --transactional-id import-7 < orders.txt
    """
    reader = reader_of(given)
    rate = parse_rate(given["rate"])
    totals: dict[int, Span] = {}

    async def write_all(producer: Producer) -> None:
        async for batch in paced(batches(given, reader), rate):
            for written in await producer.write(given["topic"], batch):
                note(totals, written)

    async def produce(client: Client) -> None:
        codec, name = CODECS[given["compression"]], given["transactional_id"]
        await ensure_topic(client, given["topic"], create=given["create"])
        try:
            if name is not None:
                await in_transaction(TransactionalProducer(client, name, codec=codec), write_all)
            else:
                await write_all(Producer(client, acks=ACKS[given["acks"]], codec=codec))
        except KafkaError as error:
            done = sum(span.records for span in totals.values())
            outcome = "had been written" if name is None else "were in the transaction"
            why = f"{error.message}; {plural(done, 'record')} {outcome}"
            raise refused(KafkaError(error.error, why)) from None

    check_transaction(given)
    asking.run(produce)
    report(given["topic"], totals, output=given["output"])


async def ensure_topic(client: Client, topic: str, *, create: bool) -> None:
    """A mistyped name must not become a topic: one that is missing is made if somebody says so."""
    found = (await client.topics([topic])).get(topic)
    if found is not None and found.error != Error.UNKNOWN_TOPIC_OR_PARTITION:
        return
    if not create:
        if not sys.stdin.isatty():
            raise CommandError(
                f"there is no topic {topic}",
                why="a topic is made only if you say so",
                advice=f"tidelog topic create {topic}    or    --create",
            )
        if not click.confirm(f"There is no topic {topic}. Create it?", err=True):
            raise click.Abort
    try:
        await Admin(client).create_topic(NewTopic(topic, -1, -1))
    except KafkaError as error:
        if error.error != Error.TOPIC_ALREADY_EXISTS:  # somebody else made it meanwhile
            raise


def check_transaction(given: dict[str, Any]) -> None:
    if given["transactional_id"] is not None and ACKS[given["acks"]] != ALL:
        raise CommandError(
            "--transactional-id needs --acks all",
            why="what a leader alone has cannot be committed",
            advice="--acks all, or no --transactional-id",
            code=USAGE,
        )


async def in_transaction(
    producer: TransactionalProducer, write_all: Callable[[Producer], Awaitable[None]]
) -> None:
    """Committed when the input ends; aborted whatever else ends it, Ctrl-C too."""
    await producer.begin()
    try:
        await write_all(producer)
    except BaseException:
        with contextlib.suppress(ClientError):  # then its coordinator aborts it by itself
            await producer.abort()
        raise
    await producer.commit()


class Span:
    """What one partition got."""

    __slots__ = ("first_offset", "next_offset", "records")

    def __init__(self) -> None:
        self.first_offset = -1
        self.next_offset = -1
        self.records = 0


def note(totals: dict[int, Span], written: Written) -> None:
    span = totals.setdefault(written.partition, Span())
    span.records += written.records
    if written.base_offset >= 0:
        if span.first_offset < 0:
            span.first_offset = written.base_offset
        span.next_offset = written.base_offset + written.records


def report(topic: str, totals: dict[int, Span], *, output: str) -> None:
    records = sum(span.records for span in totals.values())
    if output == "json":
        print_json(
            {
                "topic": topic,
                "records": records,
                "partitions": [
                    {
                        "partition": index,
                        "records": span.records,
                        "first_offset": span.first_offset if span.first_offset >= 0 else None,
                        "next_offset": span.next_offset if span.next_offset >= 0 else None,
                    }
                    for index, span in sorted(totals.items())
                ],
            }
        )
        return
    places = [
        f"{topic}-{index} [{span.first_offset}, {span.next_offset})"
        for index, span in sorted(totals.items())
        if span.first_offset >= 0
    ]
    click.echo(" · ".join([f"{plural(records, 'record')} written", *places]))


def reader_of(given: dict[str, Any]) -> Reader:
    key, partition = given["key"], given["partition"]
    if given["as_json"] and given["template"] is not None:
        raise CommandError(
            "--json and --format exclude each other",
            why="a line is either a json object or looks like a format",
            advice="one of them",
            code=USAGE,
        )
    if given["as_json"]:
        return json_reader(key, partition)
    if given["template"] is None:
        return line_reader(key, partition)
    try:
        return format_reader(given["template"], key, partition)
    except BadFormat as reason:
        raise CommandError(
            f"wrong value for --format: {given['template']}",
            why=str(reason),
            advice="--format '%k:%v'",
            code=USAGE,
        ) from None


def parse_rate(text: str | None) -> float | None:
    if text is None:
        return None
    match = RATE.fullmatch(text.strip())
    if match is None or float(match.group(1)) <= 0:
        raise CommandError(
            f"wrong value for --rate: {text}",
            why="a rate is a number of records per second",
            advice="--rate 5/s",
            code=USAGE,
        )
    return float(match.group(1))


async def batches(given: dict[str, Any], reader: Reader) -> AsyncIterator[list[NewRecord]]:
    """Records as they come, in pieces that are fit to be sent."""
    left = given["count"]
    if given["value"] is not None:
        for number in range(1, (left or 1) + 1):
            yield [reader(given["value"].replace("{}", str(number)).encode())]
        return
    line_number = 0
    async for lines in input_lines():
        records = []
        for line in lines if left is None else lines[:left]:
            line_number += 1
            records.append(read_line(reader, line, line_number))
        for batch in split(records):
            yield batch
        if left is not None:
            left -= len(records)
            if left <= 0:
                return


def read_line(reader: Reader, line: bytes, number: int) -> NewRecord:
    try:
        return reader(line)
    except BadRecord as reason:
        raise CommandError(
            f"line {number} is no record",
            why=str(reason),
            advice="the lines before it have been written; go on from this one",
        ) from None


def split(records: list[NewRecord]) -> Iterator[list[NewRecord]]:
    batch: list[NewRecord] = []
    size_bytes = 0
    for record in records:
        weight = len(record.value or b"") + len(record.key or b"")
        if batch and (len(batch) >= BATCH_RECORDS or size_bytes + weight > BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(record)
        size_bytes += weight
    if batch:
        yield batch


async def paced(
    source: AsyncIterator[list[NewRecord]], rate: float | None
) -> AsyncIterator[list[NewRecord]]:
    """The same records, no faster than so many per second."""
    if rate is None:
        async for batch in source:
            yield batch
        return
    begin, sent = time.monotonic(), 0
    size = max(1, int(rate / 20))
    async for batch in source:
        for start in range(0, len(batch), size):
            piece = batch[start : start + size]
            due = begin + sent / rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            yield piece
            sent += len(piece)


async def input_lines() -> AsyncIterator[list[bytes]]:
    """Lines of the standard input as soon as they are there, without waiting for more.

    On a thread that nobody waits for: a read that never returns must not keep Ctrl-C from ending
    the command.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes] = asyncio.Queue(maxsize=4)
    read = input_reader()

    def pump() -> None:
        while True:
            data = read()
            asyncio.run_coroutine_threadsafe(arrived.put(data), loop).result()
            if not data:
                return

    threading.Thread(target=pump, name="stdin", daemon=True).start()
    rest = b""
    while data := await arrived.get():
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]


def input_reader() -> Callable[[], bytes]:
    """Bytes that are there; none at the end. Past Python's buffer, whose lock a thread that is
    never joined would hold for ever."""
    try:
        descriptor = sys.stdin.fileno()
    except OSError:
        whole = iter((sys.stdin.buffer.read(), b""))  # not a real file
        return lambda: next(whole)
    return lambda: os.read(descriptor, READ_BYTES)
