"""The memory of a run: its digest and its last happenings, rendered only when asked for.

While a seed runs, a happening costs a tuple in a ring. The columns that show the state of
every node are one string, built again only when a node's state changes, and every happening
keeps the string that was current: so the story can be drawn later from any point on.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from tidelog.sim.kernel import Kernel
from tidelog.sim.story import Narrator, is_silent

UP = "."
DOWN = "✗"
PAUSED = "‖"
CUT_OFF = "≠"

NOWHERE = 0
"""For happenings of no node: the whole cluster, the controller's decisions, clients."""

RING_SIZE = 4_096


class Moment(NamedTuple):
    at_us: int
    step: int
    node: int
    happening: tuple[object, ...]
    columns: str


class Trace:
    """Digest of everything, ring of the last happenings, columns of node states."""

    __slots__ = ("_columns", "_kernel", "_ring", "_states", "narrator")

    def __init__(
        self,
        kernel: Kernel,
        nodes: int,
        *,
        ring_size: int | None = RING_SIZE,
        topics: tuple[str, ...] = (),
    ) -> None:
        """`ring_size` None keeps everything: for one seed told as a story."""
        self._kernel = kernel
        self._ring: deque[Moment] = deque(maxlen=ring_size)
        self._states = [UP] * nodes
        self._columns = "".join(self._states)
        self.narrator = Narrator(topics)

    def happened(self, node: int, happening: tuple[object, ...]) -> None:
        """Remember a fact. Plain values only: its text goes into the digest."""
        kernel = self._kernel
        kernel.digest.add_happening(happening)
        self._ring.append(Moment(kernel.now_us, kernel.steps, node, happening, self._columns))

    def fact(self, number: int) -> None:
        """One integer into the digest and nowhere else: for what happens too often to tell."""
        self._kernel.digest.add(number)

    def set_state(self, node: int, state: str) -> None:
        """Show this node as UP, DOWN, PAUSED or CUT_OFF from now on."""
        assert 1 <= node <= len(self._states), f"node {node} of {len(self._states)}"
        self._states[node - 1] = state
        self._columns = "".join(self._states)

    def name_topic(self, topic_id: bytes, name: str) -> None:
        """So that the story can say `orders-0`."""
        self.narrator.topics[topic_id] = name

    def hexdigest(self) -> str:
        """Of every step and every happening so far."""
        return self._kernel.digest.hexdigest()

    def moments(self) -> list[Moment]:
        return list(self._ring)

    def story(self, *, last: int | None = None, everything: bool = False) -> Iterator[str]:
        """One line per happening; without the silent ones (appends, watermarks) by default."""
        moments = [moment for moment in self._ring if everything or not is_silent(moment.happening)]
        for moment in moments if last is None else moments[-last:]:
            yield self._line(moment)

    def _line(self, moment: Moment) -> str:
        mark, text = self.narrator.tell(moment.happening)
        columns = list(moment.columns)
        if mark and 1 <= moment.node <= len(columns):
            columns[moment.node - 1] = mark
        return f"{moment.at_us / 1_000_000:8.3f}s  {' '.join(columns)}   {text}".rstrip()
