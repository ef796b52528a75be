"""Long work on an event loop, in slices, so that other work can run in between."""

from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import TypeVar

from tidelog.host import tasks

Item = TypeVar("Item")


async def slices(items: Iterable[Item], at_once: int) -> AsyncIterator[list[Item]]:
    """The items in order, so many in one turn of the loop. What they belong to may change between
    two slices: take a copy of a collection that does."""
    iterator = iter(items)
    while taken := list(islice(iterator, at_once)):
        yield taken
        await tasks.pause(0)
