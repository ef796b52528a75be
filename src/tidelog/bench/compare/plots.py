"""Plots of a comparison, from its document."""

import importlib
from pathlib import Path
from typing import Any

from tidelog.bench.compare.report import Document, is_ahead
from tidelog.bench.compare.system import KAFKA, MACHINE, TIDELOG

COLOURS = {TIDELOG: "#0b6e99", KAFKA: "#d9822b", MACHINE: "#8a8a8a"}
ROW_INCHES, HEAD_INCHES, WIDTH_INCHES, DPI = 0.36, 1.4, 10.0, 110
FAR_APART = 50
"""Values that differ more than so many times are shown on a logarithmic axis."""
TICKS = (1, 2, 5)
"""Of every power of ten: more have no room beside each other."""
BEHIND, AHEAD = "#b3392f", "#2a7d46"


def draw(document: Document, directory: Path) -> list[Path]:
    """Ratios of all rows, and the values of each section; the files."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    compared = [row for row in document["rows"] if is_ahead(row) is not None]
    if compared:
        paths.append(_save(_ratios(compared), directory / "ratios.png"))
    for section in dict.fromkeys(row["section"] for row in document["rows"]):
        rows = [row for row in document["rows"] if row["section"] == section and row["values"]]
        if rows:
            name = f"{section.replace(' ', '-')}.png"
            paths.append(_save(_values(section, rows), directory / name))
    return paths


def advantage(row: Document) -> tuple[float, float, float]:
    """The ratio turned so that more is better: least, middle, greatest."""
    ratio = row["ratio"]
    least, middle, greatest = ratio["least"], ratio["middle"], ratio["greatest"]
    if row["more_is_better"]:
        return least, middle, greatest
    return 1 / greatest, 1 / middle, 1 / least


def _ratios(rows: list[Document]) -> Any:
    figure = _figure(HEAD_INCHES + ROW_INCHES * len(rows))
    axes = figure.subplots()
    for place, row in enumerate(reversed(rows)):
        least, middle, greatest = advantage(row)
        colour = AHEAD if middle >= 1 else BEHIND
        axes.plot([least, greatest], [place, place], color=colour, linewidth=2, alpha=0.5)
        axes.plot([middle], [place], "o", color=colour)
        axes.annotate(
            f"{middle:.2f}",
            (middle, place),
            (0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=7,
        )
    axes.axvline(1.0, color="#444444", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(_ticker().LogLocator(subs=TICKS))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(_ticker().NullFormatter())
    axes.tick_params(axis="x", labelsize=8)
    axes.set_yticks(range(len(rows)), [row["title"] for row in reversed(rows)], fontsize=8)
    axes.set_ylim(-0.5, len(rows) - 0.2)
    axes.set_title("Tidelog by Kafka: median of the rounds, least and greatest; right is better")
    axes.grid(axis="x", which="both", alpha=0.2)
    return figure


def _values(section: str, rows: list[Document]) -> Any:
    """Every value is a point: one small plot per unit, since units have no common axis."""
    units = list(dict.fromkeys(row["unit"] for row in rows))
    counts = [sum(row["unit"] == unit for row in rows) for unit in units]
    figure = _figure(HEAD_INCHES * len(units) + ROW_INCHES * len(rows))
    plots = figure.subplots(len(units), 1, squeeze=False, height_ratios=counts)
    for axes, unit in zip(plots[:, 0], units, strict=True):
        _points(axes, [row for row in rows if row["unit"] == unit])
        axes.set_xlabel(unit)
    figure.suptitle(section)
    return figure


def _points(axes: Any, rows: list[Document]) -> None:
    everything: list[float] = []
    labelled: set[str] = set()
    for place, row in enumerate(reversed(rows)):
        for shift, (name, values) in enumerate(row["values"].items()):
            present = [value for value in values if value is not None]
            height = [place + 0.12 - 0.24 * shift] * len(present)
            label = None if name in labelled else name
            axes.plot(present, height, "o", color=COLOURS[name], alpha=0.6, label=label)
            axes.plot([row["median"][name]], height[:1], "|", color=COLOURS[name], markersize=14)
            labelled.add(name)
            everything += present
    axes.set_yticks(range(len(rows)), [row["title"] for row in reversed(rows)], fontsize=8)
    axes.set_ylim(-0.5, len(rows) - 0.5)
    if min(everything) > 0 and max(everything) > FAR_APART * min(everything):
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
    axes.grid(axis="x", alpha=0.2)
    axes.legend(fontsize=8)


def _figure(height_inches: float) -> Any:
    figures: Any = importlib.import_module("matplotlib.figure")  # an extra; no window is opened
    return figures.Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")


def _ticker() -> Any:
    return importlib.import_module("matplotlib.ticker")


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=DPI)
    return path
