"""Quotas of clients, checked before handlers while there are any, and the connections that wait."""

from collections.abc import Callable
from functools import partial
from typing import Any

from tidelog.config.node_config import NodeConfig
from tidelog.core.errors import Error
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.records import ClientQuota, MetadataRecord
from tidelog.core.security.quota_keys import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from tidelog.core.security.quotas import Limit, Quotas, Windows
from tidelog.core.types import LogEntry
from tidelog.host import tasks
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import PeerConnection, RequestHandler
from tidelog.observe.traffic import Traffic
from tidelog.rpc import ApiTable, Call, Handler
from tidelog.rpc.authorization.guards import split
from tidelog.rpc.authorization.table import FREE
from tidelog.rpc.calls import AmendedCall
from tidelog.wire.protocol.schemas.create_partitions_response import CreatePartitionsTopicResult
from tidelog.wire.protocol.schemas.create_topics_response import CreatableTopicResult
from tidelog.wire.protocol.schemas.delete_topics_response import DeletableTopicResult
from tidelog.wire.protocol.schemas.fetch_request import FetchRequest
from tidelog.wire.protocol.schemas.produce_request import ProduceRequest

PRODUCE, FETCH, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 0, 1, 19, 20, 37
STRICT_FROM = {CREATE_TOPICS: 6, DELETE_TOPICS: 5, CREATE_PARTITIONS: 3}
"""Versions whose clients know THROTTLING_QUOTA_EXCEEDED; older ones wait afterwards (KIP-599)."""
BETWEEN_BROKERS = frozenset((27,))
"""WriteTxnMarkers: its time is nobody's."""
EXCEEDED = "The throttling quota has been exceeded."


def quotas_of(config: NodeConfig) -> Quotas:
    given = config.settings
    return Quotas(
        Windows(given.whole("quota.window.num"), given.millis("quota.window.size.seconds")),
        Windows(
            given.whole("controller.quota.window.num"),
            given.millis("controller.quota.window.size.seconds"),
        ),
    )


