"""Brokers that were fenced a moment ago: clients are still told where they are.

librdkafka closes down a broker that is missing from an answer. If the same answer moves a partition
away from it, the partition ends up with nobody until the next scan, a second later: its old broker
takes it along when it goes. So a broker leaves the answers some time after it has lost its
partitions. Nobody is misled by that: it leads nothing, and where a session has to run out first
(`broker.session.timeout.ms`) a dead broker is listed for longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.metadata import records as r

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

LISTED_MS = 2_000


class Departures:
    """Who was fenced while we were watching, and until when it is still listed."""

    __slots__ = ("_broker", "_until_ms")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._until_ms: dict[int, int] = {}

    def note(
        self, record: r.RegisterBroker | r.UnregisterBroker | r.BrokerRegistrationChange
    ) -> None:
        """A broker was fenced or unfenced, came or went for good."""
        if isinstance(record, r.BrokerRegistrationChange) and record.fenced == 0:
            return
        if isinstance(record, r.BrokerRegistrationChange) and record.fenced > 0:
            if self._broker.serving:
                self._until_ms[record.broker_id] = self._broker.now_ms() + LISTED_MS
        else:
            self._until_ms.pop(record.broker_id, None)

    def recent(self) -> frozenset[int]:
        if not self._until_ms:
            return frozenset()
        now = self._broker.now_ms()
        self._until_ms = {each: until for each, until in self._until_ms.items() if until > now}
        return frozenset(self._until_ms)
