"""Brokers that were fenced a moment ago: Metadata answers still list their addresses.

librdkafka closes down a broker that is missing from an answer. If the same answer moves a partition
away from it, the partition ends up with nobody until the next scan, a second later: its old broker
takes it along when it goes. So a broker leaves the answers some time after it has lost its
partitions. Nobody is misled by that: it leads nothing, and where a session has to run out first
(`broker.session.timeout.ms`) a dead broker is listed for longer.

Once per connection: librdkafka asks twice when a broker goes. The first answer moves the partitions
away. The second lets it forget the broker, and with it the pause before the next try to connect,
which grows to 10 s and would still be in force when the broker is back.

Where transactions are used, all clients get these brokers for longer, however often they ask. A
producer of librdkafka that commits offsets in a transaction waits for the coordinator of the group
it last knew. If that coordinator has been shut down, the producer waits forever (its issue 5511, as
of 2.16). While it is listed, the tries to connect to it remind the producer, after a second, to
look for another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.coordination.internal_topics import TRANSACTION_STATE
from tidelog.core.metadata import records as r

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.host.ports import Clock

LISTED_MS = 2_000
LISTED_FOR_TRANSACTIONS_MS = 9_000
"""As long as with Kafka's own `broker.session.timeout.ms`: what clients are used to."""


class RecentlyFenced:
    """Who was fenced while we were watching, and until when it is still listed."""

    __slots__ = ("_metadata", "_now_ms", "_told", "_until_ms")

    def __init__(self, metadata: LocalMetadata, clock: Clock) -> None:
        self._metadata = metadata
        self._now_ms = clock.monotonic_ms
        self._until_ms: dict[int, int] = {}
        self._told: dict[int, set[object]] = {}
        """By broker: the connections that were told of it."""

    def note(
        self, record: r.RegisterBroker | r.UnregisterBroker | r.BrokerRegistrationChange
    ) -> None:
        """A broker was fenced or unfenced, came or went for good."""
        if isinstance(record, r.BrokerRegistrationChange) and record.fenced == 0:
            return
        if isinstance(record, r.BrokerRegistrationChange) and record.fenced > 0:
            if self._metadata.serving:
                self._until_ms[record.broker_id] = self._now_ms() + self._listed_ms()
                self._told[record.broker_id] = set()
        else:
            self._forget(record.broker_id)

    def to_be_told(self, connection: object) -> frozenset[int]:
        """Who is to be listed on this connection now; where nobody uses transactions, once."""
        if not self._until_ms:
            return frozenset()
        now = self._now_ms()
        for broker_id in [each for each, until_ms in self._until_ms.items() if until_ms <= now]:
            self._forget(broker_id)
        if self._uses_transactions():
            return frozenset(self._until_ms)
        news = [each for each, told in self._told.items() if connection not in told]
        for broker_id in news:
            self._told[broker_id].add(connection)
        return frozenset(news)

    def _listed_ms(self) -> int:
        return LISTED_FOR_TRANSACTIONS_MS if self._uses_transactions() else LISTED_MS

    def _uses_transactions(self) -> bool:
        return TRANSACTION_STATE in self._metadata.image.topic_ids

    def _forget(self, broker_id: int) -> None:
        self._until_ms.pop(broker_id, None)
        self._told.pop(broker_id, None)
