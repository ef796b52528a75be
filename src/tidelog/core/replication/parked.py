"""Parked produces: acks=all requests waiting for the high watermark (replication.md §4.2).

Each LeaderReplica has its own, and lives for one tenure only. That is how a produce is tied to
the uninterrupted leadership it was appended under.
"""

from heapq import heappop, heappush


class ParkedProduces:
    """Ordered by required offset, so an advance only touches what it completes."""

    __slots__ = ("_heap", "_parked", "_sequence")

    def __init__(self) -> None:
        # (required offset, sequence, token). A withdrawn produce leaves its entry behind.
        self._heap: list[tuple[int, int, object]] = []
        self._parked: dict[object, int] = {}
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, token: object, required_offset: int) -> None:
        assert token not in self._parked, f"produce {token} is parked already"
        assert required_offset >= 0, f"produce {token} waits for offset {required_offset}"
        self._sequence += 1
        self._parked[token] = self._sequence
        heappush(self._heap, (required_offset, self._sequence, token))

    def take_reached(self, high_watermark: int) -> list[object]:
        """Every produce the high watermark has passed, lowest offset first."""
        heap, parked = self._heap, self._parked
        reached: list[object] = []
        while heap and heap[0][0] <= high_watermark:
            _, sequence, token = heappop(heap)
            if parked.get(token) == sequence:
                del parked[token]
                reached.append(token)
        return reached

    def withdraw(self, token: object) -> bool:
        """True when it was still parked."""
        return self._parked.pop(token, None) is not None

    def take_all(self) -> list[object]:
        """In the order they were parked."""
        tokens = list(self._parked)
        self._parked.clear()
        self._heap.clear()
        return tokens
