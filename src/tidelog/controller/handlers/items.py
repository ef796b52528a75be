"""What the handlers of requests with many items share."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

from tidelog.core.errors import Error
from tidelog.core.requests import AdminResponse

Item = TypeVar("Item", bound=Hashable)


def repeated(items: Iterable[Item]) -> frozenset[Item]:
    """Those that are there more than once."""
    once: set[Item] = set()
    again: set[Item] = set()
    for item in items:
        (again if item in once else once).add(item)
    return frozenset(again)


def said(message: str) -> str | None:
    """The wire has null for "nothing to say"."""
    return message or None


def twice(what: str) -> AdminResponse:
    """For both of them: nobody knows which one was meant."""
    return AdminResponse(Error.INVALID_REQUEST, f"{what} is named more than once in this request")
