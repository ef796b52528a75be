"""How what production nodes do reaches the rules.

Some of it is an event that a node emits. The rest is told by probes: each stands around one method
of production while a run lasts, calls it, and tells the judge what came of it. A probe takes the
method that it finds when it is attached, so it also stands around a mutant (ADR 0040).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

Method = Callable[..., Any]


class Probe(NamedTuple):
    """`around(original)` takes the place of the method while a run lasts."""

    owner: Any
    attribute: str
    around: Callable[[Method], Method]


@contextmanager
def attached(probes: Iterable[Probe]) -> Iterator[None]:
    """Attach them, and leave everything as it was found."""
    found: list[tuple[Any, str, Any]] = []
    try:
        for owner, attribute, around in probes:
            own = vars(owner).get(attribute)
            found.append((owner, attribute, own))
            setattr(owner, attribute, around(getattr(owner, attribute)))
        yield
    finally:
        for owner, attribute, own in reversed(found):
            if own is None:
                delattr(owner, attribute)  # it was inherited
            else:
                setattr(owner, attribute, own)
