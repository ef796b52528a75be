"""What the APIs of transactional producers have in common."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.transactions.producer_ids import NoProducerIds
from tidelog.core.errors import Error
from tidelog.core.transactions.machine import TransactionMachine
from tidelog.core.types import NO_PRODUCER

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.core.coordination import Token
    from tidelog.rpc import Call

FIRST_VERSION = 1
"""Of transactions (KIP-890): the epoch of the producer outlives them."""
SECOND_VERSION = 2
"""The epoch is raised with every end, and partitions are added by the first batch in them."""


def ask(broker: Broker, transactional_id: str, request: object, token: Token) -> None:
    """Ask the coordinator of this transactional id, if it is here."""
    index = broker.coordination.transaction_partition(transactional_id)
    if index is None:
        token.refuse(Error.COORDINATOR_NOT_AVAILABLE)
    else:
        broker.coordination.transactions.request(index, request, token)


def ask_patiently(broker: Broker, transactional_id: str, request: object, token: Token) -> None:
    """For requests that begin something: while the end of the last transaction is being written,
    they wait (`concurrent_requests`)."""
    broker.concurrent_requests.ask(
        transactional_id, token, partial(ask, broker, transactional_id, request)
    )


class Producer:
    """A transactional id whose coordinator may need a new producer id for what it is asked."""

    __slots__ = ("_broker", "_call", "_transactional_id")

    def __init__(self, broker: Broker, call: Call, transactional_id: str) -> None:
        self._broker = broker
        self._call = call
        self._transactional_id = transactional_id

    def with_producer_id(
        self, go: Callable[[int], None], refuse: Callable[[Error], None], *, ending: bool
    ) -> None:
        """`go` with a fresh one, or with NO_PRODUCER if none is needed. It may come later: the
        coordinator decides when it is asked, not now."""
        machine = self._machine()
        if machine is None or not machine.needs_producer_id(self._transactional_id, ending=ending):
            go(NO_PRODUCER)
            return
        producer_id = self._broker.link.producer_ids.take()
        if producer_id is not None:
            go(producer_id)
        else:
            self._call.run(self._wait(go, refuse))

    def _machine(self) -> TransactionMachine | None:
        coordination = self._broker.coordination
        index = coordination.transaction_partition(self._transactional_id)
        machine = None if index is None else coordination.transactions.machine(index)
        assert machine is None or isinstance(machine, TransactionMachine), machine
        return machine

    async def _wait(self, go: Callable[[int], None], refuse: Callable[[Error], None]) -> None:
        try:
            producer_id = await self._broker.link.producer_ids.wait()
        except NoProducerIds:
            # Of the codes that clients retry, the one that does not make them look for a
            # coordinator.
            refuse(Error.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            go(producer_id)


def in_words_of(version: int, error: Error, *, fenced_since: int) -> Error:
    """Before a version that knows PRODUCER_FENCED, clients take it for an unknown error."""
    if error is Error.PRODUCER_FENCED and version < fenced_since:
        return Error.INVALID_PRODUCER_EPOCH
    return error