class Throttling:
    """Implements `quorum.listener.MetadataListener`. One per node."""

    __slots__ = ("_host", "_muted", "_seconds", "_tables", "quotas", "traffic")

    def __init__(
        self, quotas: Quotas, host: NodeHost, seconds: Callable[[], float] = tasks.seconds
    ) -> None:
        """`seconds` says how long requests take."""
        self._seconds = seconds
        self.quotas = quotas
        self._host = host
        self.traffic = Traffic()
        """Where it is counted; a broker has one of its own."""
        self._tables: list[tuple[ApiTable, dict[int, Handler], dict[int, Handler]]] = []
        """Tables of listeners, with handlers as they are, and as they are while quotas are set."""
        self._muted: dict[PeerConnection, int] = {}
        """Until when."""

    # -- the metadata log

    def on_committed(self, entry: LogEntry) -> None:
        if entry.control:
            return
        for record in entry.records:
            if isinstance(record, ClientQuota):
                self.quotas.change(*record)
                self._switch()

    def on_snapshot(self, records: tuple[MetadataRecord, ...], end_offset: int) -> None:
        self.quotas.load({})
        for record in records:
            if isinstance(record, ClientQuota):
                self.quotas.change(*record)
        self._switch()

    def on_applied(self, offset: int) -> None:
        """Nothing waits for the end of a burst."""

    def on_claimable(self, epoch: int, next_offset: int) -> None:
        """Quotas hold whoever leads."""

    def on_lost(self, epoch: int) -> None:
        """Quotas hold whoever leads."""

    # -- handlers

    def meter_clients(self, table: ApiTable) -> None:
        """What clients produce and fetch through this table counts, and the time that their
        requests take. Where the controller said that a client has to wait, it is made to."""
        own = {PRODUCE: self._produce, FETCH: self._fetch}
        own |= dict.fromkeys(STRICT_FROM, self._passed_on)
        timed: dict[int, Callable[[Handler, Call], None]] = {
            key: partial(self._timed, own.get(key, serve_it))
            for key in table.handlers
            if key not in FREE and key not in BETWEEN_BROKERS
        }
        self._add(table, own | timed)

    def meter_mutations(self, table: ApiTable, image: Callable[[], MetadataImage]) -> None:
        """Partitions that are created and deleted through this table count."""
        mutate = partial(self._mutate, image)
        self._add(table, dict.fromkeys(STRICT_FROM, mutate))

    def _add(self, table: ApiTable, metered: dict[int, Callable[[Handler, Call], None]]) -> None:
        plain = {key: table.handlers[key] for key in metered}
        while_set: dict[int, Handler] = {
            key: partial(meter, plain[key]) for key, meter in metered.items()
        }
        self._tables.append((table, plain, while_set))
        self._switch()

    def _switch(self) -> None:
        for table, plain, while_set in self._tables:
            table.use(while_set if self.quotas else plain)

    def _limit(self, key: str, call: Call) -> Limit | None:
        return self.quotas.limit(key, call.caller.principal.name, call.client_id)

    # -- time (KIP-124)

    def _timed(self, meter: Callable[[Handler, Call], None], handler: Handler, call: Call) -> None:
        """Whoever has used too much is told with the next answer, and waits for a window at most,
        as in Kafka."""
        limit = self._limit(REQUEST_PERCENTAGE, call)
        if limit is None or is_from_replica(call.request):
            meter(handler, call)
            return
        quotas, now_ms = self.quotas, self._host.now_ms()
        over_ms = quotas.use(REQUEST_PERCENTAGE, limit, 0, now_ms)
        throttle_ms = min(over_ms, quotas.windows.size_ms)
        if throttle_ms > 0:
            self.traffic.throttled_requests += 1
            self.mute(call.connection, throttle_ms)
            if getattr(call.request, "acks", None) != 0:
                call = AmendedCall(call, partial(tell, throttle_ms))
        began = self._seconds()
        meter(handler, call)
        percents = 100 * (self._seconds() - began)
        quotas.use(REQUEST_PERCENTAGE, limit, percents, now_ms)

    # -- bytes

    def _produce(self, handler: Handler, call: Call) -> None:
        limit = self._limit(PRODUCER_BYTE_RATE, call)
        if limit is None:
            handler(call)
            return
        request = call.request
        assert isinstance(request, ProduceRequest), request
        size = sum(
            len(data.records or b"")
            for topic in request.topic_data
            for data in topic.partition_data
        )
        throttle_ms = self.quotas.use(PRODUCER_BYTE_RATE, limit, size, self._host.now_ms())
        if throttle_ms > 0:
            self.traffic.throttled_produces += 1
            self.mute(call.connection, throttle_ms)
            if request.acks != 0:
                call = AmendedCall(call, partial(tell, throttle_ms))
        handler(call)

    def _fetch(self, handler: Handler, call: Call) -> None:
        limit = self._limit(CONSUMER_BYTE_RATE, call)
        request = call.request
        assert isinstance(request, FetchRequest), request
        if limit is not None and not is_from_replica(request):
            call = AmendedCall(call, partial(self._fetched, call, limit))
        handler(call)

    def _fetched(self, call: Call, limit: Limit, response: Any) -> None:
        """The bytes go out, and the next ones have to wait: the rate is the same, and a client
        that asks for more than its quota at once still gets on."""
        size = sum(
            len(data.records or b"") for topic in response.responses for data in topic.partitions
        )
        throttle_ms = self.quotas.use(CONSUMER_BYTE_RATE, limit, size, self._host.now_ms())
        if throttle_ms > 0:
            self.traffic.throttled_fetches += 1
            tell(throttle_ms, response)
            self.mute(call.connection, throttle_ms)

    # -- partitions that come and go

    def _mutate(self, image: Callable[[], MetadataImage], handler: Handler, call: Call) -> None:
        limit = self._limit(CONTROLLER_MUTATION_RATE, call)
        request: Any = call.request
        if limit is None or getattr(request, "validate_only", False):
            handler(call)
            return
        key, strict = call.header.api_key, call.version >= STRICT_FROM[call.header.api_key]
        quotas, now_ms = self.quotas, self._host.now_ms()

        def is_allowed(item: Any) -> bool:
            if strict and quotas.mutation_wait_ms(CONTROLLER_MUTATION_RATE, limit, now_ms) > 0:
                self.traffic.throttled_mutations += 1
                return False
            partitions = mutations_of(key, item, image())
            quotas.mutate(CONTROLLER_MUTATION_RATE, limit, partitions, now_ms)
            return True

        def amend(response: Any) -> None:
            wait_ms = quotas.mutation_wait_ms(CONTROLLER_MUTATION_RATE, limit, self._host.now_ms())
            if wait_ms > 0:
                tell(wait_ms, response)

        items, into, refused = SHAPES[key]
        admitted = split(AmendedCall(call, amend), items, into, is_allowed, refused)
        if admitted is not None:
            handler(admitted)

    def _passed_on(self, handler: Handler, call: Call) -> None:
        def make_wait(response: Any) -> None:
            if response.throttle_time_ms > 0:
                self.mute(call.connection, response.throttle_time_ms)

        handler(AmendedCall(call, make_wait))

    # -- connections

    def slow_down(
        self, accept: Callable[[PeerConnection], RequestHandler]
    ) -> Callable[[PeerConnection], RequestHandler]:
        """Connections that come too fast from one address wait before they are read (KIP-612)."""

        def accepted(connection: PeerConnection) -> RequestHandler:
            if self.quotas:
                throttle_ms = self.quotas.connect(connection.peer, self._host.now_ms())
                if throttle_ms > 0:
                    self.traffic.throttled_connections += 1
                    self.mute(connection, throttle_ms)
            return accept(connection)

        return accepted

    def mute(self, connection: PeerConnection, throttle_ms: int) -> None:
        """Nothing more is read from it for so long (KIP-219)."""
        self.traffic.throttled_ms += throttle_ms
        due_ms = self._host.now_ms() + throttle_ms
        was_muted = connection in self._muted
        self._muted[connection] = max(due_ms, self._muted.get(connection, 0))
        if not was_muted:
            connection.pause()
            self._host.timers.add(due_ms, partial(self._unmute, connection))

    def _unmute(self, connection: PeerConnection) -> None:
        due_ms = self._muted[connection]
        if due_ms > self._host.now_ms():
            self._host.timers.add(due_ms, partial(self._unmute, connection))
            return
        del self._muted[connection]
        connection.resume()


