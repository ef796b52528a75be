"""What a failing test is told about its cluster: a table of its state, and what happened last."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidelog.testing.events import Told

LAST_EVENTS = 50
NODE_COLUMNS = ("NODE", "STATE", "ADDRESS", "CUT FROM", "SLOW TO")
PARTITION_COLUMNS = (
    "PARTITION",
    "LEADER",
    "EPOCH",
    "REPLICAS",
    "ISR",
    "HIGH WATERMARK",
    "LOG ENDS",
)
QUIET_KINDS = frozenset(("RecordsAppended", "HighWatermarkAdvanced", "IsrProposed"))
"""They come with every produce, and would push everything else out of the last fifty."""

INTERNAL = "__"
"""How the names of topics begin that nobody made."""


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    cells = [columns, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(columns))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def partition_rows(states: Mapping[int, Mapping[str, Any]]) -> list[tuple[object, ...]]:
    """As the leader of each sees it; what nobody leads is told by whoever has a replica. Internal
    topics are left out."""
    seen: dict[str, dict[int, Mapping[str, Any]]] = {}
    for node_id, state in states.items():
        for each in state.get("partitions", ()):
            if not each["topic"].startswith(INTERNAL):
                seen.setdefault(each["name"], {})[node_id] = each
    rows: list[tuple[object, ...]] = []
    for name, replicas in sorted(seen.items()):
        leading = [each for each in replicas.values() if each["role"] == "leader"]
        said = max(leading or replicas.values(), key=lambda each: each["leader_epoch"])
        ends = " ".join(f"{node}:{each['log_end_offset']}" for node, each in replicas.items())
        leader = said["leader"] if said["leader"] >= 0 else "none"
        replicas_told, isr = (",".join(map(str, said[key])) for key in ("replicas", "isr"))
        rows.append(
            (name, leader, said["leader_epoch"], replicas_told, isr, said["high_watermark"], ends)
        )
    return rows


def last_events(events: Sequence[Told], count: int = LAST_EVENTS) -> list[str]:
    told = [
        str(each)
        for each in events
        if each.kind not in QUIET_KINDS and not each.text.startswith(INTERNAL)
    ]
    return told[-count:]


def write_trace(path: Path, events: Sequence[Told]) -> Path:
    """Every event, one JSON document a line, oldest first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each._asdict()) + "\n" for each in events), "utf-8")
    return path
