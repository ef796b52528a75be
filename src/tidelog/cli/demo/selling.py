"""The producer at work beside everything else, and what its acknowledgements tell of time."""

import asyncio
import threading
import time
from collections.abc import Iterable
from itertools import pairwise

from tidelog.cli.demo.book import Answered, Book
from tidelog.cli.demo.till import Till

POLL_SECONDS = 0.02
STALL_SECONDS = 40.0
"""Longer than the till waits for one answer."""


class Selling:
    """A till on a thread of its own. It ends with the process, whatever happens."""

    __slots__ = ("_failure", "_thread", "_till", "began", "ended")

    def __init__(self, till: Till) -> None:
        self._till = till
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tidelog.till", daemon=True)
        self.began = time.monotonic()
        self.ended: float | None = None
        self._thread.start()

    @property
    def book(self) -> Book:
        return self._till.book

    @property
    def acknowledged(self) -> int:
        return len(self.book.acknowledged)

    def open(self) -> None:
        self.began = time.monotonic()
        self._till.open()

    def reach(self, orders: int) -> None:
        """Until so many are acknowledged or all are sold; TimeoutError if for long none is."""
        before, moved_at = self.acknowledged, time.monotonic()
        while self.acknowledged < orders and self._thread.is_alive():
            time.sleep(POLL_SECONDS)
            if self.acknowledged > before:
                before, moved_at = self.acknowledged, time.monotonic()
            elif time.monotonic() - moved_at > STALL_SECONDS:
                raise TimeoutError(f"no order is acknowledged after {before}")
        if self._failure is not None:
            raise self._failure

    def finish(self) -> Book:
        """Until everything is sold."""
        self.reach(self._till.orders)
        self._thread.join(STALL_SECONDS)
        if self._failure is not None:
            raise self._failure
        return self.book

    def _run(self) -> None:
        try:
            asyncio.run(self._till.run())
        except BaseException as error:
            self._failure = error  # told to whoever waits
        self.ended = time.monotonic()


def longest_silence_ms(answers: Iterable[Answered], begin: float, end: float) -> float:
    """The longest time without an acknowledgement from one partition, around a span of time."""
    times: dict[int, list[float]] = {}
    for answer in answers:
        times.setdefault(answer.partition, []).append(answer.at)
    longest = 0.0
    for each in times.values():
        for before, after in pairwise(each):
            if after >= begin and before <= end:
                longest = max(longest, after - before)
    return longest * 1000
