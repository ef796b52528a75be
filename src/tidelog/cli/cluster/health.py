"""`tidelog cluster health`"""

import asyncio
import time
from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.cluster.survey import Survey, survey
from tidelog.cli.failure import ERROR, NOT_REACHED, OK, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import print_json
from tidelog.cli.partition_state import OFFLINE, UNDER_MIN_ISR
from tidelog.client import Client, ClusterUnreachable
from tidelog.client.admin import QuorumView

POLL_SECONDS = 0.1
SHOWN = 10


@click.command(name="health")
@click.option("--wait", is_flag=True, help="Until all is well, or --timeout.")
@asks_cluster
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, *, asking: Asking, wait: bool, output: str) -> None:
    """Say what is wrong with the cluster, worst first, and what to do.

    \b
    Examples:
      tidelog cluster health
      tidelog cluster health --wait --timeout 30s

    Ends with exit code 1 if something is wrong, 3 if the cluster cannot be reached, 4 if --wait
    did not help.
    """

    async def look(client: Client) -> list[str]:
        deadline = time.monotonic() + asking.timeout_ms / 1000
        while True:
            # Silence that is not waited out is no state of the cluster, but exit code 3.
            found = await (complaints_or_silence(client) if wait else complaints_of(client))
            if not found or not wait or time.monotonic() >= deadline:
                return found
            await asyncio.sleep(POLL_SECONDS)

    found = asking.run(look)
    if output == "json":
        print_json(as_document(found))
    elif found:
        for complaint in found[:SHOWN]:
            click.echo(complaint)
        if len(found) > SHOWN:
            click.echo(f"and {len(found) - SHOWN} more")
    else:
        click.echo("healthy")
    if found and wait:
        raise CommandError(
            f"not healthy after {asking.timeout_ms / 1000:g} s",
            why=found[0],
            advice="tidelog cluster describe, or a longer --timeout",
            code=NOT_REACHED,
        )
    context.exit(ERROR if found else OK)


async def complaints_of(client: Client) -> list[str]:
    return complaints(await survey(client))


async def complaints_or_silence(client: Client) -> list[str]:
    try:
        return await complaints_of(client)
    except ClusterUnreachable as silence:
        return [f"{silence.addresses} cannot be reached: {silence.reason}"]


def complaints(found: Survey) -> list[str]:
    """Sentences, worst first."""
    offline = [pair for pair in found.unwell if pair[1].state == OFFLINE]
    under_min = [pair for pair in found.unwell if pair[1].state == UNDER_MIN_ISR]
    others = [pair for pair in found.unwell if pair not in offline and pair not in under_min]
    sentences = [
        f"{each.topic}-{each.partition} {judgement}"
        for group in (offline, under_min)
        for each, judgement in group
    ]
    sentences += [f"broker {broker.id} is down" for broker in found.brokers if not broker.alive]
    sentences += [str(disk) for broker in found.brokers for disk in broker.full_disks]
    if found.quorum is not None and found.quorum.leader < 0:
        sentences.append("the quorum has no leader")
    sentences += silent_controllers(found.quorum)
    sentences += [f"{each.topic}-{each.partition} {judgement}" for each, judgement in others]
    return sentences


def silent_controllers(quorum: QuorumView | None) -> list[str]:
    """Of a cluster that just started: a node that never came is no broker that is down."""
    if quorum is None or quorum.leader < 0:
        return []
    return [
        f"controller {each.id} was not heard yet by {quorum.leader}, the active one"
        for each in quorum.voters
        if each.log_end_offset < 0
    ]


def as_document(found: list[str]) -> dict[str, Any]:
    return {"healthy": not found, "complaints": found}
