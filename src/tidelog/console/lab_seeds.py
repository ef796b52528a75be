"""A run of the simulator as the console shows it, from what `tidelog sim run -o json` prints."""

import sys
from collections.abc import Mapping
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import urlencode

Document = dict[str, Any]

OK, VIOLATION, RUNNING = "ok", "violation", "running"
LARGEST_SEED = 2**53
"""What a browser still counts exactly."""


class Seed(NamedTuple):
    number: int
    mutant: str | None = None
    """A rule that is broken on purpose, to see that it is noticed."""

    @property
    def link(self) -> str:
        query = {"seed": str(self.number)} | ({"mutant": self.mutant} if self.mutant else {})
        return f"/lab/sim?{urlencode(query)}"

    @property
    def command(self) -> list[str]:
        """Of a process that prints the report."""
        broken = [f"--mutant={self.mutant}"] if self.mutant else []
        shown = ["sim", "run", "--seed", str(self.number), *broken, "-o", "json"]
        return [sys.executable, "-m", "tidelog", *shown]


def running(seed: Seed) -> Document:
    """While it runs: there is nothing to tell yet."""
    return _document(seed, RUNNING, {})


def finished(seed: Seed, report: Mapping[str, Any]) -> Document:
    return _document(seed, VIOLATION if report["failures"] else OK, report)


def _document(seed: Seed, verdict: str, report: Mapping[str, Any]) -> Document:
    return {
        "seed": seed.number,
        "mutant": seed.mutant,
        "verdict": verdict,
        "plan": report.get("plan"),
        "story": [
            {"at_ms": at_ms, "lines": [moment["text"] for moment in moments]}
            for at_ms, moments in groupby(report.get("story", ()), lambda moment: moment["at_ms"])
        ],
        "violations": list(report.get("failures", ())),
        "state": list(report.get("state", ())),
        "link": seed.link,
    }
