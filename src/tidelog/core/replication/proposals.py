"""AlterPartition requests of one broker: all waiting proposals together, one request at a time.

A proposal is repeated until the controller has decided it: it never times out, because after
a lost answer the change may be committed, and only metadata or an answer can tell (§8.5).
"""

from tidelog.core.errors import Error
from tidelog.core.replication import isr
from tidelog.core.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrProposal,
    IsrResult,
)
from tidelog.core.types import PartitionId

RETRY_BACKOFF_MS = 50


class IsrProposals:
    """The shell adds what leaders propose, sends `next_request`, and hands back what comes.

    Answers are matched by the identity of the request they answer: an answer to an earlier
    sending says nothing certain about the one that is under way.
    """

    __slots__ = ("_in_flight", "_waiting", "retry_at_ms")

    def __init__(self) -> None:
        self._waiting: dict[PartitionId, IsrProposal] = {}
        self._in_flight: AlterPartitionRequest | None = None
        self.retry_at_ms = 0

    def __len__(self) -> int:
        in_flight = len(self._in_flight.proposals) if self._in_flight is not None else 0
        return len(self._waiting) + in_flight

    def add(self, proposal: IsrProposal) -> None:
        """A newer proposal replaces one that was not sent yet: metadata has overtaken it."""
        self._waiting[proposal.partition] = proposal

    def withdraw(self, partition: PartitionId) -> None:
        """This broker no longer leads the partition."""
        self._waiting.pop(partition, None)

    def next_request(
        self, broker_id: int, broker_epoch: int, now_ms: int
    ) -> AlterPartitionRequest | None:
        if self._in_flight is not None or not self._waiting or now_ms < self.retry_at_ms:
            return None
        request = AlterPartitionRequest(broker_id, broker_epoch, tuple(self._waiting.values()))
        self._waiting.clear()
        self._in_flight = request
        return request

    def on_response(
        self, request: AlterPartitionRequest, response: AlterPartitionResponse, now_ms: int
    ) -> list[IsrResult]:
        """The results that leaders have to hear about. The rest is sent again."""
        if request is not self._in_flight:
            return []
        if response.error is not Error.NONE:
            self._send_again(request.proposals, now_ms)
            return []
        self._in_flight = None
        results = {result.partition: result for result in response.results}
        decided: list[IsrResult] = []
        undecided: list[IsrProposal] = []
        for proposal in request.proposals:
            result = results.get(proposal.partition)
            if result is None or isr.is_retried(result.error):
                undecided.append(proposal)
            elif proposal.partition not in self._waiting:
                decided.append(result)  # else its leader has moved on: the answer is too late
        if undecided:
            self._send_again(tuple(undecided), now_ms)
        return decided

    def on_failure(self, request: AlterPartitionRequest, now_ms: int) -> None:
        """No answer will come: broken connection, or no controller known."""
        if request is self._in_flight:
            self._send_again(request.proposals, now_ms)

    def _send_again(self, proposals: tuple[IsrProposal, ...], now_ms: int) -> None:
        self._in_flight = None
        self.retry_at_ms = now_ms + RETRY_BACKOFF_MS
        for proposal in proposals:
            self._waiting.setdefault(proposal.partition, proposal)
