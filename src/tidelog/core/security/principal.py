"""Principals: whom a request is made for."""

from typing import NamedTuple

USER = "User"
"""The only kind that Kafka's own authentication makes; ACLs may name others."""


class Principal(NamedTuple):
    """Somebody, as ACLs, quotas and the audit trail name them: "User:alice"."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Principal":
        """From "User:alice". A name may hold colons, and may be empty in no case."""
        kind, colon, name = text.partition(":")
        if not (kind and colon and name):
            raise ValueError(f"a principal is written KIND:NAME, as in User:alice, not {text!r}")
        return cls(kind, name)


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""Everybody who did not have to say who they are."""
