"""What the APIs of transactional producers have in common."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.transactions.producer_ids import NoProducerIds
from tidelog.core.errors import Error
from tidelog.core.transactions.machine import TransactionMachine
from tidelog.core.types import NO_PRODUCER

if TYPE_CHECKING:
    from tidelog.broker.coordination.coordinators import Coordination
    from tidelog.broker.transactions.concurrent_requests import ConcurrentRequests
    from tidelog.broker.transactions.producer_ids import ProducerIds
    from tidelog.core.coordination import Token
    from tidelog.rpc import Call

FIRST_VERSION = 1
"""Of transactions (KIP-890): the epoch of the producer outlives them."""
SECOND_VERSION = 2
"""The epoch is raised with every end, and partitions are added by the first batch in them."""


class TransactionCalls:
    """Brings what producers ask to the coordinator of their transactions. One per broker."""

    __slots__ = ("_concurrent_requests", "_coordination", "_producer_ids")

    def __init__(
        self,
        coordination: Coordination,
        concurrent_requests: ConcurrentRequests,
        producer_ids: ProducerIds,
    ) -> None:
        self._coordination = coordination
        self._concurrent_requests = concurrent_requests
        self._producer_ids = producer_ids

    def ask(self, transactional_id: str, request: object, token: Token) -> None:
        """Ask the coordinator of this transactional id, if it is here."""
        index = self._coordination.transaction_partition(transactional_id)
        if index is None:
            token.refuse(Error.COORDINATOR_NOT_AVAILABLE)
        else:
            self._coordination.transactions.request(index, request, token)

    def ask_patiently(self, transactional_id: str, request: object, token: Token) -> None:
        """For requests that begin something: while the end of the last transaction is being
        written, they wait (`concurrent_requests`)."""
        self._concurrent_requests.ask(
            transactional_id, token, partial(self.ask, transactional_id, request)
        )

    def with_producer_id(
        self, transactional_id: str, call: Call, later: WithProducerId, *, ending: bool
    ) -> None:
        """Go on with a fresh id, or with NO_PRODUCER if the coordinator needs none for what it is
        asked. It may come later: the coordinator decides when it is asked, not now."""
        machine = self._machine(transactional_id)
        if machine is None or not machine.needs_producer_id(transactional_id, ending=ending):
            later.go(NO_PRODUCER)
        else:
            self.with_new_id(call, later)

    def with_new_id(self, call: Call, later: WithProducerId) -> None:
        """Go on with an id that nobody had before, as soon as there is one."""
        producer_id = self._producer_ids.take()
        if producer_id is not None:
            later.go(producer_id)
        else:
            call.run(self._wait(later))

    def _machine(self, transactional_id: str) -> TransactionMachine | None:
        index = self._coordination.transaction_partition(transactional_id)
        machine = None if index is None else self._coordination.transactions.machine(index)
        assert machine is None or isinstance(machine, TransactionMachine), machine
        return machine

    async def _wait(self, later: WithProducerId) -> None:
        try:
            producer_id = await self._producer_ids.wait()
        except NoProducerIds:
            # Of the codes that clients retry, the one that does not make them look for a
            # coordinator.
            later.refuse(Error.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            later.go(producer_id)


class WithProducerId(NamedTuple):
    """What is done when a producer id is there, or cannot be had."""

    go: Callable[[int], None]
    refuse: Callable[[Error], None]


def in_words_of(version: int, error: Error, *, fenced_since: int) -> Error:
    """Before a version that knows PRODUCER_FENCED, clients take it for an unknown error."""
    if error is Error.PRODUCER_FENCED and version < fenced_since:
        return Error.INVALID_PRODUCER_EPOCH
    return error
