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
from tidelog.cli.output import plural
from tidelog.cli.record_format import BadFormat, Writer, compile_format
from tidelog.cli.record_input import as_json
from tidelog.client import Client, Consumer
from tidelog.client.consumer import Fetched, TopicPartition
from tidelog.client.group_consumer import GroupConsumer
from tidelog.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from tidelog.survey.positions import START, Base, Position, parse_position, resolve
from tidelog.survey.topics import named_topic

POLL_MS = 250


@click.command(name="consume")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…")
@click.option("-g", "--group", metavar="GROUP", help="As a member of it: shared, and committed.")
@click.option(
    "--from",
    "start",
    metavar="POSITION",
    default="end",
    show_default=True,
    help="start, end, 1041, +5, -5, @-1h, @2026-01-31T10:00. With -g: where nothing is committed.",
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
      tidelog consume orders -g billing --from start

    With -g, offsets are committed after what they cover was printed: after a crash, records may
    be printed again, and none is left out. Ctrl-C leaves the group.

    Ends with exit code 4 if --idle passes before -n or --to is reached.
    """
    begin = parse_position(given["start"], option="--from")
    end = None if given["stop"] is None else parse_position(given["stop"], option="--to")
    write = writer_of(given)
    group = given["group"]
    if group is not None and given["chosen"]:
        raise CommandError(
            "--group and --partition exclude each other",
            why="in a group it is the group that gives partitions to its members",
            advice="one of them",
            code=USAGE,
        )

    async def consume(client: Client) -> None:
        if group is None:
            positions, ends = await plan(client, given, begin, end)
            await Reading(given, write, ends).run(client, positions)
            return
        ends = await group_ends(client, given, end)
        await GroupReading(given, write, ends).join(client, group, begin)

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


async def group_ends(
    client: Client, given: dict[str, Any], end: Position | None
) -> dict[TopicPartition, int]:
    """Where to stop; the topics must be there also if nothing stops it."""
    if end is not None:
        return (await plan(client, given, START, end))[1]
    for name in given["topics"]:
        await named_topic(client, name)
    return {}


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

    __slots__ = ("_ends", "_given", "_last", "_left", "_out", "_printed", "_write")

    def __init__(
        self, given: dict[str, Any], write: Writer, ends: dict[TopicPartition, int]
    ) -> None:
        self._given = given
        self._write = write
        self._ends = ends
        self._left: int | None = given["count"]
        self._printed = 0
        self._last = time.monotonic()
        self._out: Callable[[bytes], Any] = sys.stdout.buffer.write

    async def run(self, client: Client, positions: dict[TopicPartition, int]) -> None:
        consumer = Consumer(client, positions, committed=self._given["read_committed"])
        while self._drop_finished(consumer):
            self._print(await consumer.read(max_wait_ms=POLL_MS))

    def _print(self, fetched: dict[TopicPartition, Fetched]) -> dict[TopicPartition, int]:
        """How far each partition is done with. Given up if that is too long ago."""
        before = self._printed
        done = {where: self._take_all(where, each) for where, each in fetched.items()}
        sys.stdout.buffer.flush()
        if self._printed > before:
            self._last = time.monotonic()
        idle_ms = self._given["idle_ms"]
        if idle_ms is not None and (time.monotonic() - self._last) * 1000 >= idle_ms:
            self._give_up(idle_ms)
        return done

    def _take_all(self, where: TopicPartition, fetched: Fetched) -> int:
        """The offset of the first record that was left, or what comes after all of them."""
        end = self._ends.get(where)
        for read in fetched.reads:
            if self._left == 0 or (end is not None and read.record.offset >= end):
                return read.record.offset
            self._out(self._write(read))
            self._printed += 1
            if self._left is not None:
                self._left -= 1
        return fetched.next_offset

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


class GroupReading(Reading):
    """The same as a member of a group: what was printed is committed."""

    __slots__ = ()

    async def join(self, client: Client, group: str, begin: Position) -> None:
        committed_only = self._given["read_committed"]
        isolation = READ_COMMITTED if committed_only else READ_UNCOMMITTED

        begun: dict[TopicPartition, int] = {}

        async def first_offset(topic: str, index: int, committed: int | None) -> int:
            position = begin if committed is None else Position(Base.OFFSET, committed)
            offset = await resolve(client, topic, index, position, isolation=isolation)
            if committed is None:
                begun[topic, index] = offset  # or the next member would begin somewhere else
            return offset

        topics = self._given["topics"]
        async with GroupConsumer(
            client, group, topics, first_offset, committed=committed_only
        ) as consumer:
            generation = consumer.generation
            while not self._is_enough(consumer):
                fetched = await consumer.read(max_wait_ms=POLL_MS)
                if consumer.generation != generation:
                    generation = consumer.generation
                    tell_assignment(group, consumer)
                done = self._print(fetched)
                moved = {w: done[w] for w in done if done[w] > fetched[w].from_offset}
                await consumer.commit({**begun, **moved})
                begun.clear()

    def _is_enough(self, consumer: GroupConsumer) -> bool:
        """Partitions that were added meanwhile are beyond the end that was asked for."""
        if self._left == 0:
            return True
        if not self._ends or not consumer.positions:
            return False
        return all(at >= self._ends.get(where, 0) for where, at in consumer.positions.items())


def tell_assignment(group: str, consumer: GroupConsumer) -> None:
    """On stderr: who looks on sees why records come or do not."""
    owned = ", ".join(f"{topic}-{index}" for topic, index in sorted(consumer.positions))
    told = (
        f"{group} · generation {consumer.generation} · {owned or 'no partition is left for this'}"
    )
    click.echo(told, err=True)
