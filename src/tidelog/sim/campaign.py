"""The table of a campaign: what many seeds came to, collected over many runs and commits.

A directory holds the table in parts: gzipped JSON lines, one row per seed. A part is written under
another name, synced, and renamed when it is whole, so a process that is killed loses what it had
not written and nothing else. Parts are never changed. One process at a time writes to a directory.
"""

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidelog.sim.fleet import Finished

PATTERN: Final = "part-*.jsonl.gz"
UNFINISHED: Final = "unfinished"


class CampaignError(Exception):
    """The table cannot be read; the text names the file."""


class Finding(NamedTuple):
    rule: str
    at_ms: int
    text: str


class Row(NamedTuple):
    """One seed of one commit."""

    commit: str
    seed: int
    steps: int
    simulated_ms: int
    busy_ns: int
    acknowledged: int
    lost: int
    faults: dict[str, int]
    marks: dict[str, int]
    findings: tuple[Finding, ...]
    replay: str
    digest: str

    @classmethod
    def of(cls, finished: Finished, commit: str, replay: str) -> "Row":
        result = finished.result
        return cls(
            commit=commit,
            seed=result.seed,
            steps=result.steps,
            simulated_ms=result.simulated_ms,
            busy_ns=finished.busy_ns,
            acknowledged=result.acknowledged,
            lost=result.lost,
            faults=result.faults,
            marks={name: number for name, number in result.marks.items() if number},
            findings=tuple(Finding(*each[:3]) for each in result.violations),
            replay=replay,
            digest=result.digest,
        )

    def to_json(self) -> str:
        findings = [finding._asdict() for finding in self.findings]
        return json.dumps({**self._asdict(), "findings": findings}, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> "Row":
        values: dict[str, Any] = json.loads(line)
        findings = tuple(Finding(**each) for each in values["findings"])
        return cls(**{**values, "findings": findings})


class CampaignTable:
    """The rows in a directory."""

    __slots__ = ("directory",)

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def rows(self) -> Iterator[Row]:
        for part in self._parts():
            try:
                with gzip.open(part, "rt", encoding="utf-8") as lines:
                    yield from map(Row.from_json, lines)
            except (OSError, EOFError, ValueError, TypeError, KeyError) as reason:
                raise CampaignError(f"{part} cannot be read: {reason}") from reason

    def seeds_of(self, commit: str) -> set[int]:
        return {row.seed for row in self.rows() if row.commit == commit}

    def append(self, rows: Iterable[Row]) -> None:
        """All of them, or none if the process is killed."""
        text = "".join(f"{row.to_json()}\n" for row in rows)
        last = max(
            (int(part.name.split("-")[1].split(".")[0]) for part in self._parts()), default=0
        )
        unfinished = self.directory / UNFINISHED
        with open(unfinished, "wb") as file:
            file.write(gzip.compress(text.encode(), mtime=0))
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(self.directory / f"part-{last + 1:06}.jsonl.gz")

    def _parts(self) -> list[Path]:
        return sorted(self.directory.glob(PATTERN))


@dataclass(slots=True)
class Figures:
    """The sum of many rows."""

    seeds: int = 0
    steps: int = 0
    simulated_ms: int = 0
    busy_ns: int = 0
    acknowledged: int = 0
    lost: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    failed: list[Row] = field(default_factory=list)
    """In the order in which they were found."""

    @property
    def steps_per_second(self) -> float:
        """Per core."""
        return self.steps * 1e9 / self.busy_ns if self.busy_ns else 0.0

    def add(self, row: Row) -> None:
        self.seeds += 1
        self.steps += row.steps
        self.simulated_ms += row.simulated_ms
        self.busy_ns += row.busy_ns
        self.acknowledged += row.acknowledged
        self.lost += row.lost
        self.faults.update(row.faults)
        self.marks.update(row.marks)
        if row.findings:
            self.failed.append(row)


class Summary(NamedTuple):
    total: Figures
    commits: dict[str, Figures]
    """In the order in which they first ran."""


def summary(rows: Iterable[Row]) -> Summary:
    total = Figures()
    commits: dict[str, Figures] = {}
    for row in rows:
        total.add(row)
        commits.setdefault(row.commit, Figures()).add(row)
    return Summary(total, commits)
