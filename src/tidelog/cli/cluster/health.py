"""`tidelog cluster health`"""

import asyncio
import time
from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.failure import ERROR, NOT_REACHED, OK, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import print_json
from tidelog.client import Client, ClusterUnreachable
from tidelog.survey.cluster import survey
from tidelog.survey.health import complaints

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


def as_document(found: list[str]) -> dict[str, Any]:
    return {"healthy": not found, "complaints": found}
