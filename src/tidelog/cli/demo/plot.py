"""The demo as a picture: what happened when, and what was sold in which minute."""

import time
from itertools import accumulate
from pathlib import Path
from typing import Any

from tidelog.cli.demo.book import Answered
from tidelog.cli.demo.facts import Facts
from tidelog.cli.demo.orders import MINUTE_MS, OPENS_MS
from tidelog.cli.demo.spark_queries import Flow

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
    """How far everybody is. Distance to the right is how much later Spark has it."""
    sold, killed, returned = facts.sold, facts.killed, facts.returned
    axes.plot(*acknowledged(sold.answers, sold.began), color=COLOURS[0], label="acknowledged")
    for flow, label, colour in (
        (facts.table, "in the table", COLOURS[2]),
        (facts.revenue, "counted into revenue", COLOURS[1]),
    ):
        seconds, orders = read_by(flow, sold.began)
        axes.step(seconds, orders, "o-", where="post", color=colour, markersize=3, label=label)
    gone, back = killed.at - sold.began, returned.at - sold.began
    axes.axvline(gone, color="black", linewidth=1)
    axes.axvspan(gone, back + returned.in_sync_ms / 1000, color="black", alpha=0.06)
    note = (
        f"broker {killed.node_id} killed: a gap of {killed.silence_ms:.0f} ms"
        f"\ngrey: it is missing or catches up"
    )
    axes.annotate(
        note,
        (gone, facts.verdict.acknowledged),
        (6, 0),
        textcoords="offset points",
        va="top",
        fontsize=9,
    )
    axes.set_xlabel("seconds since the doors opened")
    axes.set_ylabel("orders")
    axes.set_xlim(left=-2)
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
    axes.set_xlabel("minute of the shop's day (dots on lines: what Spark wrote is what was sold)")
    axes.set_ylabel("revenue per minute")
    axes.set_ylim(0, axes.get_ylim()[1] * 1.25)  # room for the legend
    axes.legend(loc="upper right", fontsize=8, ncols=len(facts.verdict.cents) or 1)


def acknowledged(answers: list[Answered], began: float) -> tuple[list[float], list[int]]:
    """(seconds, orders until then)"""
    ordered = sorted(answers, key=lambda each: each.at)
    orders = accumulate(each.orders for each in ordered)
    return [each.at - began for each in ordered], list(orders)


def read_by(flow: Flow, began: float) -> tuple[list[float], list[int]]:
    """(when a batch was committed, orders until then)"""
    since_1970 = began + time.time() - time.monotonic()
    ends = [each.began + each.seconds - since_1970 for each in flow.with_rows]
    return ends, list(accumulate(each.rows for each in flow.with_rows))
