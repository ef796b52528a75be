"""`tidelog audit run`: load with faults on a cluster, and the verdict on it."""

import asyncio
import time
from pathlib import Path
from typing import Any, NamedTuple

import click

from tidelog.audit import run as audit_run
from tidelog.audit.disturbance import KINDS, Disturbance
from tidelog.audit.history import file
from tidelog.audit.history.file import ArrowMissing
from tidelog.audit.history.read_back import NotDrained
from tidelog.audit.run import Audited
from tidelog.audit.workload import Reached, Work
from tidelog.cli.asking import Asking
from tidelog.cli.audit.given_cluster import cluster_options, given_cluster
from tidelog.cli.audit.undecided import undecided
from tidelog.cli.audit.verdict import print_findings
from tidelog.cli.durations import DURATION
from tidelog.cli.failure import (
    NOT_REACHED,
    OK,
    UNREACHABLE,
    USAGE,
    VIOLATION,
    CommandError,
    unknown_name,
)
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.local.own import own_nodes
from tidelog.cli.local.up import interrupts
from tidelog.cli.output import plural, print_json
from tidelog.cli.progress import Progress
from tidelog.client import Admin, Client, ClientError
from tidelog.cluster.faults import ControlFailed
from tidelog.cluster.nodes import LocalNodes, NodeFailed
from tidelog.cluster.readiness import wait_ready
from tidelog.host.ports import NetworkError

BROKERS = 3
READY_WITHIN_MS = 30_000


class RunOptions(NamedTuple):
    """The command's options, as click found them."""

    duration_ms: int
    chaos: str | None
    history: Path | None
    bootstrap: str | None
    command_config: str | None
    timeout_ms: int
    rate: int
    partitions: int
    keep: bool
    output: str


