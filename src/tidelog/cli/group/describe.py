"""`tidelog group describe`"""

import time
from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.durations import DURATION
from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.output import count, plural
from tidelog.cli.tables import JSON, TSV, Column, show
from tidelog.cli.watching import watch_option, watched
from tidelog.client import Client
from tidelog.client.groups import GroupMember
from tidelog.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from tidelog.survey.groups import GroupSurvey, PartitionLag, survey
from tidelog.survey.lag_state import LagWindow, one_look

COLUMNS = (
    Column("PARTITION", "name"),
    Column("COMMITTED", "committed"),
    Column("END", "end"),
    Column("LAG", "lag"),
    Column("STATE", "state"),
    Column("MEMBER", "member_id"),
    Column("CLIENT", "client_id"),
    Column("HOST", "host"),
    Column("INSTANCE", "instance_id", wide=True),
)


@click.command(name="describe")
@click.argument("names", nargs=-1, required=True, metavar="GROUP…")
@click.option("--read-committed", is_flag=True, help="Lag up to the last stable offset.")
@click.option(
    "--window",
    "window_ms",
    type=DURATION,
    default="10s",
    show_default=True,
    help="With --watch: how long to look before a state is told.",
)
@asks_cluster
@watch_option
@table_option
@shared_options
def command(asking: Asking, **given: Any) -> None:
    """Show who is in a group, what it has committed, and how far behind it is.

    \b
    Examples:
      tidelog group describe billing
      tidelog group describe billing --watch --window 30s
      tidelog group describe billing -o json

    With --watch the state of a partition is OK, WARN (falling behind), STALL (its member commits
    nothing new), STOP (nobody reads it) or REWIND (its offset went back). One look alone says
    only whether it is behind.
    """
    isolation = READ_COMMITTED if given["read_committed"] else READ_UNCOMMITTED
    windows = {name: LagWindow(given["window_ms"]) for name in given["names"]}
    output, watch = given["output"], given["watch"]

    async def look(client: Client) -> list[GroupSurvey]:
        return [await survey(client, name, isolation=isolation) for name in given["names"]]

    def once() -> None:
        documents = [
            as_document(found, windows[found.group.group_id] if watch else None)
            for found in asking.run(look)
        ]
        if output == JSON:
            show(output, documents, COLUMNS, [])
            return
        for document in documents:
            head = "" if output == TSV else head_of(document)
            show(output, document, COLUMNS, document["partitions"], head=head)

    watched(once, watch=watch)


def as_document(
    found: GroupSurvey, window: LagWindow | None, now_ms: int | None = None
) -> dict[str, Any]:
    group = found.group
    now_ms = int(time.time() * 1000) if now_ms is None else now_ms
    states = None if window is None else window.add(found.partitions, now_ms)
    return {
        "group": group.group_id,
        "type": group.kind,
        "state": group.state,
        "coordinator": group.coordinator,
        "assignor": group.assignor or None,
        "epoch": group.epoch,
        "lag": found.lag,
        "judgement": None if window is None else window.words(now_ms),
        "members": [member_document(each) for each in group.members],
        "partitions": [
            partition_row(each, one_look(each) if states is None else states.get(each.where))
            for each in found.partitions
        ],
    }


def member_document(member: GroupMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "host": member.host,
        "instance_id": member.instance_id,
        "epoch": member.epoch,
        "topics": list(member.topics),
        "partitions": [f"{topic}-{index}" for topic, index in member.partitions],
    }


def partition_row(partition: PartitionLag, state: str | None) -> dict[str, Any]:
    member = partition.member
    return {
        "name": partition.name,
        "topic": partition.topic,
        "partition": partition.partition,
        "committed": partition.committed,
        "end": partition.end,
        "lag": partition.lag,
        "state": state,
        "member_id": member.member_id if member else None,
        "client_id": member.client_id if member else None,
        "host": member.host if member else None,
        "instance_id": member.instance_id if member else None,
    }


def head_of(document: dict[str, Any]) -> str:
    """`billing · Stable · 2 members · coordinator 2 · lag 118`"""
    lag = document["lag"]
    parts = [
        document["group"],
        document["state"],
        plural(len(document["members"]), "member"),
        f"coordinator {document['coordinator']}",
        "nothing committed" if lag is None else f"lag {count(lag)}",
    ]
    unknown = sum(each["committed"] is None for each in document["partitions"])
    if unknown and lag is not None:
        parts.append(f"{plural(unknown, 'partition')} without an offset")
    if document["judgement"]:
        parts.append(document["judgement"])
    idle = [each["member_id"] for each in document["members"] if not each["partitions"]]
    lines = [" · ".join(parts)]
    if idle:
        lines.append(f"without a partition: {', '.join(idle)}")
    return "\n".join(lines)
