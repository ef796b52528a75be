"""A client's produce on its way to a leader, and what the leader makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from tidelog.core import events
from tidelog.core.errors import Error
from tidelog.core.replication.inputs import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from tidelog.host.ports import NetworkError
from tidelog.sim.scenario.disks import TOPIC, batches_of, encode_batch
from tidelog.sim.scenario.process import broker_address
from tidelog.sim.scenario.words import offsets_text
from tidelog.wire.protocol import RequestHeader, decode_response, encode_request
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import ProduceResponse
from tidelog.wire.protocol.schemas.write_txn_markers_request import WriteTxnMarkersRequest

if TYPE_CHECKING:
    from tidelog.host.ports import Outcome
    from tidelog.sim.scenario.broker import StageBroker
    from tidelog.sim.scenario.stage import Stage

ACKS = {"all": ACKS_ALL, "1": ACKS_LEADER, "0": ACKS_NONE}
REQUEST_TIMEOUT_MS = 30_000
MARKER_VERSION = 1
PRODUCE_VERSION = 9
"""The last one whose clients ask the coordinator themselves, and know no abortable error."""


class Producer(NamedTuple):
    """Who numbers its batches."""

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False


class Produce:
    """Batches that a client sends one after the other, without waiting in between."""

    def __init__(
        self, target: StageBroker, batches: list[list[str]], acks: int, producer: Producer
    ) -> None:
        self.target = target
        self.acks = acks
        self.producer = producer
        self.verified = False
        self.name = " ".join("+".join(each) for each in batches).strip()
        """Unnamed records are called by the offset they get, so this may be empty at first."""
        self._batches = batches
        self._open = len(batches)
        self.appended: list[int] = []
        """First offset and end of what was appended."""
        self.high_watermarks: list[int] = []
        self.error = Error.NONE

    @property
    def is_answered(self) -> bool:
        return self._open == 0

    def name_records(self) -> None:
        """Nobody named them: they are called by the offsets they will get."""
        hosted = self.target.hosted
        first = 0 if hosted is None else hosted.log.log_end_offset
        if not self.name:
            last = first + len(self._batches) - 1
            self.name = str(first) if first == last else f"{first}..{last}"
            self._batches = [[str(first + n)] for n in range(len(self._batches))]

    def frames(self) -> list[bytes]:
        kind = RequestHeader(ProduceRequest.__api_key__, PRODUCE_VERSION, 1, "client")
        return [
            b"".join(map(bytes, encode_request(kind, self._request(each))))
            for each in self._batches
        ]

    def _request(self, names: list[str]) -> ProduceRequest:
        producer_id, producer_epoch, base_sequence, transactional = self.producer
        batch = encode_batch(
            names,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )
        data = PartitionProduceData(index=0, records=batch)
        return ProduceRequest(
            transactional_id="story" if transactional else None,
            acks=self.acks,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
        )

    def on_outcome(self, outcome: Outcome) -> None:
        if isinstance(outcome, NetworkError):
            return  # its leader died, which is told
        self._open -= 1
        _, message = decode_response(bytes(outcome), ProduceRequest.__api_key__, PRODUCE_VERSION)
        response = cast(ProduceResponse, message)
        (answer,) = response.responses[0].partition_responses
        self.error = Error(answer.error_code)
        stage = self.target.stage
        if self.is_answered and stage.producing.current is not self:
            self.target.parked.remove(self)
            self.tell_answer()

    def tell_answer(self) -> None:
        error = "" if self.error is Error.NONE else f" {self.error.name}"
        self.target.note(f"answered produce {self.name}{error}")

    # -- what became of it

    def tell(self) -> None:
        note, appended = self.target.note, self.appended
        if self.is_answered and self.error is not Error.NONE and not appended:
            note(f"refuse produce {self.name} {self.error.name}")
            return
        wanted = self._tell_offsets()
        self.tell_high_watermark()
        if self.acks == ACKS_NONE:
            return
        if self.is_answered:
            self.tell_answer()
        else:
            self.target.parked.append(self)
            note(f"parked until high-watermark={wanted}")

    def tell_high_watermark(self) -> None:
        if self.high_watermarks:
            first, last = self.high_watermarks[0], self.high_watermarks[-1]
            self.target.note(f"high-watermark {first} -> {last}")

    def _tell_offsets(self) -> int:
        """And the high watermark at which all of it is committed."""
        hosted = self.target.hosted
        assert hosted is not None, f"{self.target.name} hosts nothing"
        if self.appended:
            first, end = self.appended[0], self.appended[-1]
            epoch = hosted.replica.leader_epoch
            self.target.note(f"append {offsets_text(first, end - 1)} leader-epoch={epoch}")
            return end
        entry = hosted.log.producers.get(self.producer.producer_id)
        assert entry is not None, f"{self.name} was accepted and not appended"
        (batch,) = (
            each for each in entry.batches if each.first_sequence == self.producer.base_sequence
        )
        offsets = offsets_text(batch.first_offset, batch.last_offset)
        self.target.note(f"duplicate of {offsets}, nothing appended")
        return batch.last_offset + 1


class Producing:
    """What happens while a produce is carried out is told as one sentence."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.current: Produce | None = None

    def deliver(self, produce: Produce) -> None:
        stage, broker = self._stage, produce.target
        if not broker.answers:
            stage.narrator.line(f"client: no connection to {broker.name}")
            return
        if produce.producer.transactional:
            stage.control.add_coordinator()
        produce.name_records()
        hosted = broker.hosted
        end = 0 if hosted is None else hosted.log.log_end_offset
        self.current = produce
        line = stage.wires.open_line(None, broker_address(broker.id))
        for frame in produce.frames():
            line.ask(frame, produce.on_outcome)
        stage.settle()
        self.current = None
        produce.tell()
        if produce.acks == ACKS_LEADER and produce.appended and hosted is not None:
            for batch in batches_of(hosted.log):
                if batch.base_offset >= end:
                    stage.ledger.on_acknowledged_by_leader(batch)

    def mark(self, leader: StageBroker, what: str, request: WriteTxnMarkersRequest) -> None:
        """A marker of a transaction coordinator is told like a produce."""
        marker = self.current = Produce(leader, [], ACKS_NONE, Producer())
        self._stage.ask(leader, request, MARKER_VERSION)
        self.current = None
        leader.note(f"append {what} offset={marker.appended[0]}")
        marker.tell_high_watermark()

    def on_appended(self, broker: StageBroker, event: events.RecordsAppended) -> None:
        if self.current is not None and self.current.target is broker:
            self.current.appended += [event.base_offset, event.next_offset]

    def on_high_watermark(self, broker: StageBroker, previous: int, now: int) -> None:
        if self.current is not None and self.current.target is broker:
            self.current.high_watermarks += [previous, now]
        else:
            broker.note(f"high-watermark {previous} -> {now}")
