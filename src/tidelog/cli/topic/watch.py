"""`tidelog topic watch`: one partition, a line per replica."""

from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster, parse_partition
from tidelog.cli.explain import Facts, gather_facts
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import print_json
from tidelog.cli.watching import watched
from tidelog.client import Client

SHOWN_OFFSETS = 3


@click.command(name="watch")
@click.argument("name", metavar="TOPIC-PARTITION")
@click.option("--once", is_flag=True, help="Draw it once.")
@asks_cluster
@output_option
@shared_options
def command(asking: Asking, name: str, once: bool, output: str) -> None:
    """Draw a partition again every second: the crown leads, the bar is the high watermark.

    \b
    Examples:
      tidelog topic watch orders-0
      tidelog topic watch orders-0 --once -o json
    """
    topic, index = parse_partition(name)

    async def look(client: Client) -> Facts:
        return await gather_facts(client, topic, index)

    def draw() -> None:
        rows = rows_of(asking.run(look))
        if output == "json":
            print_json(rows)
            return
        for row in rows:
            click.echo(line_of(row))

    watched(draw, watch=not once)


def rows_of(facts: Facts) -> list[dict[str, Any]]:
    """The leader first, then the others as they are assigned."""
    partition = facts.partition
    order = sorted(partition.replicas, key=lambda each: each != partition.leader)
    return [
        {
            "replica": each,
            "leader": each == partition.leader,
            "state": state_of(facts, each),
            "log_end_offset": end_of(facts, each),
            "high_watermark": facts.high_watermark,
            "leader_epoch": partition.leader_epoch,
        }
        for each in order
    ]


def state_of(facts: Facts, broker: int) -> str:
    if broker not in facts.alive:
        return "down"
    return "ISR" if broker in facts.partition.isr else "lags"


def end_of(facts: Facts, broker: int) -> int | None:
    """As the leader knows it; None if it does not say."""
    if broker == facts.partition.leader:
        end = facts.told.get("log_end_offset", facts.high_watermark)
        return end if isinstance(end, int) else None
    for follower in facts.told.get("followers", ()):
        if isinstance(follower, dict) and follower.get("broker") == broker:
            end = follower.get("log_end_offset")
            return end if isinstance(end, int) and end >= 0 else None
    return None


def line_of(row: dict[str, Any]) -> str:
    """`  3 ♛ ISR   …1039·1040│1041·1042▲`"""
    crown = "♛" if row["leader"] else " "
    end, committed = row["log_end_offset"], row["high_watermark"]
    head = f"  {row['replica']} {crown} {row['state']:<5}"
    if end is None or committed is None:
        return head.rstrip()
    below = range(max(0, min(end, committed) - SHOWN_OFFSETS), min(end, committed))
    above = range(committed, min(end, committed + SHOWN_OFFSETS))
    more = "…" if below and below[0] > 0 else ""
    dots = "…" if end > committed + SHOWN_OFFSETS else ""
    left, right = ("·".join(map(str, offsets)) for offsets in (below, above))
    return f"{head} {more}{left}│{right}{dots}▲"
