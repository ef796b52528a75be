"""`tidelog bench silence`: how long brokers do not answer while something large happens."""

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import click

from tidelog.bench.silence.run import NotDone, Outcome, Sizes, run
from tidelog.cli.failure import OK, UNREACHABLE, VIOLATION, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import plural, print_json, table
from tidelog.client import ClientError
from tidelog.cluster import layout
from tidelog.cluster.layout import Shape
from tidelog.cluster.nodes import LocalNodes, NodeFailed
from tidelog.cluster.readiness import wait_ready

START_WITHIN_MS = 60_000


@click.command(name="silence")
@click.option("--topics", type=click.IntRange(min=1), default=150, show_default=True)
@click.option("--partitions", type=click.IntRange(min=1), default=4, show_default=True)
@click.option(
    "--names",
    type=click.IntRange(min=1),
    default=200_000,
    show_default=True,
    help="Names in the one large Metadata request.",
)
@click.option(
    "--bar-ms",
    type=click.IntRange(min=1),
    help="Fail if a broker is silent for longer, or is fenced.",
)
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Ask every broker every 20 ms while topics are created, altered and deleted.

    A cluster of three brokers is started for it and removed afterwards. All topics are created
    with one request and deleted with one; in between `cleanup.policy` of one topic is changed,
    then `log.cleanup.policy` of one broker, and a client asks for the metadata of very many topics
    that do not exist. The column "machine" is how late the prober itself was woken: on a busy
    machine silence up to that is nobody's fault. Exit code 5, with --bar-ms only: somebody was
    silent for longer, or was fenced.

    \b
    Examples:
      tidelog bench silence
      tidelog bench silence --topics 50 --bar-ms 250 -o json
    """
    outcome = on_new_cluster(Sizes(given["topics"], given["partitions"], given["names"]))
    if given["output"] == "json":
        print_json(as_document(outcome))
    else:
        report(outcome)
    bar_ms = given["bar_ms"]
    is_fine = bar_ms is None or (outcome.worst_ms <= bar_ms and not outcome.fenced)
    context.exit(OK if is_fine else VIOLATION)


def on_new_cluster(sizes: Sizes) -> Outcome:
    directory = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
    nodes = LocalNodes(directory, layout.create(directory, "bench", Shape(brokers=3)))

    async def measure() -> Outcome:
        nodes.start(nodes.node_ids, attached=True)
        await wait_ready(nodes, timeout_ms=START_WITHIN_MS)
        return await run(nodes, sizes, lambda phase: click.echo(f"{phase} …", err=True))

    try:
        return asyncio.run(measure())
    except (NodeFailed, NotDone, ClientError) as failure:
        for node_id in nodes.node_ids:
            for line in nodes.last_lines(node_id, 5):
                click.echo(f"  │ {line}", err=True)
        raise CommandError(
            str(failure),
            why="the cluster did not do what it was asked for",
            advice="the last lines of its nodes are above; fewer --topics",
            code=UNREACHABLE,
        ) from None
    finally:
        for node_id in nodes.node_ids:
            nodes.kill(node_id)
        nodes.close()
        shutil.rmtree(directory, ignore_errors=True)


def as_document(outcome: Outcome) -> dict[str, Any]:
    return {
        "worst_ms": round(outcome.worst_ms, 1),
        "fenced": outcome.fenced,
        "holds": outcome.holds,
        "phases": [
            {
                "phase": phase.name,
                "seconds": round(phase.took_s, 2),
                "silence_ms": {
                    str(node_id): round(ms, 1) for node_id, ms in phase.silence_ms.items()
                },
                "machine_ms": round(phase.machine_ms, 1),
                "processor_seconds": round(phase.cpu_s, 2),
            }
            for phase in outcome.phases
        ],
    }


def report(outcome: Outcome) -> None:
    brokers = list(outcome.phases[0].silence_ms)
    headers = ["phase", "took", *(f"broker {each}" for each in brokers), "machine", "processor"]
    rows = [
        [
            phase.name,
            f"{phase.took_s:.1f} s",
            *(f"{phase.silence_ms[each]:.0f} ms" for each in brokers),
            f"{phase.machine_ms:.0f} ms",
            f"{phase.cpu_s:.1f} s",
        ]
        for phase in outcome.phases
    ]
    table(headers, rows)
    for line in (*outcome.holds, *outcome.fenced):
        click.echo(f"  {line}")
    click.echo(
        f"longest silence {outcome.worst_ms:.0f} ms · "
        f"{plural(len(outcome.fenced), 'broker')} fenced"
    )
