"""Fetch (1): records for consumers and followers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.wire.protocol.schemas.fetch_request import FetchRequest

if TYPE_CHECKING:
    from tidelog.broker.fetch.fetches import Fetches
    from tidelog.broker.produce.appends import Appends
    from tidelog.rpc import Call


def handle(appends: Appends, fetches: Fetches, call: Call) -> None:
    appends.then(partial(_fetch, fetches), call)


def _fetch(fetches: Fetches, call: Call) -> None:
    request = call.request
    assert isinstance(request, FetchRequest), request
    fetches.fetch(call, request)
