"""Which quotas somebody asks to see (KIP-546)."""

from typing import NamedTuple

from tidelog.core.security.quota_keys import Entity

EXACT, DEFAULT, ANY = range(3)
"""How a part of a filter is compared: a name, the default of the type, or either."""


class FilterPart(NamedTuple):
    kind: str
    match_type: int
    name: str | None

    def matches(self, name: str | None) -> bool:
        if self.match_type == ANY:
            return True
        return name == (self.name if self.match_type == EXACT else None)


def matches(entity: Entity, parts: tuple[FilterPart, ...], *, strict: bool) -> bool:
    """Every part is about something that the entity has. Strict: and the entity has no more."""
    named = dict(entity)
    if strict and len(named) != len(parts):
        return False
    return all(part.kind in named and part.matches(named[part.kind]) for part in parts)
