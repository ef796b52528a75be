"""What travels on the wire of the quorum stage, and how a story calls it."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.core.errors import Error
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
    VoteRequest,
    VoteResponse,
    VotersRecord,
)
from tidelog.core.requests import ControllerRequest, ControllerResponse
from tidelog.core.types import LogEntry

CLIENT = -3
"""The other end of a request that no broker sent; clients reach every node that runs."""


class Call:
    """A request to a controller; its identity is the token of the answer."""

    __slots__ = ("kind", "request", "response", "source", "target", "text")

    def __init__(
        self, source: int, target: int, kind: str, request: ControllerRequest, text: str
    ) -> None:
        self.source = source
        self.target = target
        self.kind = kind
        self.request = request
        self.text = text
        self.response: ControllerResponse | None = None


class Synced(NamedTuple):
    """Not a message: the disk tells its own node that the log is durable."""


class Envelope(NamedTuple):
    source: int
    target: int
    kind: str
    message: QuorumMessage | Call | Synced


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


def envelope_text(envelope: Envelope) -> str:
    """What is written on it, without its ends."""
    message = envelope.message
    if isinstance(message, Call):
        answered = envelope.source == message.target
        return answer_text(message) if answered else message.text
    assert not isinstance(message, Synced), "a sync is not told"
    return f"{envelope.kind} {_content(message)}"


def answer_text(call: Call) -> str:
    response = call.response
    assert response is not None, f"{call.text} is not answered"
    results = getattr(response, "results", ())
    errors = [response.error, *(result.error for result in results if hasattr(result, "error"))]
    errors += [result[1] for result in results if not hasattr(result, "error")]
    refused = [error.name for error in errors if error is not Error.NONE]
    return f"{call.text} | {refused[0] if refused else 'done'}"


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
        return f"records {first + 1}..{first + count} of {message.size}"
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
    return record if isinstance(record, str) else type(record).__name__