def tell(throttle_ms: int, response: Any) -> None:
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = max(response.throttle_time_ms, throttle_ms)


def serve_it(handler: Handler, call: Call) -> None:
    """For what nothing but its time is measured of."""
    handler(call)


def is_from_replica(request: Any) -> bool:
    """A fetch of a follower, for which it needs CLUSTER_ACTION: brokers have no quotas for each
    other. Other requests have room for a replica's id, too, and anybody may put one there."""
    if not isinstance(request, FetchRequest):
        return False
    sender = request.replica_state
    return (sender.replica_id if sender is not None else request.replica_id) >= 0


def mutations_of(key: int, item: Any, image: MetadataImage) -> int:
    """Partitions that would come or go."""
    if key == CREATE_TOPICS:
        return len(item.assignments) or max(item.num_partitions, 1)
    name = getattr(item, "name", item)
    topic_id = getattr(item, "topic_id", b"")
    topic = image.topics.get(topic_id) or image.topics.get(image.topic_ids.get(name or "", b""))
    present = len(topic.partitions) if topic is not None else 0
    return present if key == DELETE_TOPICS else max(item.count - present, 0)


def _refused_deletion(item: Any) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=item.name,
        topic_id=item.topic_id,
        error_code=Error.THROTTLING_QUOTA_EXCEEDED,
        error_message=EXCEEDED,
    )


SHAPES: dict[int, tuple[str, str, Callable[[Any], Any]]] = {
    CREATE_TOPICS: (
        "topics",
        "topics",
        lambda item: CreatableTopicResult(
            name=item.name,
            error_code=Error.THROTTLING_QUOTA_EXCEEDED,
            error_message=EXCEEDED,
        ),
    ),
    DELETE_TOPICS: ("topics", "responses", _refused_deletion),
    CREATE_PARTITIONS: (
        "topics",
        "results",
        lambda item: CreatePartitionsTopicResult(
            name=item.name,
            error_code=Error.THROTTLING_QUOTA_EXCEEDED,
            error_message=EXCEEDED,
        ),
    ),
}
"""Where the items of a request and of its answer are, and how one is refused."""
