"""Which bytes of a segment are certainly as they were checked (ADR 0029).

They were appended, and so checked, by this process, and were in memory whenever it looked. A page
may go bad on its way through the disk; that way begins when it leaves memory. So whoever is about
to bring something into memory without checking it looks first what is missing there.
"""

from tidelog.host.ports import DiskFile

_NEVER = 1 << 62


class KeptBytes:
    """Everything from a position on, or nothing any more."""

    __slots__ = ("_file", "_start")

    def __init__(self, file: DiskFile, size_bytes: int) -> None:
        """Of what a former process wrote nothing is known."""
        self._file = file
        self._start = size_bytes

    def append_at(self, position: int) -> None:
        """With the first there is something that must not come back to memory unseen."""
        if position == self._start:
            self._file.read_ahead(allowed=False)

    def look(self, start: int, end: int, size_bytes: int) -> bool:
        """True if this part of the file, which has `size_bytes`, is kept. It is about to come into
        memory: what has left it may come back as something else. Then nothing is sure any more,
        and reading ahead does no harm and much good."""
        first, last = max(start, self._start), min(end, size_bytes)
        if first < last and self._file.range_in_memory(first, last - first) is None:
            self._start = _NEVER
            self._file.read_ahead(allowed=True)
        return start >= self._start

    def cut(self, size_bytes: int) -> None:
        """What is appended from here on is ours, if it does not follow what is lost."""
        if self._start != _NEVER:
            self._start = min(self._start, size_bytes)
