"""Fetch (1): records for consumers and followers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.wire.protocol.schemas.fetch_request import FetchRequest

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.rpc import Call


def handle(broker: Broker, call: Call) -> None:
    broker.appends.then(partial(_fetch, broker), call)


def _fetch(broker: Broker, call: Call) -> None:
    request = call.request
    assert isinstance(request, FetchRequest), request
    broker.fetches.fetch(call, request)
