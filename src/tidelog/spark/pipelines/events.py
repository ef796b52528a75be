"""What happened to a pipeline: a line of JSON for each event, in a file that has an end.

When `events.jsonl` is full it becomes `events.jsonl.1`, and the one that was there before is gone.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

EVENTS_FILE: Final = "events.jsonl"
LIMIT_BYTES: Final = 4 * 1024 * 1024

BATCH, STARTED, RESTARTED, GROUPS = "batch", "started", "restarted", "groups"


class EventLog:
    """Only the process that runs the pipeline writes."""

    __slots__ = ("_limit_bytes", "path")

    def __init__(self, directory: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.path = directory / EVENTS_FILE
        self._limit_bytes = limit_bytes

    def add(self, event: str, fields: Mapping[str, Any]) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        told = {"at": at.replace("+00:00", "Z"), "event": event, **fields}
        line = json.dumps(told, ensure_ascii=False, separators=(",", ":")) + "\n"
        data = line.encode()
        if self._size_bytes() + len(data) > self._limit_bytes and self._size_bytes():
            self.path.replace(self.path.with_name(f"{EVENTS_FILE}.1"))
        with self.path.open("ab", buffering=0) as file:
            file.write(data)

    def _size_bytes(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0
