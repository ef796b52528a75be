"""One pass of group commit over the logs of a directory, to be run on another thread."""

from typing import NamedTuple

from tidelog.storage.log import Log
from tidelog.storage.pending_sync import PendingSync, run_in_order


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
