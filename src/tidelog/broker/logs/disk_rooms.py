"""Which log directories have room for more records (ADR 0035).

A disk that is filled to the last byte cannot take checkpoints, metadata or the records of a
deletion either. So records stop earlier, when only the reserve is left, and immediately when a
write finds no space. Such a directory is full: its replicas stand aside (`leaving_isr`) until there
is room again. The free bytes are checked beside the event loop: every second, and less often while
there are so many that no writer could use them up in between.

Others may fill the disk all the same. For that a part of the reserve is a file (`reserve_file`),
which is given up when it is needed and made again when there is room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.host import tasks
from tidelog.host.disk_space import default_reserve_bytes
from tidelog.host.ports import DiskSpace
from tidelog.storage import reserve_file

if TYPE_CHECKING:
    from tidelog.config.node_config import NodeConfig
    from tidelog.host.node_host import NodeHost
    from tidelog.storage.log_directory import LogDirectory

KIND = "disk-full"
LOOK_EVERY_MS = 1_000
LOOK_SELDOM_MS = 5_000
PLENTY_BYTES = 32 * 1024**3
"""Beyond the reserve. No disk takes so much in LOOK_SELDOM_MS."""
FULL_AT_LEAST_MS = 5_000
"""After a write that found no space. A quota does not show in the free bytes of a disk, and a
directory that is full and empty by turns would move its leaderships with each."""
BACK_AT_LEAST_BYTES = 1024 * 1024
ADVICE = "free or add space on this disk; writes come back by themselves"


class RoomView(NamedTuple):
    """A log directory as it was last seen."""

    path: str
    space: DiskSpace | None
    """None if nobody can tell."""
    is_full: bool


def is_short(space: DiskSpace | None, reserve_bytes: int, *, was_full: bool) -> bool:
    """Whether records have to stop. They come back only with some space beyond the reserve."""
    if space is None:
        return False
    needed_bytes = reserve_bytes
    if was_full:
        needed_bytes = max(reserve_bytes + reserve_bytes // 4, BACK_AT_LEAST_BYTES)
    return space.usable_bytes < needed_bytes


def has_plenty(space: DiskSpace, reserve_bytes: int) -> bool:
    """Whether the next look can wait."""
    return space.usable_bytes >= reserve_bytes + PLENTY_BYTES


def wants_file(
    space: DiskSpace, reserve_bytes: int, *, is_full: bool, is_refused: bool
) -> bool | None:
    """Whether a part of the reserve should be a file; None: leave it as it is. It is given up
    only when it is needed, and made only where it does not make the disk full."""
    size_bytes = reserve_file.size_for(reserve_bytes)
    if is_full:
        return False if is_refused or space.usable_bytes < size_bytes else None
    left = space._replace(usable_bytes=space.usable_bytes - size_bytes)
    return True if size_bytes and not is_short(left, reserve_bytes, was_full=True) else None


class DiskRooms:
    """Owner of the answer to "is it full?" for every log directory of a broker."""

    __slots__ = (
        "_has_file",
        "_host",
        "_looked_ms",
        "_looking",
        "_now_ms",
        "_paths",
        "_refused_ms",
        "_reserve_bytes",
        "_spaces",
        "_worker",
        "full",
        "on_changed",
    )

    def __init__(
        self, directories: tuple[LogDirectory, ...], config: NodeConfig, host: NodeHost
    ) -> None:
        self._host = host
        self._now_ms = host.clock.monotonic_ms
        self._paths = dict(zip(directories, config.log_dirs, strict=True))
        self._reserve_bytes = config.logs.disk_reserve_bytes
        self.on_changed: Callable[[LogDirectory], None] = _tell_nobody
        """Hears when a directory became full, or is full no longer."""
        self._spaces: dict[LogDirectory, DiskSpace | None] = {}
        self._refused_ms: dict[LogDirectory, int] = {}
        """When a write last found no space."""
        self._has_file: dict[LogDirectory, bool] = {}
        """Of the reserve. Unknown before the first look: a former process may have left it."""
        self._worker = host.make_workers("disk-room", 1)
        self._looking: asyncio.Task[None] | None = None
        self._looked_ms = 0
        self.full: dict[LogDirectory, None] = {}

    def views(self) -> list[RoomView]:
        return [
            RoomView(path, self._spaces.get(directory), directory in self.full)
            for directory, path in self._paths.items()
        ]

    def has_room(self, directory: LogDirectory) -> bool:
        return directory not in self.full

    def look_if_due(self) -> None:
        """Every LOOK_EVERY_MS. It costs an idle node more than most of what it does."""
        passed_ms = self._now_ms() - self._looked_ms
        if passed_ms >= LOOK_SELDOM_MS or not all(map(self._has_plenty, self._paths)):
            self.look()

    @property
    def is_looking(self) -> bool:
        return self._looking is not None

    def look(self) -> None:
        """See how much is free, unless that is under way."""
        if not self.is_looking:
            self._looked_ms = self._now_ms()
            self._looking = tasks.begin(self._look())

    def found_no_space(self, directory: LogDirectory) -> None:
        """A write failed for want of space."""
        self._refused_ms[directory] = self._now_ms()
        self._spaces[directory] = None  # whatever it was
        self._judge(directory)
        self.look()

    def why_full(self, directory: LogDirectory) -> str:
        path, space = self._paths[directory], self._spaces.get(directory)
        if space is None:
            return f"no space is left on the disk of {path}"
        return (
            f"the disk of {path} has {space.usable_bytes:,} of {space.total_bytes:,} bytes free,"
            f" and keeps {self._reserve_of(space):,} in reserve"
        )

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._worker.close(wait=False)

    async def _look(self) -> None:
        try:
            for directory, path in self._paths.items():
                space = await self._worker.run(partial(self._host.disk_space, path))
                self._spaces[directory] = space
                self._judge(directory)
                if space is not None:
                    await self._keep_file(directory, space)
        finally:
            self._looking = None

    def _judge(self, directory: LogDirectory) -> None:
        space, was_full = self._spaces.get(directory), directory in self.full
        reserve_bytes = 0 if space is None else self._reserve_of(space)
        is_full = self._was_just_refused(directory) or is_short(
            space, reserve_bytes, was_full=was_full
        )
        if is_full:
            self.full[directory] = None
            self._report(directory)
        elif was_full:
            del self.full[directory]
            self._host.findings.clear(KIND, self._paths[directory])
        if is_full != was_full:
            self.on_changed(directory)

    async def _keep_file(self, directory: LogDirectory, space: DiskSpace) -> None:
        """Make the file of the reserve, or give it up, if it is time for that."""
        reserve_bytes = self._reserve_of(space)
        wanted = wants_file(
            space,
            reserve_bytes,
            is_full=directory in self.full,
            is_refused=self._was_just_refused(directory),
        )
        if wanted is None or self._has_file.get(directory) is wanted:
            return
        disk = self._host.filesystem.open(self._paths[directory])
        size_bytes = reserve_file.size_for(reserve_bytes)
        keep = partial(reserve_file.keep, disk, size_bytes)
        try:
            await self._worker.run(keep if wanted else partial(reserve_file.release, disk))
        except OSError:
            return  # the next look tries again
        self._has_file[directory] = wanted

    def _has_plenty(self, directory: LogDirectory) -> bool:
        space = self._spaces.get(directory)
        return space is not None and has_plenty(space, self._reserve_of(space))

    def _was_just_refused(self, directory: LogDirectory) -> bool:
        refused_ms = self._refused_ms.get(directory)
        return refused_ms is not None and self._now_ms() - refused_ms < FULL_AT_LEAST_MS

    def _report(self, directory: LogDirectory) -> None:
        text = f"{self.why_full(directory)}: writes to its partitions are refused here"
        self._host.findings.report(KIND, self._paths[directory], text, advice=ADVICE)

    def _reserve_of(self, space: DiskSpace) -> int:
        if self._reserve_bytes >= 0:
            return self._reserve_bytes
        return default_reserve_bytes(space.total_bytes)


def _tell_nobody(_directory: LogDirectory) -> None: ...
