"""ListTransactions v0 to v2: the transactional ids whose coordinators are here (KIP-664)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.coordination.pending_call import Gathering
from tidelog.broker.groups.topics_view import compile_regex
from tidelog.broker.transactions.state_names import STATES_BY_NAME, state_name
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.groups.settings import InvalidRegex
from tidelog.core.transactions.records import TransactionState
from tidelog.core.transactions.requests import (
    ListedTransaction,
    ListTransactions,
    ListTransactionsResponse,
)
from tidelog.wire.protocol.schemas import list_transactions_response as wire
from tidelog.wire.protocol.schemas.list_transactions_request import ListTransactionsRequest

if TYPE_CHECKING:
    from tidelog.broker.coordination.coordinators import Coordination
    from tidelog.host.node_host import NodeHost
    from tidelog.rpc import Call


class Filters(NamedTuple):
    """Empty ones let everything pass."""

    states: frozenset[TransactionState] | None
    producer_ids: frozenset[int]
    started_before_ms: int | None
    matches: Callable[[str], bool] | None

    def take(self, listed: ListedTransaction) -> bool:
        return (
            (self.states is None or listed.state in self.states)
            and (not self.producer_ids or listed.producer_id in self.producer_ids)
            and (self.started_before_ms is None or 0 <= listed.start_ms < self.started_before_ms)
            and (self.matches is None or self.matches(listed.transactional_id))
        )


class Parts(NamedTuple):
    """What this handler uses."""

    coordination: Coordination
    host: NodeHost


def handle(parts: Parts, call: Call) -> None:
    request = call.request
    assert isinstance(request, ListTransactionsRequest), request
    try:
        filters = _filters(request, parts.host.clock.wall_ms())
    except InvalidRegex:
        call.answer(wire.ListTransactionsResponse(error_code=Error.INVALID_REGULAR_EXPRESSION))
        return
    shards = parts.coordination.transactions
    indexes = shards.indexes()
    gathering: Gathering[ListTransactionsResponse] = Gathering(
        len(indexes), partial(_finish, call, request, filters)
    )
    for position, index in enumerate(indexes):
        token = gathering.part(position, _listed, ListTransactionsResponse)
        shards.request(index, ListTransactions(), token)


def _listed(response: ListTransactionsResponse) -> ListTransactionsResponse:
    return response


def _filters(request: ListTransactionsRequest, wall_ms: int) -> Filters:
    states = frozenset(
        STATES_BY_NAME[name] for name in request.state_filters if name in STATES_BY_NAME
    )
    pattern = request.transactional_id_pattern
    return Filters(
        states if request.state_filters else None,
        frozenset(request.producer_id_filters),
        None if request.duration_filter < 0 else wall_ms - request.duration_filter,
        compile_regex(pattern) if pattern else None,
    )


def _finish(
    call: Call,
    request: ListTransactionsRequest,
    filters: Filters,
    responses: list[ListTransactionsResponse],
) -> None:
    """One that left office meanwhile is listed by whoever took it; one that still loads has
    to be waited for."""
    errors = {each.error for each in responses} - {NO_ERROR, Error.NOT_COORDINATOR}
    if errors:
        call.answer(wire.ListTransactionsResponse(error_code=min(errors)))
        return
    states = [
        wire.TransactionState(
            transactional_id=listed.transactional_id,
            producer_id=listed.producer_id,
            transaction_state=state_name(listed.state),
        )
        for response in responses
        for listed in response.transactions
        if filters.take(listed)
    ]
    unknown = [name for name in request.state_filters if name not in STATES_BY_NAME]
    call.answer(
        wire.ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=states)
    )
