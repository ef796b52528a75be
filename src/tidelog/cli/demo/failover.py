"""`tidelog demo --without-spark`: load, a killed leader, an audit and a few simulated clusters."""

import asyncio
import sys
import time
from typing import Any

import click

from tidelog.audit.failover import Failover, Plan, Report
from tidelog.cli import session
from tidelog.cli.failure import ERROR, INTERRUPTED, OK, UNREACHABLE, VIOLATION, CommandError
from tidelog.cli.local.own import own_nodes
from tidelog.cli.local.up import interrupts
from tidelog.cli.output import count, plural, print_json
from tidelog.cli.sim.run import run_with_progress
from tidelog.client import ClientError
from tidelog.cluster.nodes import LocalNodes, NodeFailed
from tidelog.host.ports import NetworkError
from tidelog.sim.fleet import FleetReport, Orders
from tidelog.sim.nodes.run import run_node_seed

BROKERS = 3
LABEL_WIDTH = 10
MEBIBYTE = 1024 * 1024


def run(context: click.Context, *, records: int, seeds: int, jobs: int, keep: bool) -> None:
    as_json = session.current().as_json
    begin = time.monotonic()
    with interrupts(), own_nodes("demo", BROKERS, keep=keep) as nodes:
        report = run_failover(nodes, Plan(records=records), quiet=as_json)
    document = as_document(report)
    simulated = None
    if seeds:
        simulated = run_with_progress(Orders(seeds=seeds, jobs=jobs), run_node_seed, "seeds")
        document["simulated"] = {"seeds": simulated.seeds, "violations": len(simulated.failures)}
    document["seconds"] = round(time.monotonic() - begin, 1)
    document["directory"] = str(nodes.directory) if keep else None
    code = exit_code(report, simulated)
    document["ok"] = code == OK
    if as_json:
        print_json(document)
    else:
        print_report(report, simulated, document)
    context.exit(code)


def exit_code(report: Report, simulated: FleetReport | None) -> int:
    if not report.holds or (simulated is not None and simulated.failures):
        return VIOLATION
    return INTERRUPTED if simulated is not None and simulated.interrupted else OK


def run_failover(nodes: LocalNodes, plan: Plan, *, quiet: bool) -> Report:
    begin = time.monotonic()

    def tell(part: str, line: str) -> None:
        if not quiet:
            click.echo(f"{time.monotonic() - begin:5.1f} s  {part.ljust(LABEL_WIDTH)}{line}")

    try:
        return asyncio.run(Failover(nodes, plan, tell).run())
    except NodeFailed as failure:
        for line in failure.last_lines:
            click.echo(f"  node {failure.node_id} │ {line}", err=True)
        raise stuck(str(failure), failure.why, UNREACHABLE) from None
    except TimeoutError:
        why = "a step took longer than it ever should"
        raise stuck("the cluster did not get on", why, ERROR) from None
    except (ClientError, NetworkError) as error:
        raise stuck("the cluster did not answer", str(error), ERROR) from None


def stuck(what: str, why: str, code: int) -> CommandError:
    advice = "tidelog demo --without-spark --keep, and the logs of the nodes"
    return CommandError(what, why=why, advice=advice, code=code)


def as_document(report: Report) -> dict[str, Any]:
    killed, returned = report.killed, report.returned
    return {
        "ready_ms": round(report.ready_ms),
        "records": report.verdict._asdict(),
        "acknowledged_in_ms": {
            "p50": round(report.ack_p50_ms, 1),
            "p99": round(report.ack_p99_ms, 1),
        },
        "killed": {
            "node": killed.node_id,
            "was_active_controller": killed.was_active_controller,
            "uncommitted_records": killed.uncommitted,
            "election_ms": round(killed.election_ms, 1),
            "longest_silence_ms": round(killed.silence_ms, 1),
        },
        "returned": {
            "serving_ms": round(returned.serving_ms),
            "in_sync_ms": round(returned.in_sync_ms),
            "truncated_records": returned.truncated,
        },
        "replicas": {
            "compared_bytes": sum(each.compared_bytes for each in report.copies),
            "differences": [each.told() for each in report.copies if not each.identical],
        },
        "rss_bytes": {str(node): size for node, size in report.rss_bytes.items()},
        "given_up": report.given_up,
    }


def print_report(report: Report, simulated: FleetReport | None, document: dict[str, Any]) -> None:
    verdict, killed, returned = report.verdict, report.killed, report.returned
    rss = " · ".join(f"{size / MEBIBYTE:.0f} MiB" for size in report.rss_bytes.values())
    compared = sum(each.compared_bytes for each in report.copies)
    differing = [each.told() for each in report.copies if not each.identical]
    rows = [
        ("acknowledged", count(verdict.acknowledged)),
        ("read back", count(verdict.read_back)),
        ("lost", count(verdict.lost)),
        ("duplicated", count(verdict.duplicated)),
        ("out of order", count(verdict.out_of_order)),
        ("at a wrong offset", count(verdict.misplaced)),
        ("never sent", count(verdict.never_sent)),
        ("in doubt", f"{count(verdict.in_doubt)} (sent, never answered)"),
        (
            "replicas",
            f"{count(compared)} bytes below the high watermark, "
            + ("the same on every broker" if not differing else "NOT the same"),
        ),
        ("ready", f"{report.ready_ms / 1000:.1f} s from nothing to {BROKERS} brokers"),
        ("election", f"{killed.election_ms:.0f} ms after the kill"),
        ("longest silence", f"{killed.silence_ms:.0f} ms of one partition"),
        ("back in sync", f"{returned.in_sync_ms / 1000:.1f} s after its start"),
        ("truncated", f"{plural(returned.truncated, 'record')} that only the dead leader had"),
        ("acknowledged in", f"p50 {report.ack_p50_ms:.1f} ms · p99 {report.ack_p99_ms:.1f} ms"),
        ("memory", f"{rss} resident"),
    ]
    if simulated is not None:
        outcome = f"{plural(len(simulated.failures), 'violation')} in {simulated.seeds} clusters"
        rows.append(("simulated", f"{outcome} with crashes, power loss, cuts and slow disks"))
    click.echo()
    for label, text in rows:
        click.echo(f"  {label:<18} {text}")
    for text in [*differing, *report.given_up]:
        click.echo(f"  {text}")
    click.echo()
    good = report.holds and not (simulated is not None and simulated.failures)
    word, colour = ("ok", "green") if good else ("NOT OK", "red")
    click.echo(
        f"{session.current().styled(word, colour, stream=sys.stdout)} · {document['seconds']} s"
    )
    click.echo("next: tidelog up --brokers 3   ·   tidelog lab run reconcile   ·   tidelog sim run")
