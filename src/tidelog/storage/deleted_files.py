"""Files of a log that went out of use, until `file.delete.delay.ms` is over.

While they are there, under their other names, a load knows that the segments below the log start
went on purpose. So the log start is stored before they are removed (ADR 0031).
"""

from collections.abc import Iterable

from tidelog.host.ports import Disk
from tidelog.storage.atomic_file import discard


class DeletedFiles:
    """Owned by a log. The files have lost their names: no load takes them for segments."""

    __slots__ = ("_disk", "_due_ms")

    def __init__(self, disk: Disk, left_over: Iterable[str]) -> None:
        self._disk = disk
        self._due_ms = dict.fromkeys(left_over, 0)

    def add(self, paths: Iterable[str], *, due_ms: int) -> None:
        self._due_ms.update(dict.fromkeys(paths, due_ms))

    def due(self, now_ms: int) -> list[str]:
        return [path for path, due_ms in self._due_ms.items() if due_ms <= now_ms]

    def empty_due(self, now_ms: int) -> None:
        """Give back their space and keep their names: on a full disk nothing can be stored."""
        for path in self.due(now_ms):
            if self._disk.exists(path):
                file = self._disk.open(path)
                file.truncate(0)
                file.close()

    def remove_due(self, now_ms: int, at_most: int = 1 << 62) -> int:
        """Those whose time has come, the oldest first. How many went."""
        due = self.due(now_ms)[:at_most]
        for path in due:
            discard(self._disk, path)
            del self._due_ms[path]
        return len(due)
