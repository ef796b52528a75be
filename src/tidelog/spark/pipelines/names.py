"""What a pipeline is called if nobody says: by what it reads and where it writes."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.spark.pipelines.state import described

LONGEST = 100


class UsualName(NamedTuple):
    kind: str
    sources: Sequence[str]
    """Topics, or a pattern."""
    place: Mapping[str, Any]
    """Those of its arguments that say where it writes."""

    @property
    def plain(self) -> str:
        """Without the place: how pipelines were called before two of them could differ in it."""
        words = "-".join(self.sources)
        legible = "".join(each if each.isalnum() or each in "._-" else "-" for each in words)
        return f"{self.kind}-{legible.strip('-')}"[:LONGEST]

    @property
    def full(self) -> str:
        told = json.dumps([self.sources, dict(self.place)], sort_keys=True)
        return f"{self.plain}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"

    def within(self, home: Path) -> str:
        """The plain name, if a pipeline to the same place was begun under it."""
        known = described(home / self.plain)
        arguments = known.get("arguments", {})
        is_ours = known.get("kind") == self.kind and all(
            arguments.get(name) == value for name, value in self.place.items()
        )
        return self.plain if is_ours else self.full
