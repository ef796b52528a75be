"""Files of a log that went out of use, until `file.delete.delay.ms` is over."""

from collections.abc import Iterable

from tidelog.host.ports import Disk
from tidelog.storage.atomic_file import discard


class DeletedFiles:
    """Owned by a log. The files have lost their names: no load takes them for segments."""

    __slots__ = ("_disk", "_due_ms")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._due_ms: dict[str, int] = {}

    def add(self, paths: Iterable[str], *, due_ms: int) -> None:
        self._due_ms.update(dict.fromkeys(paths, due_ms))

    def remove_due(self, now_ms: int) -> int:
        """Give back the space of those whose time has come. How many there were."""
        due = [path for path, due_ms in self._due_ms.items() if due_ms <= now_ms]
        for path in due:
            discard(self._disk, path)
            del self._due_ms[path]
        return len(due)
