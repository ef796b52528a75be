"""A sync in three steps, so that a slow device never stops the event loop.

Start, on the loop: note what is covered and collect the files. Run, on any thread: sync them,
touching nothing else. Finish, on the loop: believe it, as far as it is still about the log as it
is now. Appends, reads, rolls, truncations and deletions may happen between the steps.

Every file counts its changes. A sync that began when the count was n covers the first n of them
whatever happened since, so a finished one can only raise the count of changes that are synced.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tidelog.host.ports import Syncing


class FileSync(NamedTuple):
    """The sync of one file, and how to tell its owner that `changes` changes are on disk."""

    syncing: Syncing
    note_synced: Callable[[int], None]
    changes: int


class PendingSync(NamedTuple):
    """A sync of one log. `names` is the sync of its directory, if names are to be synced."""

    files: Sequence[FileSync]
    names: Syncing | None
    name_changes: int
    sealed: Sequence[object]
    generation: int
    recovery_point: int
    end_offset: int

    def run(self) -> None:
        """Bytes first, then the names of new files. OSError at the first that fails; the others
        are then not tried, because nothing is believed any more."""
        run_in_order(self._syncings())

    def release(self) -> None:
        """It will not be run."""
        for syncing in self._syncings():
            syncing.release()

    def _syncings(self) -> list[Syncing]:
        syncings = [file.syncing for file in self.files]
        return syncings if self.names is None else [*syncings, self.names]


def run_in_order(syncings: Sequence[Syncing | PendingSync]) -> None:
    for number, syncing in enumerate(syncings):
        try:
            syncing.run()
        except OSError:
            for untried in syncings[number + 1 :]:
                untried.release()
            raise
