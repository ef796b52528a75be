"""The health of a cluster as pictures, and as one page that holds everything it shows."""

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.spark.pipelines.health import Report, Rows
from tidelog.spark.pipelines.health_figures import LAG_WINDOW_MS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAGE = "index.html"
ROWS_DRAWN = 40
"""Partitions and replicas in one picture; those with most to tell come first."""

# Told apart by people who see few colours; who leads is written into the bar as well.
COLOURS = ("#1d6bc0", "#b35900", "#1a7f37", "#8250df", "#0f766e", "#b83280")
NOBODY_COLOUR = "#cf222e"

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 } th, td { padding: .2rem .8rem .2rem 0 }
th { text-align: left; border-bottom: 1px solid #8888 } img { max-width: 100%; height: auto }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd } }
"""

PARTITION_FIELDS = (
    "leader",
    "leader_epoch",
    "isr",
    "under_ms",
    "under_times",
    "offline_ms",
    "isr_left",
    "isr_joined",
    "leader_changes",
    "gap_max_ms",
    "lag_last",
)
CHANGE_FIELDS = ("from", "to", "leader_epoch", "cause", "unclean", "leaderless_ms", "gap_ms")
BROKER_FIELDS = (
    "leads",
    "preferred",
    "in_sync",
    "out_of_sync",
    "fenced",
    "isr_left",
    "lag_max",
    "truncated_records",
)


def write_page(report: Report, directory: Path) -> Path:
    """PNG files and a page that needs none of them; the page's path."""
    import matplotlib  # noqa: PLC0415 - an extra, and slow to import

    matplotlib.use("Agg")
    directory.mkdir(parents=True, exist_ok=True)
    pictures = {
        "leaders": ("Who led, and when too few were in sync", draw_leaders(report)),
        "gaps": ("How long nothing was appended around a change of leader", draw_gaps(report)),
        "lag": ("How far replicas were behind, in records", draw_lag(report)),
    }
    parts = []
    for name, (title, figure) in pictures.items():
        path = directory / f"{name}.png"
        figure.savefig(path, dpi=110, bbox_inches="tight")
        data = base64.b64encode(path.read_bytes()).decode("ascii")
        picture = f'<img alt="{escape(title)}" src="data:image/png;base64,{data}">'
        parts.append(f"<h2>{escape(title)}</h2>{picture}")
    page = directory / PAGE
    page.write_text(html(report, "\n".join(parts)), "utf-8")
    return page


def html(report: Report, pictures: str) -> str:
    until = told_time(report.until_ms)
    tables = [
        ("Partitions", table(report.partitions, "partition", PARTITION_FIELDS)),
        ("Changes of leaders", table(report.leader_changes, "partition", CHANGE_FIELDS)),
        ("Brokers", table(report.brokers, "broker", BROKER_FIELDS)),
    ]
    told = "\n".join(f"<h2>{title}</h2>{rows}" for title, rows in tables)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>Health until {until}</title><style>{STYLE}</style>"
        f"<h1>Health until {until}</h1><p>From {report.events:,} events since "
        f"{told_time(report.from_ms)}.</p>{pictures}{told}</html>"
    )


def table(rows: Rows, first: str, fields: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(each.replace('_', ' '))}</th>" for each in (first, *fields))
    lines = [
        "".join(f"<td>{escape(text(each))}</td>" for each in (name(row), *map(row.get, fields)))
        for row in rows
    ]
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def name(row: dict[str, Any]) -> str:
    return f"{row['topic']}-{row['index']}" if "topic" in row else str(row["broker"])


def text(value: Any) -> str:
    if value is None:
        return "–"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def told_time(wall_ms: int | None) -> str:
    if wall_ms is None:
        return "now"
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def draw_leaders(report: Report) -> "Figure":
    eventful = {
        name(each): each["leader_changes"] + each["under_times"] for each in report.partitions
    }
    shown = sorted(eventful, key=lambda each: (-eventful[each], each))[:ROWS_DRAWN]
    figure, axes = _canvas(len(shown))
    for row in report.spans:
        if name(row) not in shown:
            continue
        level = len(shown) - 1 - shown.index(name(row))
        start, length = _seconds(report, row["from_ms"]), row["for_ms"] / 1000
        leader = row["leader"]
        # Events of an earlier time may be gone: then who led is not known.
        known = leader is not None and leader != -1
        colour = COLOURS[leader % len(COLOURS)] if known else NOBODY_COLOUR
        hatch = "////" if row["is_under"] else None
        axes.barh(level, length, left=start, color=colour, hatch=hatch, edgecolor="white")
        who = str(leader) if known else "?" if leader is None else "–"
        paper = {"facecolor": colour, "linewidth": 0, "pad": 1}
        axes.text(start, level, who, color="white", va="center", bbox=paper, clip_on=True)
    axes.set_yticks(range(len(shown)), shown[::-1])
    axes.set_xlabel(f"seconds since {told_time(report.from_ms)}; hatched: under-replicated")
    return figure


def draw_gaps(report: Report) -> "Figure":
    shown = [each for each in report.leader_changes if each["gap_ms"] is not None][-ROWS_DRAWN:]
    figure, axes = _canvas(len(shown))
    labels = [f"{name(each)} {each['from']}→{each['to']} ({each['cause']})" for each in shown]
    axes.barh(range(len(shown)), [each["gap_ms"] for each in shown], color=COLOURS[0])
    axes.set_yticks(range(len(shown)), labels)
    axes.set_ylim(-1, max(len(shown), 2))
    axes.set_xlabel("milliseconds")
    return figure


def draw_lag(report: Report) -> "Figure":
    most = {
        (name(each), each["broker"]): each["lag_max"] for each in report.replicas if each["lag_max"]
    }
    shown = sorted(most, key=lambda each: -most[each])[: len(COLOURS)]
    figure, axes = _canvas(12)
    for index, (partition, broker) in enumerate(shown):
        rows = [each for each in report.lag if (name(each), each["broker"]) == (partition, broker)]
        axes.step(
            [_seconds(report, each["window_ms"] + LAG_WINDOW_MS) for each in rows],
            [each["lag"] for each in rows],
            where="post",
            color=COLOURS[index],
            label=f"{partition} on {broker}",
        )
    axes.set_xlabel(f"seconds since {told_time(report.from_ms)}")
    if shown:
        axes.legend(loc="upper left")
    else:
        axes.text(0.5, 0.5, "none was ever behind", ha="center", transform=axes.transAxes)
    return figure


def _canvas(rows: int) -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    figure = Figure(figsize=(11, 1.2 + 0.32 * max(rows, 3)))
    return figure, figure.add_subplot()


def _seconds(report: Report, wall_ms: int) -> float:
    return (wall_ms - (report.from_ms or wall_ms)) / 1000
