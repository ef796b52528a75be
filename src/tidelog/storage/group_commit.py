"""One pass of group commit over the logs of a directory, to be run on another thread."""

from typing import NamedTuple

from tidelog.storage.log import Log
from tidelog.storage.pending_sync import PendingSync, run_in_order

MOST_LOGS = 256
"""In one pass: every file that is synced needs a descriptor of its own until then, and thousands
of logs would need more of them than a process may have."""
FILES_OF_A_SEALED_SEGMENT = 5


class PendingPass(NamedTuple):
    """Made by `LogDirectory.start_sync`, given back to `LogDirectory.finish_sync`."""

    parts: tuple[tuple[Log, PendingSync], ...]

    def run(self) -> None:
        """On any thread, once. OSError at the first sync that fails."""
        run_in_order([pending for _, pending in self.parts])

    def release(self) -> None:
        """It will not be run: the process stops."""
        for _, pending in self.parts:
            pending.release()


def start_pass(dirty: dict[str, Log], *, rolled_only: bool = False) -> PendingPass | None:
    """Over those that have waited longest, `MOST_LOGS` at most. They stay in `dirty`, behind the
    others. `rolled_only`: where written counts as held, those that only appended are left out."""
    parts: list[tuple[Log, PendingSync]] = []
    room = MOST_LOGS
    for directory, log in list(dirty.items()):
        if rolled_only and log.config.durability != "fsync" and not log.has_unsynced_files:
            continue
        pending = log.start_sync()
        del dirty[directory]
        if pending is not None:
            dirty[directory] = log
            parts.append((log, pending))
            if pending.sealed:
                room -= FILES_OF_A_SEALED_SEGMENT * len(pending.sealed)
        if len(parts) >= room:
            break
    return PendingPass(tuple(parts)) if parts else None
