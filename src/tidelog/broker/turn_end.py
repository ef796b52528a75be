"""Work done once at the end of a turn of the event loop, however often it was requested."""

from collections.abc import Callable

Work = Callable[[], None]


class TurnEnd:
    """Collects work; all of it is done in one callback, also what it gives rise to: batches that
    were appended wake the fetches that wait for them. What that answers is sent together."""

    __slots__ = ("_running", "_sends_first", "_soon", "_work")

    def __init__(self, soon: Callable[[Work], None]) -> None:
        self._soon = soon
        self._work: list[Work] = []
        self._running = False
        self._sends_first = False

    def add(self, work: Work) -> None:
        """Each call is one run of it."""
        self._work.append(work)
        if len(self._work) == 1 and not self._running:
            self._soon(self._run)

    def follow(self, work: Work) -> None:
        """Behind what this turn has asked for; now, if it has not asked for anything."""
        if self._work:
            self._work.append(work)
        else:
            work()

    def send_first(self) -> None:
        """For work that runs: what it has answered is on its way before the rest is done."""
        self._sends_first = True

    def _run(self) -> None:
        self._running, self._sends_first = True, False
        try:
            while self._work and not self._sends_first:
                self._work.pop(0)()
        finally:
            self._running = False
            if self._work:  # one that failed does not cost the others theirs
                self._soon(self._run)
