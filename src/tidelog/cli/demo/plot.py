"""The demo as a picture: what happened when, and what was sold in which minute."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

from tidelog.cli.demo.book import Answered
from tidelog.cli.demo.facts import Facts
from tidelog.cli.demo.orders import MINUTE_MS, OPENS_MS
from tidelog.cli.demo.spark_queries import Flow

BIN_SECONDS = 0.5
INCHES = (11.0, 8.0)
COLOURS = ("#1d6bc0", "#b35900", "#1a7f37", "#8250df")


def draw(facts: Facts, path: Path) -> None:
    from matplotlib.figure import Figure  # no window system is asked for

    figure = Figure(figsize=INCHES, layout="constrained")
    upper, lower = figure.subplots(2, 1)
    _happenings(upper, facts)
    _revenue(lower, facts)
    word = "topic = table = acknowledged" if facts.holds else "NOT the same everywhere"
    figure.suptitle(f"tidelog demo: {facts.verdict.acknowledged:,} orders, {word}")
    figure.savefig(path, dpi=110)


def _happenings(axes: Any, facts: Facts) -> None:
    sold, killed, returned = facts.sold, facts.killed, facts.returned
    seconds, rates = acknowledged_rates(sold.answers, sold.began)
    axes.fill_between(seconds, rates, step="post", color=COLOURS[0], alpha=0.25)
    axes.step(seconds, rates, where="post", color=COLOURS[0], label="acknowledged orders/s")
    for flow, name, colour in (
        (facts.revenue, "revenue per minute", COLOURS[1]),
        (facts.table, "table", COLOURS[2]),
    ):
        ends, read = batch_rates(flow, sold.began)
        axes.plot(ends, read, "o-", color=colour, markersize=3, label=f"Spark, {name}: rows/s")
    gone, back = killed.at - sold.began, returned.at - sold.began
    axes.axvline(gone, color="black", linewidth=1)
    axes.axvspan(gone, back + returned.in_sync_ms / 1000, color="black", alpha=0.06)
    note = f" broker {killed.node_id} killed: gap {killed.silence_ms:.0f} ms"
    axes.annotate(note, (gone, axes.get_ylim()[1]), va="top", fontsize=9)
    axes.set_xlabel("seconds since the first order (grey: a broker is missing or catches up)")
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower right", fontsize=8)


def _revenue(axes: Any, facts: Facts) -> None:
    """Lines and dots must meet: the line is what was acknowledged, the dots what Spark wrote."""
    for currency, colour in zip(facts.verdict.cents, COLOURS, strict=False):
        told = sorted(
            (minute - OPENS_MS // MINUTE_MS, total.cents / 100)
            for (minute, each), total in facts.sold.totals.items()
            if each == currency and minute * MINUTE_MS < facts.closes_ms
        )
        written = [
            (each.minute - OPENS_MS // MINUTE_MS, each.cents / 100)
            for each in facts.windows
            if each.currency == currency
        ]
        axes.plot(*zip(*told, strict=True), color=colour, label=f"acknowledged, {currency}")
        if written:
            axes.plot(
                *zip(*written, strict=True),
                "o",
                color=colour,
                markersize=5,
                markerfacecolor="none",
                label=f"topic revenue, {currency}",
            )
    axes.set_xlabel("minute of the shop's day")
    axes.set_ylabel("revenue per minute")
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower right", fontsize=8, ncols=len(facts.verdict.cents) or 1)


def acknowledged_rates(answers: list[Answered], began: float) -> tuple[list[float], list[float]]:
    """(seconds, orders per second) in equal steps, those without an answer included."""
    orders: Counter[int] = Counter()
    for answer in answers:
        orders[int((answer.at - began) / BIN_SECONDS)] += answer.orders
    steps = range(max(orders, default=0) + 1)
    return [each * BIN_SECONDS for each in steps], [orders[each] / BIN_SECONDS for each in steps]


def batch_rates(flow: Flow, began: float) -> tuple[list[float], list[float]]:
    """(when a batch ended, how many rows of it per second of work)"""
    since_1970 = began + time.time() - time.monotonic()
    batches = flow.with_rows
    ends = [each.began + each.seconds - since_1970 for each in batches]
    return ends, [each.rows / max(each.seconds, 1e-9) for each in batches]
