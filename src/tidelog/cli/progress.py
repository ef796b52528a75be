"""How far a long command is: a bar on a terminal, a line every five seconds elsewhere.

Always on stderr: what a command answers goes to stdout alone.
"""

import sys
import time
from types import TracebackType
from typing import Any, Self

import click

from tidelog.cli import session
from tidelog.cli.output import count, duration

LINE_EVERY_SECONDS = 5.0
BAR_EVERY_SECONDS = 0.1


class Progress:
    """`with Progress("seeds", total) as progress: … progress.update(done, note)`."""

    def __init__(self, what: str, total: int | None, *, seconds: float | None = None) -> None:
        """Without a total, `seconds` says when the work will end."""
        self._what = what
        self._total = total
        self._seconds = seconds
        self._begin = time.monotonic()
        self._last_line = self._begin
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._bar = _make_bar()
            self._task = self._bar.add_task(self._what, total=self._total or self._seconds, note="")
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        reason: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, note: str = "") -> None:
        now = time.monotonic()
        if self._bar is not None:
            completed = done if self._total is not None else now - self._begin
            due = now - self._last_line >= BAR_EVERY_SECONDS
            self._last_line = now if due else self._last_line
            line = self._line(done, note, now)
            self._bar.update(self._task, completed=completed, note=line, refresh=due)
        elif now - self._last_line >= LINE_EVERY_SECONDS:
            self._last_line = now
            click.echo(self._line(done, note, now), err=True)

    def _line(self, done: int, note: str, now: float) -> str:
        elapsed = max(now - self._begin, 1e-9)
        rate = done / elapsed
        of = f" of {count(self._total)}" if self._total is not None else ""
        parts = [f"{count(done)}{of} {self._what}", f"{rate:.1f}/s"]
        left = self._seconds_left(done, elapsed, rate)
        if left is not None:
            parts.append(f"{duration(left)} left")
        if note:
            parts.append(note)
        return " · ".join(parts)

    def _seconds_left(self, done: int, elapsed: float, rate: float) -> float | None:
        if self._total is not None:
            return (self._total - done) / rate if done else None
        return max(0.0, self._seconds - elapsed) if self._seconds is not None else None


def _make_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as RichProgress

    return RichProgress(
        BarColumn(bar_width=30),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True, no_color=not session.current().colour),
        transient=True,
        auto_refresh=False,  # it would be done by a thread, and the fleet forks
    )
