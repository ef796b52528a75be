"""A whole-node run in a file: its plan, what it broke, and the version that broke it."""

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidelog import __version__
from tidelog.sim import plan_json
from tidelog.sim.nodes.plan import NodePlan
from tidelog.sim.results import SeedResult, Violation

FORMAT: Final = 2
"""Raised when a plan that was written earlier could no longer be run as it was."""
OLDER_DEPTHS: Final = 1
"""The format of plans for the simulators before whole nodes."""


class Replay(NamedTuple):
    plan: NodePlan
    violation: Violation | None
    mutant: str | None
    digest: str
    version: str


class ReplayFileError(Exception):
    """The file is not one that `write` wrote; the text says why."""


def write(path: Path, plan: NodePlan, result: SeedResult, *, mutant: str | None) -> None:
    document = {
        "tidelog": __version__,
        "format": FORMAT,
        "mutant": mutant,
        "violation": plan_json.to_json(result.violations[0]) if result.violations else None,
        "digest": result.digest,
        "plan": plan_json.to_json(plan),
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Replay:
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as reason:
        raise ReplayFileError(f"not JSON: {reason}") from reason
    if not isinstance(document, dict) or not isinstance(document.get("plan"), dict):
        raise ReplayFileError("it holds no plan")
    _check_format(document)
    try:
        return Replay(
            plan=plan_json.from_json(NodePlan, document["plan"]),
            violation=plan_json.from_json(
                Violation | None,  # type: ignore[arg-type]  # mypy takes no union for a type
                document.get("violation"),
                "violation",
            ),
            mutant=document.get("mutant"),
            digest=str(document.get("digest", "")),
            version=str(document.get("tidelog", "unknown")),
        )
    except ValueError as reason:
        raise ReplayFileError(str(reason)) from reason


def _check_format(document: dict[str, Any]) -> None:
    written = document.get("format", document["plan"].get("format"))
    if written == OLDER_DEPTHS:
        raise ReplayFileError("it was written by the simulator before whole-node runs")
    if written != FORMAT:
        raise ReplayFileError(f"it has format {written!r}, and this version reads format {FORMAT}")
