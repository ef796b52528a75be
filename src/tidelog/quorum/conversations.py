"""Both sides of the quorum's conversations: our requests, and those that we have to answer."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tidelog.core.quorum import messages as m
from tidelog.core.quorum.state import QuorumSettings
from tidelog.host.ports import Network, PeerConnection
from tidelog.quorum.translate import VERSIONS, Speaker, request_to_wire
from tidelog.quorum.translate_answers import is_answer_to, response_to_wire
from tidelog.rpc import Answer, Call, Peer

_LOGGER = logging.getLogger("tidelog.quorum")

OnOutcome = Callable[[int, m.QuorumRequest, Answer], None]

FETCHES = (m.FetchRequest, m.FetchSnapshotRequest)

_QUESTION_OF: dict[type, type] = {
    m.VoteResponse: m.VoteRequest,
    m.BeginEpochResponse: m.BeginEpochRequest,
    m.EndEpochResponse: m.EndEpochRequest,
    m.FetchResponse: m.FetchRequest,
    m.FetchSnapshotResponse: m.FetchSnapshotRequest,
}


class Questions:
    """To each voter one connection for fetches, which may be parked there, and one for the rest:
    a vote never waits behind a fetch. At most one fetch is open; a repeated one takes the place
    of the older, whose answer could otherwise be taken for its own."""

    __slots__ = (
        "_client_id",
        "_fetch_peers",
        "_foreign",
        "_network",
        "_on_outcome",
        "_open_fetches",
        "_peers",
        "_settings",
        "_speaker",
        "_unanswered",
        "all_answered",
    )

    def __init__(
        self,
        network: Network,
        speaker: Speaker,
        settings: QuorumSettings,
        client_id: str,
        on_outcome: OnOutcome,
    ) -> None:
        self._network = network
        self._speaker = speaker
        self._settings = settings
        self._client_id = client_id
        self._on_outcome = on_outcome
        self._peers: dict[int, Peer] = {}
        self._fetch_peers: dict[int, Peer] = {}
        self._foreign: set[int] = set()
        self._open_fetches: dict[int, m.QuorumRequest] = {}
        self._unanswered = 0
        self.all_answered = asyncio.Event()
        """Set while nothing but fetches is open."""
        self.all_answered.set()

    def ask(self, target: int, request: m.QuorumRequest) -> None:
        """The outcome is told later, unless the same node was asked for something newer."""
        address = self._speaker.voters.get(target)
        if address is None:
            return  # a voter by the log and not by the configuration: nobody knows where it is
        fetches = isinstance(request, FETCHES)
        peers = self._fetch_peers if fetches else self._peers
        peer = peers.get(target)
        if peer is None:
            peer = peers[target] = Peer(self._network, address, self._client_id)
        if fetches:
            outdated = target in self._open_fetches
            self._open_fetches[target] = request
            if outdated:
                peer.close()
            timeout_ms = self._settings.fetch_retry_ms
        else:
            self._unanswered += 1
            self.all_answered.clear()
            timeout_ms = self._settings.request_timeout_ms
        wire = request_to_wire(self._speaker, target, request)
        on_answer = partial(self._on_answer, target, request)
        peer.send(wire, VERSIONS[type(request)], on_answer, timeout_ms=timeout_ms)

    def _on_answer(self, target: int, request: m.QuorumRequest, answer: Answer) -> None:
        if isinstance(request, FETCHES):
            if self._open_fetches.get(target) is not request:
                return
            del self._open_fetches[target]
        else:
            self._unanswered -= 1
            if not self._unanswered:
                self.all_answered.set()
        self._on_outcome(target, request, answer)

    def note_foreign(self, target: int) -> None:
        """Said once of each: it will not change while both run."""
        if target not in self._foreign:
            self._foreign.add(target)
            _LOGGER.warning(
                "node %d belongs to another cluster, we to %s: one of the two was formatted with"
                " a wrong cluster id",
                target,
                self._speaker.cluster_id,
            )

    def close(self) -> None:
        """Nobody hears of what is still open."""
        self._open_fetches.clear()
        for peer in (*self._peers.values(), *self._fetch_peers.values()):
            peer.close()


class ParkedCall(NamedTuple):
    call: Call
    question: m.QuorumRequest


class ParkedCalls:
    """Requests of other nodes that the core has not answered yet: one of a kind per node."""

    __slots__ = ("_calls", "_speaker")

    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker
        self._calls: dict[tuple[int, type], ParkedCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, source: int, question: m.QuorumRequest, call: Call) -> None:
        """A node that asks again has given up its older question, and the connection with it."""
        key = (source, type(question))
        older = self._calls.get(key)
        self._calls[key] = ParkedCall(call, question)
        if older is not None:
            older.call.close()

    def answer(self, target: int, response: m.QuorumResponse, wall_ms: int) -> None:
        """To whoever asked this; to nobody if it does not wait any more."""
        key = (target, _QUESTION_OF[type(response)])
        parked = self._calls.get(key)
        if parked is None or not is_answer_to(parked.question, response):
            return
        del self._calls[key]
        parked.call.answer(response_to_wire(self._speaker, response, wall_ms))

    def forget(self, connection: PeerConnection) -> None:
        """It closed: nobody waits for these answers."""
        gone = [key for key, each in self._calls.items() if each.call.connection is connection]
        for key in gone:
            del self._calls[key]

    def close(self) -> None:
        calls, self._calls = self._calls, {}
        for parked in calls.values():
            parked.call.close()
