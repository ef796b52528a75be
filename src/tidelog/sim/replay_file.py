"""A run in a file: the plan, what it broke, and the version that broke it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from tidelog import __version__
from tidelog.sim import plan as plans
from tidelog.sim.plan import Plan
from tidelog.sim.results import SeedResult, Violation


class Replay(NamedTuple):
    plan: Plan
    violation: Violation | None
    mutant: str | None
    digest: str
    version: str


class ReplayFileError(Exception):
    """The file is not one that `write` wrote; the text says why."""


def write(path: Path, plan: Plan, result: SeedResult, *, mutant: str | None) -> None:
    violation = result.violations[0]._asdict() if result.violations else None
    document = {
        "tidelog": __version__,
        "mutant": mutant,
        "violation": violation,
        "digest": result.digest,
        "plan": plans.to_json(plan),
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Replay:
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as reason:
        raise ReplayFileError(f"not JSON: {reason}") from reason
    if not isinstance(document, dict) or not isinstance(document.get("plan"), dict):
        raise ReplayFileError("it holds no plan")
    try:
        plan = plans.from_json(document["plan"])
        violation = document.get("violation")
        return Replay(
            plan=plan,
            violation=Violation(**violation) if violation else None,
            mutant=document.get("mutant"),
            digest=str(document.get("digest", "")),
            version=str(document.get("tidelog", "unknown")),
        )
    except (ValueError, TypeError) as reason:
        raise ReplayFileError(str(reason)) from reason
