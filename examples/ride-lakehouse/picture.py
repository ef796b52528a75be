"""The story as a picture: what happened when, and the money of every minute."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from accounts import Money, money_of, total
from report import Facts
from rides import MINUTE_MS, STARTS_MS

INCHES = (11.0, 8.0)
BLUE, ORANGE, GREEN, GREY = "#1d6bc0", "#b35900", "#1a7f37", "#57606a"
TEXTS = {
    "broker killed": "broker killed",
    "version 2": "schema version 2",
    "drivers killed": "Spark drivers killed",
    "ended": "last event written",
}
LINE = 0.055
"""Of the height of the picture, between two of these texts."""


def draw(facts: Facts, path: Path) -> None:
    figure = Figure(figsize=INCHES, layout="constrained")
    upper, lower = figure.subplots(2, 1, height_ratios=(3, 2))
    _happenings(upper, facts)
    _money(lower, facts)
    word = "right to the cent" if facts.verdict.holds else "NOT right"
    figure.suptitle(f"{facts.verdict.events:,} events of taxi rides; the table is {word}")
    figure.savefig(path, dpi=90)


def _happenings(axes: Any, facts: Facts) -> None:
    """How far everybody is. The distance to the right is how much later Spark has it."""
    began = facts.marks["began"]
    written = [(at - began, said) for at, said in facts.producer if "acknowledged" in said]
    axes.plot(
        [at for at, _ in written],
        [said["acknowledged"] for _, said in written],
        color=BLUE,
        label="written by the producer",
    )
    for name, label, colour in (
        ("archive", "in the Delta table", GREEN),
        ("zone_revenue", "counted into windows", ORANGE),
    ):
        batches = [(at - began, sum(said["offsets"].values())) for at, said in facts.jobs[name]]
        axes.step(
            [at for at, _ in batches],
            [offsets for _, offsets in batches],
            "o-",
            where="post",
            color=colour,
            markersize=3,
            label=label,
        )
    top = facts.verdict.events * 1.3
    for line, name in enumerate(sorted(TEXTS, key=lambda each: facts.marks[each])):
        at, text = facts.marks[name] - began, TEXTS[name]
        axes.axvline(at, color=GREY, linewidth=1, linestyle=":")
        axes.annotate(
            text,
            (at, top * (1 - line * LINE)),
            (4, -4),
            textcoords="offset points",
            va="top",
            fontsize=9,
            color=GREY,
        )
    axes.axvspan(
        facts.marks["broker killed"] - began,
        facts.marks["broker back"] - began,
        color=GREY,
        alpha=0.1,
    )
    axes.set_xlabel("seconds (grey: the broker is missing or catches up)")
    axes.set_ylabel("events")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(0, top)
    axes.set_xlim(left=-1)
    axes.legend(loc="lower right", fontsize=9)


def _money(axes: Any, facts: Facts) -> None:
    """Lines and dots must meet: lines are the rides, dots what Polars finds in the table."""
    driven, found = by_minute(money_of(facts.events)), by_minute(facts.table.money)
    last = facts.size.minutes
    for name, label, colour in (
        ("fare_cents", "fares", BLUE),
        ("tip_cents", "tips", GREEN),
        ("fee_cents", "congestion fees (since version 2)", ORANGE),
    ):
        for money, look in ((driven, {"linewidth": 1.5, "label": label}), (found, DOTS)):
            minutes = [each for each in sorted(money) if each < last]
            dollars = [getattr(money[each], name) / 100 for each in minutes]
            axes.plot(minutes, dollars, color=colour, **look)
    axes.set_yscale("symlog", linthresh=100)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(
        "minute of the day (lines: the rides themselves; dots: the table, read by Polars)"
    )
    axes.set_ylabel("dollars per minute")
    axes.legend(loc="lower right", fontsize=9)


DOTS = {"linestyle": "", "marker": "o", "markersize": 5, "markerfacecolor": "none"}


def by_minute(money: dict[tuple[int, int], Money]) -> dict[int, Money]:
    """All zones together."""
    minutes: dict[int, list[Money]] = {}
    for (_, minute_ms), each in money.items():
        minutes.setdefault((minute_ms - STARTS_MS) // MINUTE_MS, []).append(each)
    return {minute: total(each) for minute, each in minutes.items()}
