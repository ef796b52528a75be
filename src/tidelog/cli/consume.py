"""`tidelog consume`"""

import sys
import time
from collections.abc import Callable
from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.durations import DURATION
from tidelog.cli.failure import NOT_REACHED, USAGE, CommandError
from tidelog.cli.lazy import shared_options
from tidelog.cli.offsets import Position, parse_position, resolve
from tidelog.cli.output import plural
from tidelog.cli.record_format import BadFormat, Writer, compile_format
from tidelog.cli.record_input import as_json
from tidelog.cli.topic.describe import named_topic
from tidelog.client import Client, Consumer, Read
from tidelog.client.consumer import TopicPartition
from tidelog.client.offsets import READ_COMMITTED, READ_UNCOMMITTED

POLL_MS = 250


@click.command(name="consume")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…")
@click.option(
    "--from",
    "start",
    metavar="POSITION",
    default="end",
    show_default=True,
    help="start, end, 1041, +5, -5, @-1h, @2026-01-31T10:00.",
)
@click.option("--to", "stop", metavar="POSITION", help="Stop before it; never if not given.")
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after so many records.")
@click.option("-p", "--partition", "chosen", type=int, multiple=True, help="Only this one.")
@click.option(
    "-f",
    "--format",
    "template",
    metavar="FORMAT",
    default="%v\\n",
    show_default=True,
    help="%t %p %o %k %v %h %d %e %] …",
)
@click.option("--json", "wants_json", is_flag=True, help="One json object per line, lossless.")
@click.option("--read-committed", is_flag=True, help="Nothing of open or aborted transactions.")
@click.option("--idle", "idle_ms", type=DURATION, help="Give up after so long without a record.")
@asks_cluster
@shared_options
def command(asking: Asking, **given: Any) -> None:
    """Read records and print them.

    \b
    Examples:
      tidelog consume orders --from start --to end
      tidelog consume orders --from @-1h -f '%p %o %k %v\\n'
      tidelog consume orders --from -5 -n 5 --json

    Ends with exit code 4 if --idle passes before -n or --to is reached.
    """
    begin = parse_position(given["start"], option="--from")
    end = None if given["stop"] is None else parse_position(given["stop"], option="--to")
    write = writer_of(given)

    async def consume(client: Client) -> None:
        positions, ends = await plan(client, given, begin, end)
        await Reading(given, write, ends).run(client, positions)

    asking.run(consume)


def writer_of(given: dict[str, Any]) -> Writer:
    if given["wants_json"]:
        return lambda read: as_json(read).encode() + b"\n"
    try:
        return compile_format(given["template"])
    except BadFormat as reason:
        raise CommandError(
            f"wrong value for --format: {given['template']}",
            why=str(reason),
            advice="--format '%p %o %k %v\\n'",
            code=USAGE,
        ) from None


async def plan(
    client: Client, given: dict[str, Any], begin: Position, end: Position | None
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where to begin in each partition, and where to stop."""
    isolation = READ_COMMITTED if given["read_committed"] else READ_UNCOMMITTED
    positions: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for name in given["topics"]:
        topic = await named_topic(client, name)
        known = [each.partition for each in topic.partitions]
        for index in given["chosen"] or known:
            if index not in known:
                raise CommandError(
                    f"{name} has no partition {index}",
                    why=f"it has the partitions 0 to {len(known) - 1}",
                    advice=f"tidelog topic describe {name}",
                    code=USAGE,
                )
            positions[name, index] = await resolve(client, name, index, begin, isolation=isolation)
            if end is not None:
                ends[name, index] = await resolve(client, name, index, end, isolation=isolation)
    return positions, ends


class Reading:
    """One run of the command: what was printed, and when it is enough."""

    __slots__ = ("_ends", "_given", "_left", "_out", "_printed", "_write")

    def __init__(
        self, given: dict[str, Any], write: Writer, ends: dict[TopicPartition, int]
    ) -> None:
        self._given = given
        self._write = write
        self._ends = ends
        self._left: int | None = given["count"]
        self._printed = 0
        self._out: Callable[[bytes], Any] = sys.stdout.buffer.write

    async def run(self, client: Client, positions: dict[TopicPartition, int]) -> None:
        consumer = Consumer(client, positions, committed=self._given["read_committed"])
        last = time.monotonic()
        while self._drop_finished(consumer):
            before = self._printed
            for fetched in (await consumer.read(max_wait_ms=POLL_MS)).values():
                for read in fetched.reads:
                    self._take(read)
            if self._printed > before:
                last = time.monotonic()
            sys.stdout.buffer.flush()
            idle_ms = self._given["idle_ms"]
            if idle_ms is not None and (time.monotonic() - last) * 1000 >= idle_ms:
                self._give_up(idle_ms)

    def _take(self, read: Read) -> None:
        end = self._ends.get((read.topic, read.partition))
        if self._left == 0 or (end is not None and read.record.offset >= end):
            return
        self._out(self._write(read))
        self._printed += 1
        if self._left is not None:
            self._left -= 1

    def _drop_finished(self, consumer: Consumer) -> bool:
        """False when there is nothing left to wait for."""
        if self._left == 0:
            return False
        for where, end in self._ends.items():
            if consumer.positions.get(where, end) >= end:
                consumer.positions.pop(where, None)
        return bool(consumer.positions)

    def _give_up(self, idle_ms: int) -> None:
        raise CommandError(
            f"no record for {idle_ms / 1000:g} s",
            why=f"{plural(self._printed, 'record')} read, more were asked for",
            advice="a longer --idle, or --to end",
            code=NOT_REACHED,
        )
