"""How a running node is observed, and broken on purpose: its stream, its journal, its HTTP port."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.config.security import HTTP
from tidelog.core import events
from tidelog.core.errors import Error
from tidelog.core.metadata.records import MetadataRecord
from tidelog.core.types import LogEntry
from tidelog.host.disk_space import SwitchedSpace
from tidelog.host.gate import Faults, GatedNetwork
from tidelog.host.network import TcpNetwork
from tidelog.host.tls_streams import TlsStreams
from tidelog.node.disks import cannot_listen
from tidelog.node.http_access import NodeHttpAccess
from tidelog.node.lab_gate import LabGate
from tidelog.node.node import Node
from tidelog.node.scripted_answers import Script, ScriptedAnswers
from tidelog.node.topic_writer import TopicWriter, audit_writer, event_writer
from tidelog.node.view import LiveNode
from tidelog.observe.audit_topic import AuditTopic
from tidelog.observe.counts import EventCounts, LoopDelay
from tidelog.observe.event_topic import EventTopic
from tidelog.observe.http import Endpoints, Sources
from tidelog.observe.http_server import Request, Response
from tidelog.observe.journal import Journal, JournalHandler
from tidelog.observe.render import Renderer
from tidelog.observe.sentences import ids
from tidelog.observe.stream import EventStream, NumberedEvent
from tidelog.rpc.failed_answers import can_fail
from tidelog.wire.protocol import API_BY_KEY

if TYPE_CHECKING:
    from tidelog.observe.metrics import Metrics

_LOGGER = logging.getLogger("tidelog.node")


class Observation:
    """Everything that looks at one node. Starts before it and stops after it."""

    def __init__(
        self,
        node: Node,
        stream: EventStream,
        journal: JournalHandler,
        network: TcpNetwork,
        gate: GatedNetwork | None,
        *,
        delay: LoopDelay,
        lab: LabGate | None = None,
    ) -> None:
        self._config = node.config
        self._host = node.host
        self._journal = journal
        self._delay = delay
        self._stream = stream
        self._counts = EventCounts(stream)
        self._access = NodeHttpAccess(node) if node.config.is_secured else None
        self._view = LiveNode(node, network, self._access)
        renderer = Renderer(node.topic_name)
        stream.subscribe(Journal(renderer, journal).on_event)
        stream.subscribe(self._on_event)
        chaos = self.chaos = None if gate is None else NodeChaos(node, gate)
        self.has_chaos = chaos is not None and node.config.chaos_enabled
        if chaos is not None:
            node.quorum.listeners.append(chaos)
        self._metrics: Metrics | None = None
        tls = node.security.tls_of(HTTP)
        self._endpoints = Endpoints(
            Sources(
                self._view,
                stream,
                renderer,
                self._scrape,
                chaos if self.has_chaos else None,
                self._access,
                None if tls is None else TlsStreams(tls, network.context),
                lab,
            )
        )
        self.http_port: int | None = None
        self._renderer = renderer
        self._image = node.image
        self._writers: list[TopicWriter] = []
        self._topic: EventTopic | None = None
        self._audit: AuditTopic | None = None

    async def start(self) -> None:
        self._write_topics()
        address = self._config.http_listener
        if address is None:
            return
        try:
            await self._endpoints.server.start(address.host, address.port)
        except OSError as error:
            name = f"{address.host}:{address.port}"
            raise cannot_listen(name, "tidelog.http.listener", error) from error
        self.http_port = self._endpoints.server.port
        scheme = "HTTP" if self._config.security.http.tls is None else "HTTPS"
        _LOGGER.info("%s on %s:%d", scheme, address.host, self.http_port)

    def _write_topics(self) -> None:
        config, host, stream, renderer = self._config, self._host, self._stream, self._renderer
        if config.events_topic_enabled and config.is_broker:
            writer = event_writer(config, host)
            self._writers.append(writer)
            self._topic = EventTopic(stream, renderer, writer.produce)
            self._topic.start()
        if config.audit_topic_enabled:
            writer = audit_writer(config, host, self._image)
            self._writers.append(writer)
            self._audit = AuditTopic(stream, renderer, writer.produce, host.findings)
            self._audit.start()

    async def stop(self) -> None:
        if self._topic is not None:
            await self._topic.stop()
        if self._audit is not None:
            await self._audit.stop()
        for writer in self._writers:
            await writer.close()
        await self._endpoints.server.stop()
        if self._access is not None:
            self._access.close()

    async def answer(self, request: Request) -> Response:
        """As its HTTP port would, to whoever is in this process."""
        return await self._endpoints.handle(request)

    def _on_event(self, numbered: NumberedEvent) -> None:
        event = numbered.event
        if isinstance(event, events.BecameLeader | events.BecameFollower | events.IsrChanged):
            self._view.note_replication(event.partition)

    def _scrape(self) -> bytes:
        if self._metrics is None:
            # 35 ms and 5 MB that a node nobody scrapes does not spend.
            from tidelog.observe import metrics  # noqa: PLC0415

            sources = metrics.Sources(
                self._view, self._stream, self._counts, self._delay, self._own_counters
            )
            self._metrics = metrics.Metrics(sources)
        return self._metrics.text()

    def _own_counters(self) -> Mapping[str, int]:
        server, audit = self._endpoints.server, self._audit
        return {
            "audit_records_written": 0 if audit is None else audit.written,
            "audit_records_dropped": 0 if audit is None else audit.dropped,
            "audit_write_failures": 0 if audit is None else audit.failures,
            "journal_lines": self._journal.written,
            "journal_lines_left_out": self._journal.left_out_total,
            "http_requests": server.requests.total(),
            "http_slow_readers": server.closed["slow-reader"] + server.closed["fell-behind"],
            "http_connections_refused": server.closed["too-many-connections"],
        }


class NodeChaos:
    """The gates of a node, by node id. Implements `observe.http.Chaos`, and listens to metadata
    to learn who lives where (`quorum.listener.MetadataListener`)."""

    def __init__(self, node: Node, gate: GatedNetwork) -> None:
        self._node = node
        self._gate = gate
        space = node.host.disk_space
        self._space = space if isinstance(space, SwitchedSpace) else None
        self.answers = ScriptedAnswers(node.client_tables, node.topic_name)
        self._learn()

    def describe(self) -> dict[str, object]:
        faults, known = self._gate.faults, self._gate.known_nodes
        concerned = faults.blocked | faults.latency_ms.keys()
        return {
            "blocked": sorted(faults.blocked),
            "latency_ms": {str(node): ms for node, ms in sorted(faults.latency_ms.items())},
            "full_disks": self._space is not None and self._space.pretends_full,
            "unknown": sorted(concerned - set(known)),
            "answer_next": self.answers.describe(),
        }

    def set(
        self, blocked: frozenset[int], latency_ms: dict[int, int], *, full_disks: bool = False
    ) -> None:
        self._gate.set(Faults(blocked, latency_ms))
        if self._space is not None:
            self._space.pretends_full = full_disks
        cut = f"cut off from nodes {ids(sorted(blocked))}" if blocked else "cut off from nobody"
        slow = [f"{ms} ms to node {node}" for node, ms in sorted(latency_ms.items())]
        full = ["disks that look full"] if full_disks else []
        _LOGGER.warning("chaos: %s", ", ".join([cut, *slow, *full]))

    def answer_next(self, api: str, error: str, times: int, topic: str | None) -> None:
        """ValueError if there is no such API or error."""
        keys = {each.name: each.key for each in API_BY_KEY.values() if each.for_clients}
        if api not in keys or not can_fail(keys[api]):
            raise ValueError(f"no API {api!r} that can be answered with an error")
        if error not in Error.__members__ or error == Error.NONE.name:
            raise ValueError(f"no error {error!r}")
        self.answers.add(Script(keys[api], Error[error], times, topic))
        about = "" if topic is None else f" for {topic}"
        _LOGGER.warning("chaos: the next %d of %s%s get %s", times, api, about, error)

    def answer_as_usual(self) -> None:
        self.answers.clear()

    def on_applied(self, offset: int) -> None:
        self._learn()

    def on_committed(self, entry: LogEntry) -> None:
        """Looked at when all of it is applied."""

    def on_snapshot(self, records: tuple[MetadataRecord, ...], end_offset: int) -> None:
        """Looked at when all of it is applied."""

    def on_claimable(self, epoch: int, next_offset: int) -> None:
        """The controller's business."""

    def on_lost(self, epoch: int) -> None:
        """The controller's business."""

    def _learn(self) -> None:
        config, image = self._node.config, self._node.image()
        addresses: dict[int, list[tuple[str, int]]] = {}
        for voter in config.voters:
            addresses.setdefault(voter.node_id, []).append((voter.host, voter.port))
        for broker in image.brokers.values() if image is not None else ():
            found = addresses.setdefault(broker.broker_id, [])
            found.extend((each.host, each.port) for each in broker.endpoints)
        addresses.pop(config.node_id, None)
        for node_id, known in addresses.items():
            self._gate.know(node_id, known)
