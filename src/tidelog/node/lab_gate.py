"""A gate in front of replica fetches: a real broker that takes one step at a time (ADR 0046).

While it is closed, what a follower asks its leader waits here until somebody releases it over HTTP.
Everything else passes: heartbeats, metadata, proposals, clients. So nothing replicates by itself,
and nobody is taken for dead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from tidelog.core.errors import Error
from tidelog.core.types import NO_EPOCH
from tidelog.host.frames import kept
from tidelog.host.gate import GatedConnection, GatedNetwork
from tidelog.host.ports import (
    Buffer,
    ConnectionClosed,
    Listener,
    MakeTlsContext,
    Network,
    NetworkError,
    OnOutcome,
    Outcome,
    PeerConnection,
    PeerReset,
    RequestConnection,
    RequestHandler,
)
from tidelog.quorum.translate import TOPIC_ID as METADATA_TOPIC_ID
from tidelog.wire.protocol import (
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    read_request_header,
)
from tidelog.wire.protocol.schemas.fetch_request import FetchRequest
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse, PartitionData
from tidelog.wire.records import iter_batches

Document = dict[str, object]
FETCH = FetchRequest.__api_key__
PASSED_KEPT = 64


class Waiting:
    """A fetch at the gate; later its answer, if that is to wait too."""

    def __init__(self, number: int, connection: SteppedConnection, frame: bytes) -> None:
        self.number = number
        self.connection = connection
        self.frame = frame
        header, request = decode_request(frame)
        self.header: RequestHeader = header
        self.request = cast(FetchRequest, request)
        self.on_outcome: OnOutcome | None = None
        """None: it was told."""
        self.timeout_ms = 0
        self.correlation_id: int | None = None
        self.keeps_answer = False
        self.outcome: Outcome | None = None

    def settle(self, outcome: Outcome) -> None:
        on_outcome, self.on_outcome = self.on_outcome, None
        if on_outcome is not None:
            on_outcome(outcome)

    def limit(self, max_bytes: int) -> None:
        """A leader answers with one batch at least, however little is asked for."""
        for topic in self.request.topics:
            for partition in topic.partitions:
                partition.partition_max_bytes = max_bytes
        self.frame = b"".join(map(bytes, encode_request(self.header, self.request)))

    def asked(self) -> list[Document]:
        return [
            {
                "topic_id": bytes(topic.topic_id).hex(),
                "partition": partition.partition,
                "offset": partition.fetch_offset,
                "last_epoch": partition.last_fetched_epoch,
            }
            for topic in self.request.topics
            for partition in topic.partitions
        ]


class LabGate:
    """The `Network` of a broker in the lab, and `observe.lab_route.Lab`."""

    def __init__(self, node_id: int, network: GatedNetwork) -> None:
        self.node_id = node_id
        self.is_closed = True
        self._network = network
        self._numbers = 0
        self._waiting: list[Waiting] = []
        self._answers: list[Waiting] = []
        self._passed: deque[Document] = deque(maxlen=PASSED_KEPT)

    # -- Network

    async def listen(
        self,
        host: str,
        port: int,
        on_connection: Callable[[PeerConnection], RequestHandler],
        *,
        privileged: bool = False,
        tls: MakeTlsContext | None = None,
    ) -> Listener:
        return await self._network.listen(host, port, on_connection, privileged=privileged, tls=tls)

    async def connect(
        self,
        host: str,
        port: int,
        *,
        timeout_ms: int,
        correlation_of: Callable[[memoryview], int] | None = None,
        tls: MakeTlsContext | None = None,
    ) -> SteppedConnection:
        inner = await self._network.connect(
            host, port, timeout_ms=timeout_ms, correlation_of=correlation_of, tls=tls
        )
        return SteppedConnection(self, inner, (host, port))

    def soon(self, work: Callable[[], None]) -> None:
        self._network.soon(work)

    # -- what somebody in the lab does

    def describe(self) -> Document:
        return {
            "node": self.node_id,
            "closed": self.is_closed,
            "waiting": [self._describe(each) for each in self._waiting],
            "answers": [self._describe(each) for each in self._answers],
            "passed": list(self._passed),
        }

    def close(self) -> None:
        self.is_closed = True

    def open(self) -> None:
        """For good: whatever waits goes on."""
        self.is_closed = False
        for waiting in [*self._waiting]:
            self._waiting.remove(waiting)
            waiting.connection.pass_on(waiting)
        for answered in [*self._answers]:
            self._deliver(answered)

    def release(
        self,
        target: int,
        *,
        count: int,
        number: int | None,
        max_bytes: int | None,
        keep_answer: bool,
    ) -> int:
        """How many passed; none if none waits for that node, or not the one of this number."""
        waits = [each for each in self._waiting if self._target(each) == target]
        chosen = [each for each in waits if number in (None, each.number)][:count]
        for waiting in chosen:
            self._waiting.remove(waiting)
            waiting.keeps_answer = keep_answer
            if max_bytes is not None:
                waiting.limit(max_bytes)
            waiting.connection.pass_on(waiting)
        return len(chosen)

    def end_answers(self, target: int, *, arrive: bool) -> int:
        """Answers of that node that were kept arrive, or get lost; how many."""
        chosen = [each for each in self._answers if self._target(each) == target]
        for answered in chosen:
            if arrive:
                self._deliver(answered)
            else:
                self._answers.remove(answered)
                self._note(answered, {"error": "lost"})
                answered.settle(PeerReset("the answer got lost in the lab"))
        return len(chosen)

    # -- what connections tell

    def hold(self, waiting: Waiting) -> None:
        self._waiting.append(waiting)

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def on_answered(self, waiting: Waiting, outcome: Outcome) -> None:
        if waiting.on_outcome is None:
            return
        if isinstance(outcome, NetworkError):
            self._note(waiting, {"error": str(outcome)})
            waiting.settle(outcome)
        elif waiting.keeps_answer and self.is_closed:
            waiting.outcome = kept(outcome)
            self._answers.append(waiting)
        else:
            self._note(waiting, _answer_document(waiting, outcome))
            waiting.settle(outcome)

    def forget(self, connection: SteppedConnection) -> None:
        """It has ended: nothing that waits on it can pass any more."""
        for queue in (self._waiting, self._answers):
            for waiting in [each for each in queue if each.connection is connection]:
                queue.remove(waiting)
                waiting.settle(ConnectionClosed("closed while its fetch waited in the lab"))

    def _deliver(self, answered: Waiting) -> None:
        assert isinstance(answered.outcome, memoryview), answered.outcome
        self._answers.remove(answered)
        self._note(answered, _answer_document(answered, answered.outcome))
        answered.settle(answered.outcome)

    def _note(self, waiting: Waiting, answer: Document) -> None:
        self._passed.append({**self._describe(waiting), "answer": answer})

    def _describe(self, waiting: Waiting) -> Document:
        return {
            "number": waiting.number,
            "from": self.node_id,
            "to": self._target(waiting),
            "partitions": waiting.asked(),
        }

    def _target(self, waiting: Waiting) -> int | None:
        return self._network.node_at(waiting.connection.address)


class SteppedConnection:
    """A connection of which replica fetches wait at the gate."""

    __slots__ = ("_gate", "_inner", "address")

    def __init__(self, gate: LabGate, inner: GatedConnection, address: tuple[str, int]) -> None:
        self._gate = gate
        self._inner = inner
        self.address = address

    @property
    def is_closed(self) -> bool:
        return self._inner.is_closed

    def send(
        self,
        buffers: Sequence[Buffer],
        on_outcome: OnOutcome,
        *,
        timeout_ms: int,
        correlation_id: int | None = None,
    ) -> None:
        frame = b"".join(buffers) if self._gate.is_closed else b""
        if not frame or not _is_replica_fetch(frame):
            self._inner.send(
                [frame] if frame else buffers,
                on_outcome,
                timeout_ms=timeout_ms,
                correlation_id=correlation_id,
            )
            return
        if self._inner.is_closed:
            raise ConnectionClosed("it has ended")
        waiting = Waiting(self._gate.next_number(), self, frame)
        waiting.on_outcome = on_outcome
        waiting.timeout_ms = timeout_ms
        waiting.correlation_id = correlation_id
        self._gate.hold(waiting)

    def pass_on(self, waiting: Waiting) -> None:
        try:
            self._inner.send(
                [waiting.frame],
                lambda outcome: self._gate.on_answered(waiting, outcome),
                timeout_ms=waiting.timeout_ms,
                correlation_id=waiting.correlation_id,
            )
        except NetworkError as error:
            self._gate.on_answered(waiting, error)

    def post(self, buffers: Sequence[Buffer]) -> None:
        self._inner.post(buffers)

    def close(self) -> None:
        self._gate.forget(self)
        self._inner.close()


def _is_replica_fetch(frame: bytes) -> bool:
    """A fetch of records; voters and brokers fetch metadata with the same request."""
    if read_request_header(frame)[0].api_key != FETCH:
        return False
    request = cast(FetchRequest, decode_request(frame)[1])
    return all(topic.topic_id != METADATA_TOPIC_ID for topic in request.topics)


def _answer_document(waiting: Waiting, outcome: memoryview) -> Document:
    header = waiting.header
    response = cast(FetchResponse, decode_response(outcome, FETCH, header.api_version)[1])
    return {
        "error": None if not response.error_code else Error(response.error_code).name,
        "partitions": [
            {"topic_id": bytes(topic.topic_id).hex(), **_partition_document(partition)}
            for topic in response.responses
            for partition in topic.partitions
        ],
    }


def _partition_document(data: PartitionData) -> Document:
    headers = [header for _, header in iter_batches(memoryview(data.records or b""))]
    diverging = data.diverging_epoch
    differs = diverging is not None and diverging.epoch != NO_EPOCH
    return {
        "partition": data.partition_index,
        "error": None if not data.error_code else Error(data.error_code).name,
        "high_watermark": data.high_watermark,
        "first": headers[0].base_offset if headers else None,
        "last": headers[-1].last_offset if headers else None,
        "epoch": headers[-1].leader_epoch if headers else None,
        "diverging": [diverging.epoch, diverging.end_offset] if diverging and differs else None,
    }


if TYPE_CHECKING:
    _PORT: type[Network] = LabGate  # the type checker compares them
    _CONNECTION: type[RequestConnection] = SteppedConnection
