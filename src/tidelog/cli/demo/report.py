"""What the demo found, for people and for programs."""

import base64
import html
import sys
from pathlib import Path
from typing import Any, NamedTuple

import click

from tidelog.cli import session
from tidelog.cli.demo import plot
from tidelog.cli.demo.facts import Facts
from tidelog.cli.demo.spark_queries import Flow
from tidelog.cli.failure import CommandError
from tidelog.cli.output import count, plural, print_json

LABEL_WIDTH = 18
GIGABYTE = 1_000_000_000
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>tidelog demo</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto }}
td {{ padding: .1rem 1.5rem .1rem 0; vertical-align: top }} img {{ max-width: 100% }}
</style>
<h1>tidelog demo: {word}</h1>
<table>{rows}</table>
<img alt="Orders and batches over time, and revenue per minute" src="data:image/png;base64,{image}">
</html>
"""


class Files(NamedTuple):
    plot: Path
    page: Path


def draw(facts: Facts, directory: Path) -> Files:
    """The plot, and a page with it and the figures."""
    files = Files(directory / "demo.png", directory / "demo.html")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        plot.draw(facts, files.plot)
        files.page.write_text(page(facts, files.plot.read_bytes()), "utf-8")
    except OSError as error:
        raise CommandError(
            f"cannot write {directory}",
            why=(error.strerror or str(error)).lower(),
            advice="tidelog demo --report DIR",
        ) from None
    return files


def show(facts: Facts, files: Files, *, seconds: float, as_json: bool) -> None:
    if as_json:
        print_json({**as_document(facts), **_ending(files, seconds)})
        return
    click.echo()
    for label, text in [*rows(facts), ("plot", str(files.plot)), ("page", str(files.page))]:
        click.echo(f"  {label:<{LABEL_WIDTH}} {text}")
    for text in [*facts.verdict.examples, *facts.replicas.differences, *facts.sold.failures]:
        click.echo(f"  {text}")
    click.echo()
    word, colour = ("ok", "green") if facts.holds else ("NOT OK", "red")
    click.echo(f"{session.current().styled(word, colour, stream=sys.stdout)} · {seconds:.0f} s")
    click.echo("next: docs/spark.md   ·   examples/streaming-revenue   ·   tidelog up --brokers 3")


def rows(facts: Facts) -> list[tuple[str, str]]:
    verdict, sold, killed, replicas = facts.verdict, facts.sold, facts.killed, facts.replicas
    money = " · ".join(f"{cents / 100:,.2f} {name}" for name, cents in verdict.cents.items())
    rate = replicas.read_bytes / max(replicas.seconds, 1e-9) / GIGABYTE
    same = "the same on every broker" if not replicas.differences else "NOT the same"
    return [
        ("acknowledged", f"{plural(verdict.acknowledged, 'order')}, {verdict.in_doubt} in doubt"),
        ("in the topic", _compared(verdict.topic, verdict.lost, verdict.unexpected)),
        (
            "in the table",
            _compared(verdict.table, verdict.lost_in_table, verdict.unexpected_in_table),
        ),
        ("revenue", _windows(verdict.windows, verdict.wrong_windows)),
        ("sold", money),
        (
            "replicas",
            f"{plural(replicas.partitions, 'partition')}, {count(replicas.read_bytes)} bytes at"
            f" {rate:.1f} GB/s, {same}",
        ),
        ("produce", f"{count(verdict.acknowledged / sold.seconds)} orders/s with acks=all"),
        ("longest gap", f"{killed.silence_ms:.0f} ms of one partition when its leader was killed"),
        ("election", f"{killed.election_ms:.0f} ms after the kill"),
        ("back in sync", f"{facts.returned.in_sync_ms / 1000:.1f} s after its start"),
        ("Spark, revenue", _flow(facts.revenue)),
        ("Spark, table", _flow(facts.table)),
        ("caught up", f"{facts.caught_up_ms / 1000:.1f} s after the last order"),
    ]


def _compared(found: int, lost: int, unexpected: int) -> str:
    if not lost and not unexpected:
        return f"{plural(found, 'order')}, the same ones at the same offsets"
    return f"{plural(found, 'order')}: {count(lost)} LOST, {count(unexpected)} UNEXPECTED"


def _windows(windows: int, wrong: int) -> str:
    if wrong:
        return f"{plural(windows, 'window')}, {count(wrong)} WRONG"
    return f"{plural(windows, 'window')} of a minute and a currency, each once, every cent right"


def _flow(flow: Flow) -> str:
    return (
        f"{plural(flow.rows, 'row')} in {len(flow.with_rows)} batches, median batch"
        f" {flow.median_seconds:.1f} s, up to {count(flow.rows_per_second_max)} rows/s"
    )


def as_document(facts: Facts) -> dict[str, Any]:
    verdict, killed, replicas = facts.verdict, facts.killed, facts.replicas
    return {
        "ok": facts.holds,
        "ready_ms": round(facts.ready_ms),
        "verdict": {**verdict._asdict(), "holds": verdict.holds},
        "produced": {
            "seconds": round(facts.sold.seconds, 1),
            "orders_per_second": round(verdict.acknowledged / facts.sold.seconds),
            "given_up": facts.sold.failures,
        },
        "killed": {
            "node": killed.node_id,
            "led": killed.partitions,
            "election_ms": round(killed.election_ms, 1),
            "longest_gap_ms": round(killed.silence_ms, 1),
            "in_sync_ms": round(facts.returned.in_sync_ms),
        },
        "spark": {
            "started_ms": round(facts.spark_ms),
            "caught_up_ms": round(facts.caught_up_ms),
            "revenue": _flow_document(facts.revenue),
            "table": _flow_document(facts.table),
        },
        "replicas": replicas._asdict(),
    }


def _flow_document(flow: Flow) -> dict[str, Any]:
    return {
        "rows": flow.rows,
        "batches": len(flow.with_rows),
        "median_batch_ms": round(flow.median_seconds * 1000),
        "rows_per_second_max": round(flow.rows_per_second_max),
    }


def _ending(files: Files, seconds: float) -> dict[str, Any]:
    return {"seconds": round(seconds, 1), "plot": str(files.plot), "page": str(files.page)}


def page(facts: Facts, image: bytes) -> str:
    cells = "".join(
        f"<tr><td>{html.escape(label)}</td><td>{html.escape(text)}</td></tr>"
        for label, text in rows(facts)
    )
    return PAGE.format(
        word="ok" if facts.holds else "NOT OK",
        rows=cells,
        image=base64.b64encode(image).decode("ascii"),
    )
