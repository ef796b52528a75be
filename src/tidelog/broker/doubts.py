"""Brokers that may be dead: their connection broke and the controller has not decided yet.

A client whose leader dies asks the next broker within a millisecond. An answer that names the dead
leader again is worse than a late one: librdkafka asks only once a second. So such an answer waits
for the controller, which needs a few milliseconds (ADR 0017), and not longer than it ever needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

DOUBT_MS = 500


class Doubts:
    """Who is in doubt, and until when."""

    __slots__ = ("_broker", "_until_ms")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._until_ms: dict[int, int] = {}

    def begin(self, broker_id: int) -> None:
        """Its end of a connection was closed, or refuses a new one."""
        self._until_ms.setdefault(broker_id, self._broker.now_ms() + DOUBT_MS)

    def end(self, broker_id: int) -> None:
        """It answered."""
        if self._until_ms:
            self._until_ms.pop(broker_id, None)

    def remain(self) -> bool:
        """Whether what metadata say of some broker should not be told yet."""
        if not self._until_ms:
            return False
        now = self._broker.now_ms()
        brokers = self._broker.image.brokers
        for broker_id, until_ms in list(self._until_ms.items()):
            registration = brokers.get(broker_id)
            if now >= until_ms or registration is None or registration.fenced:
                del self._until_ms[broker_id]
        return bool(self._until_ms)
