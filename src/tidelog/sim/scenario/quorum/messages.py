"""What travels on the wires of the quorum stage, and how a story calls it."""

from __future__ import annotations

from typing import Any, NamedTuple

from tidelog.core.errors import Error
from tidelog.core.metadata.records import RESOURCE_GROUP, Config
from tidelog.core.quorum.messages import (
    BeginEpochRequest,
    BeginEpochResponse,
    EndEpochRequest,
    EndEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderChange,
    QuorumMessage,
    QuorumRequest,
    VoteRequest,
    VoteResponse,
    VotersRecord,
)
from tidelog.core.types import LogEntry
from tidelog.quorum.translate import Speaker, request_from_wire
from tidelog.quorum.translate_answers import response_from_wire
from tidelog.sim.scenario.wires import Question

_QUORUM_KEYS = (1, 52, 53, 54, 59)
_CALL_KEYS = {62: "registration", 63: "heartbeat", 56: "proposal"}


class Envelope(NamedTuple):
    """A request or an answer on its way."""

    source: int
    target: int
    kind: str
    text: str
    message: QuorumMessage | None
    """None if it is not the quorum's."""
    question: Question
    is_answer: bool


def story_record(name: str) -> Config:
    """A record that means nothing to anybody: it is called by its name."""
    return Config(RESOURCE_GROUP, name, "story", name)


def request_envelope(question: Question, speaker: Speaker, said: str = "") -> Envelope:
    message = _quorum_request(question, speaker)
    if message is None:
        kind = _CALL_KEYS.get(question.header.api_key, "request")
        return Envelope(question.source, question.target, kind, said or kind, None, question, False)
    kind = kind_of(message)
    text = f"{kind} {_content(message)}"
    return Envelope(question.source, question.target, kind, text, message, question, False)


def answer_envelope(question: Question, speaker: Speaker, said: str = "") -> Envelope:
    asked = _quorum_request(question, speaker)
    ends = question.target, question.source
    if asked is None:
        kind = _CALL_KEYS.get(question.header.api_key, "request")
        refused = answer_error(question)
        text = f"{said or kind} | {'done' if refused is Error.NONE else refused.name}"
        return Envelope(*ends, f"{kind}-answer", text, None, question, True)
    message = response_from_wire(speaker, asked, question.answer())
    kind = kind_of(message)
    return Envelope(*ends, kind, f"{kind} {_content(message)}", message, question, True)


def _quorum_request(question: Question, speaker: Speaker) -> QuorumRequest | None:
    if question.header.api_key not in _QUORUM_KEYS:
        return None
    heard = request_from_wire(speaker, question.request())
    return None if heard is None else heard.message


def answer_error(question: Question) -> Error:
    """The first error that the answer names, wherever it does."""
    return next(
        (error for error in _errors(question.answer()) if error is not Error.NONE), Error.NONE
    )


def _errors(part: Any) -> list[Error]:
    found: list[Error] = []
    for name in type(part).__slots__ if hasattr(type(part), "__slots__") else vars(part):
        value = getattr(part, name)
        if name == "error_code":
            found.append(Error(value))
        elif isinstance(value, list | tuple):
            for each in value:
                if not isinstance(each, int | str | bytes):
                    found += _errors(each)
    return found


_KINDS: dict[type, str] = {
    BeginEpochRequest: "begin-epoch",
    BeginEpochResponse: "begin-epoch-answer",
    EndEpochRequest: "end-epoch",
    EndEpochResponse: "end-epoch-answer",
    FetchRequest: "fetch",
    FetchResponse: "fetch-answer",
    FetchSnapshotRequest: "fetch-snapshot",
    FetchSnapshotResponse: "fetch-snapshot-answer",
}
CALLS = ("registration", "heartbeat", "proposal", "request")
KINDS = (
    "pre-vote",
    "pre-vote-answer",
    "vote",
    "vote-answer",
    *_KINDS.values(),
    *CALLS,
    *(f"{call}-answer" for call in CALLS),
)


def kind_of(message: QuorumMessage) -> str:
    if isinstance(message, VoteRequest):
        return "pre-vote" if message.pre_vote else "vote"
    if isinstance(message, VoteResponse):
        return "pre-vote-answer" if message.pre_vote else "vote-answer"
    return _KINDS[type(message)]


def _content(message: QuorumMessage) -> str:
    if isinstance(message, VoteRequest):
        return (
            f"epoch={message.epoch} last-epoch={message.last_epoch} log-end={message.last_offset}"
        )
    if isinstance(message, FetchRequest):
        return (
            f"epoch={message.epoch} offset={message.fetch_offset} "
            f"last-epoch={message.last_fetched_epoch}"
        )
    if isinstance(message, FetchSnapshotRequest):
        return f"{tuple(message.snapshot)} position={message.position}"
    if isinstance(message, (BeginEpochRequest, EndEpochRequest)):
        return f"epoch={message.epoch}"
    if message.error is not Error.NONE:
        return message.error.name
    if isinstance(message, VoteResponse):
        return f"epoch={message.epoch} {'granted' if message.granted else 'refused'}"
    if isinstance(message, FetchResponse):
        return _fetch_answer(message)
    if isinstance(message, FetchSnapshotResponse):
        first, count = message.position, len(message.chunk)
        return f"bytes {first}..{first + count} of {message.size}"
    return f"epoch={message.epoch}"


def _fetch_answer(answer: FetchResponse) -> str:
    if answer.diverging is not None:
        epoch, end_offset = answer.diverging
        return f"diverging epoch={epoch} end-offset={end_offset}"
    if answer.snapshot is not None:
        return f"snapshot={tuple(answer.snapshot)}"
    high_watermark = "none" if answer.high_watermark < 0 else str(answer.high_watermark)
    records = log_text(answer.entries) or "no records"
    return f"{records} high-watermark={high_watermark}"


def log_text(entries: tuple[LogEntry, ...] | list[LogEntry]) -> str:
    return " ".join(map(entry_text, entries))


def entry_text(entry: LogEntry) -> str:
    """`x/2` is record x of epoch 2, `p+q/2` one atomic entry of two, `L1/2` what node 1 wrote
    when it became the leader of epoch 2, `V(1,2)/2` a voter set."""
    return f"{'+'.join(map(_record_text, entry.records))}/{entry.epoch}"


def _record_text(record: object) -> str:
    if isinstance(record, LeaderChange):
        return f"L{record.leader_id}"
    if isinstance(record, VotersRecord):
        return f"V({','.join(str(voter.node_id) for voter in record.voters)})"
    return record.resource_name if isinstance(record, Config) else type(record).__name__