@click.command(name="run")
@click.option(
    "--for", "duration_ms", type=DURATION, default="60s", show_default=True, help="How long."
)
@click.option("--chaos", metavar="KIND,…", help=f"Faults: {', '.join(KINDS)}.")
@click.option(
    "--history",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write down, as Parquet, what every client did and was told.",
)
@cluster_options
@click.option(
    "--rate",
    type=click.IntRange(1, 1_000_000),
    default=Work("").rate,
    show_default=True,
    help="Records per second.",
)
@click.option(
    "--partitions", type=click.IntRange(1, 100), default=Work("").partitions, show_default=True
)
@click.option("--keep", is_flag=True, help="Leave the cluster's data, or with -b the topic.")
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Write, read and break, then prove that every promise was kept.

    \b
    Examples:
      tidelog audit run --for 60s --chaos kill,pause,partition
      tidelog audit run --for 10s --history history.parquet
      tidelog audit run -b 127.0.0.1:9092
      tidelog audit run --command-config client.properties

    A cluster of three brokers is started for it and removed afterwards, unless -b or the
    bootstrap.servers of --command-config name one, which is never broken. Some records are written
    in transactions, and every fourth of those is aborted. Exit code 5 if a promise was broken.
    """
    options = RunOptions(**given)
    given_one = given_cluster(options.bootstrap, options.timeout_ms, options.command_config)
    kinds = parse_kinds(options, breakable=given_one is None)
    check_history(options.history)
    audited = on_own(options, kinds) if given_one is None else on_given(options, given_one)
    if options.history is not None:
        file.write(options.history, audited.rows)
    tell(audited, options)
    context.exit(OK if audited.findings.holds else VIOLATION)


def parse_kinds(options: RunOptions, *, breakable: bool) -> list[str]:
    kinds = [each.strip() for each in (options.chaos or "").split(",") if each.strip()]
    for kind in kinds:
        if kind not in KINDS:
            raise unknown_name("fault", kind, list(KINDS), advice="--chaos kill,pause")
    if kinds and not breakable:
        raise CommandError(
            "--chaos together with a cluster that is there already",
            why="only a cluster that was started for the purpose is broken on purpose",
            advice=f"tidelog audit run --chaos {options.chaos}",
            code=USAGE,
        )
    return kinds


def check_history(path: Path | None) -> None:
    """Before anything is started: a run whose history cannot be kept is a waste."""
    if path is None:
        return
    try:
        file.schema()
        is_new = not path.exists()
        with path.open("ab"):
            pass
        if is_new:
            path.unlink()
    except ArrowMissing as reason:
        raise CommandError(
            "no history can be written", why=str(reason), advice=file.ADVICE
        ) from None
    except OSError as reason:
        raise CommandError(
            f"{path} cannot be written",
            why=str(reason.strerror or reason),
            advice="--history with another place",
            code=USAGE,
        ) from None


def on_given(options: RunOptions, asking: Asking) -> Audited:
    """On a cluster that is there; the topic goes when all is well."""
    work = make_work(options, f"tidelog-audit-{time.time_ns():x}")
    assert asking.bootstrap is not None, "a cluster without an address"
    cluster = Reached(asking.bootstrap, asking.properties)

    async def audit(client: Client) -> Audited:
        audited = await audited_run(cluster, work, options, None)
        if audited.findings.holds and not options.keep:
            await Admin(client).delete_topic(work.topic)
        return audited

    try:
        return asking.run(audit)
    except NotDrained as reason:
        raise undecided(reason) from None
    except TimeoutError:
        raise too_slow() from None


def on_own(options: RunOptions, kinds: list[str]) -> Audited:
    work = make_work(options, "audit")
    with interrupts(), own_nodes("audit", BROKERS, keep=options.keep) as nodes:
        disturbance = None
        if kinds:
            disturbance = Disturbance(nodes, work.topic, kinds, tell_fault)

        async def audit() -> Audited:
            nodes.start(nodes.node_ids, attached=True)
            await wait_ready(nodes, timeout_ms=READY_WITHIN_MS)
            cluster = Reached(nodes.state.bootstrap_servers)
            return await audited_run(cluster, work, options, disturbance)

        try:
            return asyncio.run(audit())
        except NodeFailed as failure:
            show_lines(nodes, failure.node_id)
            raise stuck(str(failure), failure.why, UNREACHABLE) from None
        except (NotDrained, ControlFailed, ClientError, NetworkError) as reason:
            raise stuck("the cluster did not get on", str(reason), NOT_REACHED) from None
        except TimeoutError:
            raise too_slow() from None


async def audited_run(
    cluster: Reached, work: Work, options: RunOptions, disturbance: Disturbance | None
) -> Audited:
    seconds = options.duration_ms / 1000
    with Progress("records acknowledged", None, seconds=seconds) as progress:
        return await audit_run.run(
            cluster,
            work,
            seconds=seconds,
            disturbance=disturbance,
            on_progress=progress.update,
        )


def make_work(options: RunOptions, topic: str) -> Work:
    return Work(topic, partitions=options.partitions, rate=options.rate)


def tell_fault(line: str) -> None:
    click.echo(line, err=True)


def tell(audited: Audited, options: RunOptions) -> None:
    if options.output == "json":
        history = None if options.history is None else str(options.history)
        document = audited.findings.as_document()
        print_json({**document, "faults": audited.faults, "history": history})
        return
    print_findings(audited.findings)
    if audited.faults:
        click.echo(f"{plural(audited.faults, 'fault')} on the way")
    if options.history is not None:
        click.echo(f"{plural(len(audited.rows), 'row')} in {options.history}")


def show_lines(nodes: LocalNodes, node_id: int) -> None:
    for line in nodes.last_lines(node_id):
        click.echo(f"  node {node_id} │ {line}", err=True)


def too_slow() -> CommandError:
    why = "after everything was healed, the clients did not come to an end"
    return stuck("the cluster did not get on", why, NOT_REACHED)


def stuck(what: str, why: str, code: int) -> CommandError:
    advice = "tidelog audit run --keep, and the logs of the nodes"
    return CommandError(what, why=why, advice=advice, code=code)
