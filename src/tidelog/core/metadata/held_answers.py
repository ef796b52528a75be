"""Answers that wait for a commit, and those that outlive the claim they were decided in.

What a controller has written and not committed when it loses its claim may be committed all the
same, by the next leader of the quorum or by itself when it is elected again. Told to ask again
before that is known, a client hears of the topic it has just created that it exists. So answers
to the administrator are held until the log says what became of their records, and no longer: the
committed entries tell it, because epochs in a log never fall.

- An entry of the lost claim's epoch is committed: so is everything before it.
- An entry of a later epoch is: what is left of the lost claim can never be committed any more.

Brokers are told at once. Nothing they ask for is harmed by being asked twice, and they must not
wait at a former controller for what the next one would do.
"""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.metadata.decision import refuse
from tidelog.core.metadata.effects import Answer
from tidelog.core.requests import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    ControllerRequest,
    ControllerResponse,
    HeartbeatRequest,
    RegisterBrokerRequest,
)
from tidelog.core.types import NO_EPOCH, LogEntry

OF_BROKERS = (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    HeartbeatRequest,
    RegisterBrokerRequest,
)
"""What brokers ask for themselves."""


class Waiting(NamedTuple):
    """An answer that may be given once `offset` is committed."""

    offset: int
    token: object
    request: ControllerRequest
    response: ControllerResponse
    wrote: bool
    """Its own records are among those it waits for."""
    part_of: object
    """What it has in common with the other decisions of one request; they wait side by side."""

    def refusal(self) -> Answer:
        return Answer(self.token, refuse(self.request, Error.NOT_CONTROLLER))


class HeldAnswers:
    """Of one claim that is over. The next one of this node begins with none: it has heard of the
    commit of an entry of its own epoch."""

    __slots__ = ("_waiting", "epoch")

    def __init__(self) -> None:
        self.epoch = NO_EPOCH
        """Of that claim."""
        self._waiting: deque[Waiting] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def hold(self, epoch: int, waiting: Iterable[Waiting]) -> list[Answer]:
        """The claim of this epoch is lost. What nobody has to wait for is refused.

        A decision without records is held only beside one of the same request that has some: a
        request that is refused in part is asked again as a whole.
        """
        assert not self._waiting, f"epoch {self.epoch} is undecided after epoch {epoch}"
        self.epoch = epoch
        refused: list[Answer] = []
        for _, group in groupby(waiting, key=lambda each: each.part_of):
            together = [*group]
            if any(each.wrote and may_be_held(each.request) for each in together):
                self._waiting.extend(together)
            else:
                refused += [each.refusal() for each in together]
        return refused

    def on_committed(self, entry: LogEntry) -> list[Answer]:
        """Every node hears of every entry, in order: the first of a later epoch decides."""
        if entry.epoch > self.epoch:
            return self.refuse_all()
        answers: list[Answer] = []
        while (
            self._waiting
            and entry.epoch == self.epoch
            and self._waiting[0].offset < entry.next_offset
        ):
            waiting = self._waiting.popleft()
            answers.append(Answer(waiting.token, waiting.response))
        return answers

    def on_snapshot(self, end_offset: int) -> None:
        """It does not say of which epoch the entries were that it replaces. Whoever waits for one
        of them will never be told, and has a time of his own."""
        while self._waiting and self._waiting[0].offset < end_offset:
            self._waiting.popleft()

    def forget(self, is_gone: Callable[[object], bool]) -> list[object]:
        """Nobody waits for the answers to these tokens any more."""
        gone = [each.token for each in self._waiting if is_gone(each.token)]
        if gone:
            self._waiting = deque(each for each in self._waiting if not is_gone(each.token))
        return gone

    def refuse_all(self) -> list[Answer]:
        refused = [each.refusal() for each in self._waiting]
        self._waiting.clear()
        return refused


def may_be_held(request: ControllerRequest) -> bool:
    return not isinstance(request, OF_BROKERS)
