"""`tidelog bench failover`: kill leaders under load; nothing lost, and how long it took."""

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import click

from tidelog.bench import load as loads
from tidelog.bench.failover import KILL, PAUSE, STOP, NoRecovery, Outcome, Plan, Round, run, share
from tidelog.bench.load import LibrdkafkaLoad, Load, OwnLoad
from tidelog.cli.failure import OK, UNREACHABLE, VIOLATION, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import count, plural, print_json
from tidelog.cluster import layout
from tidelog.cluster.layout import Shape
from tidelog.cluster.nodes import LocalNodes, NodeFailed
from tidelog.cluster.readiness import wait_ready

START_WITHIN_MS = 30_000
SHOWN_MAX = 5


@click.command(name="failover")
@click.option("--kills", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--stops", type=click.IntRange(min=0), help="Clean stops.  [default: kills / 4]")
@click.option("--rate", type=click.IntRange(min=10), default=500, show_default=True)
@click.option(
    "--client",
    type=click.Choice([loads.LIBRDKAFKA, loads.OWN]),
    help="Who writes.  [default: librdkafka if confluent-kafka is installed]",
)
@click.option(
    "--client-defaults", is_flag=True, help="librdkafka as it comes, not set for a quick return."
)
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Kill the leader again and again under acks=all load, and look for what is missing.

    A cluster of three brokers is started for it and removed afterwards. After the kills the
    leader is stopped in order a few times, and paused for two seconds, which must not cost it
    its place. Exit code 5: something was lost, duplicated, reordered or is not the same on all
    replicas.

    \b
    Examples:
      tidelog bench failover
      tidelog bench failover --kills 5 --client-defaults -o json
    """
    client = given["client"] or loads.best_client()
    settings = loads.DEFAULTS if given["client_defaults"] else loads.FAST
    stops = given["kills"] // 4 if given["stops"] is None else given["stops"]
    plan = Plan(given["kills"], stops)

    def make_load(bootstrap_servers: str, topic: str) -> Load:
        if client == loads.OWN:
            return OwnLoad(bootstrap_servers, topic, given["rate"])
        return LibrdkafkaLoad(bootstrap_servers, topic, given["rate"], settings)

    outcome = on_new_cluster(make_load, plan)
    document = as_document(outcome, client, dict(settings) if client == loads.LIBRDKAFKA else {})
    if given["output"] == "json":
        print_json(document)
    else:
        report(outcome, document)
    context.exit(OK if outcome.is_clean else VIOLATION)


def on_new_cluster(make_load: Any, plan: Plan) -> Outcome:
    directory = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
    nodes = LocalNodes(directory, layout.create(directory, "bench", Shape(brokers=3)))

    async def measure() -> Outcome:
        nodes.start(nodes.node_ids, attached=True)
        await wait_ready(nodes, timeout_ms=START_WITHIN_MS)
        return await run(nodes, make_load, plan, tell_round)

    try:
        return asyncio.run(measure())
    except (NodeFailed, NoRecovery) as failure:
        last = [line for node_id in nodes.node_ids for line in nodes.last_lines(node_id, 5)]
        for line in last:
            click.echo(f"  │ {line}", err=True)
        raise CommandError(
            str(failure),
            why="the cluster did not come back",
            advice="the last lines of its nodes are above",
            code=UNREACHABLE,
        ) from None
    finally:
        for node_id in nodes.node_ids:
            nodes.kill(node_id)
        nodes.close()
        shutil.rmtree(directory, ignore_errors=True)


def tell_round(done: Round) -> None:
    if done.fault == PAUSE:
        kept = "still leads" if done.successor == done.leader else f"lost it to {done.successor}"
        click.echo(f"{done.number:>3}  {done.fault} leader {done.leader} for 2 s: {kept}", err=True)
        return
    click.echo(
        f"{done.number:>3}  {done.fault} leader {done.leader}: {done.gap_ms:5.0f} ms without an "
        f"acknowledgement, {done.successor} leads, back in the ISR {done.back_ms / 1000:.1f} s "
        "after its start",
        err=True,
    )


def as_document(outcome: Outcome, client: str, settings: dict[str, object]) -> dict[str, Any]:
    replicas = outcome.replicas
    return {
        "client": client,
        "client_settings": settings,
        "clean": outcome.is_clean,
        "acknowledged": outcome.acknowledged,
        "failed": outcome.failures,
        **{name: len(found) for name, found in outcome.delivery._asdict().items()},
        "replicas": replicas._asdict(),
        "elections_by_pause": outcome.elections_by_pause,
        "gap_ms": {fault: figures(outcome.gaps(fault)) for fault in (KILL, STOP)},
        "rounds": [each._asdict() for each in outcome.rounds],
    }


def figures(gaps: list[float]) -> dict[str, float]:
    return {
        "count": len(gaps),
        "median": round(share(gaps, 0.5), 1),
        "p90": round(share(gaps, 0.9), 1),
        "max": round(gaps[-1], 1) if gaps else 0.0,
    }


def report(outcome: Outcome, document: dict[str, Any]) -> None:
    for fault, found in document["gap_ms"].items():
        if found["count"]:
            click.echo(
                f"{fault} × {found['count']}: median {found['median']:.0f} ms, "
                f"p90 {found['p90']:.0f} ms, max {found['max']:.0f} ms without an acknowledgement"
            )
    delivery, replicas = outcome.delivery, outcome.replicas
    click.echo(
        f"{plural(outcome.acknowledged, 'record')} acknowledged through {document['client']} · "
        f"{len(delivery.lost)} lost · {len(delivery.duplicated)} duplicated · "
        f"{len(delivery.reordered)} reordered · {len(outcome.failures)} failed"
    )
    for name, found in delivery._asdict().items():
        if found:
            click.echo(f"  {name}: {', '.join(map(str, found[:SHOWN_MAX]))} …")
    for failure in outcome.failures[:SHOWN_MAX]:
        click.echo(f"  failed: {failure}")
    where = ""
    if replicas.first_difference is not None:
        where = f" in [{replicas.first_difference}, {replicas.last_difference})"
    click.echo(
        f"replicas: {replicas.verdict}{where}, {count(replicas.compared_bytes)} bytes each · "
        f"elections caused by a pause: {outcome.elections_by_pause}"
    )
