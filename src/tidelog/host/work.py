"""What an event loop is doing right now, as far as the running code declares it.

Written on the loop, read by `observe.loop_watch` when the loop is late. It assignments,
so that everything which may take long can afford to say its name.
"""


class Work:
    """One per node. What has no name is found by the stack instead."""

    __slots__ = ("name", "size", "unit")

    def __init__(self) -> None:
        self.name = ""
        """A request, a duty, a step of metadata; empty between them."""
        self.size = 0
        self.unit = ""

    def begin(self, name: str, size: int, unit: str) -> None:
        self.name = name
        self.size = size
        self.unit = unit

    def end(self) -> None:
        self.name = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.size:,} {self.unit})" if self.name else ""
