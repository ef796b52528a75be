"""What the member programs share: what they are told, and what they tell.

`python -m e2e.groups.programs.x topic key=value …`, with Kafka's names of consumer settings. Each
line they print is one event as JSON. Each line of their input is an order:

- `hold`: process the next batch, say so, and commit nothing until `go`;
- `close`: leave the group in order and end.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

ORPHAN_S = 20


def say(event: str, **details: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **details}) + "\n")
    sys.stdout.flush()


def told() -> tuple[str, dict[str, str]]:
    """The topic and the settings."""
    topic, *pairs = sys.argv[1:]
    return topic, dict(pair.split("=", 1) for pair in pairs)


def as_keywords(settings: Mapping[str, str]) -> dict[str, Any]:
    """`session.timeout.ms=1000` as the libraries written in Python name it."""
    return {
        key.replace(".", "_"): int(value) if value.isdigit() else value
        for key, value in settings.items()
    }


class Orders:
    """What came in on a thread of its own. The end of the input is the order to close."""

    def __init__(self) -> None:
        self.hold = threading.Event()
        self.go = threading.Event()
        self.close = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            getattr(self, line.strip()).set()
        self.go.set()
        self.close.set()
        time.sleep(ORPHAN_S)
        os._exit(1)  # whoever started it is gone, and perhaps the cluster too

    def obey_hold(self) -> None:
        if self.hold.is_set():
            self.hold.clear()
            say("holding")
            self.go.wait()
            self.go.clear()


class Work:
    """What a member has processed and not committed yet, by partition."""

    def __init__(self) -> None:
        self.pending: dict[int, int] = {}

    def process(self, records: Iterable[tuple[int, int, bytes]]) -> None:
        seen = [(partition, offset, value.decode()) for partition, offset, value in records]
        if seen:
            say("processed", records=seen)
        for partition, offset, _ in seen:
            self.pending[partition] = offset + 1

    def committed(self, offsets: Mapping[int, int]) -> None:
        say("committed", offsets=sorted(offsets.items()))
        for partition, offset in offsets.items():
            if self.pending.get(partition) == offset:
                del self.pending[partition]

    def assigned(self, partitions: Iterable[int]) -> None:
        say("assigned", partitions=sorted(partitions))

    def revoked(self, partitions: Iterable[int], event: str = "revoked") -> None:
        """Whoever owns them now begins where they were committed last."""
        gone = sorted(partitions)
        say(event, partitions=gone)
        for partition in gone:
            self.pending.pop(partition, None)
