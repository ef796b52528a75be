"""What stays on the wires of a story until it says so.

Fetches of followers always do: a story lets them happen one by one. Of other messages `hold`
catches the next of its kind. Everything else arrives at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tidelog.core.errors import Error
from tidelog.sim.scenario.wires import CLIENT, Line, Question
from tidelog.wire.protocol.schemas.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from tidelog.wire.protocol.schemas.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tidelog.wire.protocol.schemas.alter_partition_request import AlterPartitionRequest
from tidelog.wire.protocol.schemas.alter_partition_response import AlterPartitionResponse
from tidelog.wire.protocol.schemas.broker_heartbeat_response import BrokerHeartbeatResponse

if TYPE_CHECKING:
    from tidelog.sim.scenario.exchange import Exchange
    from tidelog.sim.scenario.stage import Stage

FETCH = "fetch"
ANSWER = "answer"
PROPOSAL = "proposal"
RESULT = "result"
REGISTRATION = "registration"
HEARTBEAT = "heartbeat"
PRODUCE = "produce"

KINDS = (FETCH, ANSWER, PROPOSAL, RESULT, REGISTRATION, HEARTBEAT, PRODUCE)
"""A fetch and its answer, an AlterPartition proposal and its result, …"""

FETCH_KEY, ADD_PARTITIONS_KEY, ALTER_PARTITION_KEY, FETCH_SNAPSHOT_KEY = 1, 24, 56, 59
_KIND_OF_KEY = {ALTER_PARTITION_KEY: PROPOSAL, 62: REGISTRATION, 63: HEARTBEAT}
_WORDS = {REGISTRATION: "registers", HEARTBEAT: "heartbeat"}


class StoryGate:
    """Implements `wires.Gate`, and tells what passes it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._holds: list[tuple[str, int]] = []
        self._held: dict[tuple[str, int], object] = {}
        self._deferred: list[Question] = []
        """Proposals that were made while a fetch was told."""
        self._metadata: list[Question] = []
        self._refused: dict[int, int] = {}
        self.fetches: dict[int, Question] = {}
        """The next fetch of each follower."""
        self.exchange: Exchange | None = None
        """The fetch that is being told."""

    # -- hold, deliver, drop

    def hold_next(self, kind: str, broker: int) -> None:
        assert kind in KINDS, kind
        self._holds.append((kind, broker))

    def catches(self, kind: str, broker: int, message: object) -> bool:
        """True when somebody was waiting for this message, which now stays on the wire."""
        if (kind, broker) not in self._holds:
            return False
        self._holds.remove((kind, broker))
        self._held[kind, broker] = message
        return True

    def take(self, kind: str, broker: int) -> object | None:
        """The message that was caught, no longer on the wire."""
        return self._held.pop((kind, broker), None)

    @property
    def held(self) -> list[tuple[str, int]]:
        """Which messages are on the wire: their kind, and whose they are."""
        return list(self._held)

    def release_deferred(self) -> None:
        deferred, self._deferred = self._deferred, []
        for question in deferred:
            self._stage.wires.carry_request(question)

    def release_metadata(self, broker: int) -> None:
        """It hears what it has missed."""
        kept, self._metadata = self._metadata, []
        for question in kept:
            if question.source != broker:
                self._metadata.append(question)
            elif question.is_open and question.answer_frame:
                self._stage.wires.deliver_answer(question)
            elif question.is_open:
                self._stage.wires.deliver_request(question)

    # -- wires.Gate

    def keeps_request(self, question: Question) -> bool:
        key, source = question.header.api_key, question.source
        if source == CLIENT:
            return False
        if key == ADD_PARTITIONS_KEY:
            self._answer_for_coordinator(question)
            return True
        if question.target != self._stage.control.node_id:
            if key == FETCH_KEY:
                self.fetches[source] = question
            return key == FETCH_KEY
        if key in (FETCH_KEY, FETCH_SNAPSHOT_KEY):
            return self._keeps_metadata(question)
        kind = _KIND_OF_KEY.get(key)
        if kind == PROPOSAL and self.exchange is not None:
            self._deferred.append(question)
            return True
        if kind is None or not self.catches(kind, source, question):
            return False
        said = _WORDS.get(kind) or f"proposes {self._proposed(question)}"
        self._stage.narrator.line(f"{self._name(source)} -> controller {said} | held")
        return True

    def keeps_answer(self, question: Question) -> bool:
        key = question.header.api_key
        if self.exchange is not None and question is self.exchange.question:
            self.exchange.answered = True
            return True
        if question.source == CLIENT or question.target != self._stage.control.node_id:
            return False
        if key in (FETCH_KEY, FETCH_SNAPSHOT_KEY):
            return self._keeps_metadata(question)
        if key == ALTER_PARTITION_KEY:
            return self._keeps_result(question)
        kind = _KIND_OF_KEY.get(key)
        if kind is not None:
            self._hear_controller(kind, question)
        return False

    def outlives_cut(self, line: Line) -> bool:
        """What a broker asks of the metadata log is answered as soon as it can be."""
        is_metadata = line.last_key in (FETCH_KEY, FETCH_SNAPSHOT_KEY)
        return is_metadata and line.target == self._stage.control.node_id

    def _answer_for_coordinator(self, question: Question) -> None:
        """Of transactions; the produce under way says what it would say."""
        request = cast(AddPartitionsToTxnRequest, question.request())
        produce = self._stage.producing.current
        error = Error.NONE if produce is None or produce.verified else Error.INVALID_TXN_STATE
        (asked,) = request.transactions
        result = AddPartitionsToTxnPartitionResult(partition_error_code=error.value)
        topic = AddPartitionsToTxnTopicResult(
            name=asked.topics[0].name, results_by_partition=[result]
        )
        transaction = AddPartitionsToTxnResult(
            transactional_id=asked.transactional_id, topic_results=[topic]
        )
        question.answer_instead(AddPartitionsToTxnResponse(results_by_transaction=[transaction]))
        self._stage.wires.deliver_answer(question)

    def _keeps_metadata(self, question: Question) -> bool:
        held = self._stage.brokers[question.source].metadata_held
        held = held or not self._stage.wires.connects(question.source, question.target)
        if held:
            self._metadata.append(question)
        return held

    def _keeps_result(self, question: Question) -> bool:
        error, text = self._result(question)
        told = f"controller -> {self._name(question.source)} {text}"
        if not self._stage.wires.connects(question.source, question.target):
            self._stage.narrator.line(f"{told} | no connection")
        elif self.catches(RESULT, question.source, question):
            self._stage.narrator.line(f"{told} | held")
            return True
        elif error is not Error.NONE:
            self._stage.narrator.line(told)
        return False

    # -- telling

    def _name(self, broker: int) -> str:
        return self._stage.cast.name_of(broker)

    def _hear_controller(self, kind: str, question: Question) -> None:
        """A refusal is repeated many times and told once."""
        code = cast(BrokerHeartbeatResponse, question.answer()).error_code
        source = question.source
        if kind == REGISTRATION and not code:
            self._stage.wires.reset_ghosts(source)
        if code and code != self._refused.get(source):
            self._stage.narrator.line(
                f"{self._name(source)} -> controller {_WORDS[kind]} | {Error(code).name}"
            )
        self._refused[source] = code

    def _proposed(self, question: Question) -> str:
        request = cast(AlterPartitionRequest, question.request())
        (topic,) = request.topics
        (partition,) = topic.partitions
        members = (member.broker_id for member in partition.new_isr_with_epochs)
        return f"isr={self._stage.cast.names_of(members)}"

    def _result(self, question: Question) -> tuple[Error, str]:
        response = cast(AlterPartitionResponse, question.answer())
        results = [each for topic in response.topics for each in topic.partitions]
        error = Error(results[0].error_code if results else response.error_code)
        proposed = self._proposed(question)
        if error is Error.NEW_LEADER_ELECTED:
            return error, f"{proposed} answered {error.name}"  # and it cost the leadership
        if error is not Error.NONE:
            return error, f"{proposed} refused {error.name}"
        return error, f"{proposed} committed partition-epoch={results[0].partition_epoch}"
