"""Who leads a partition next (kraft.md §6.1).

A clean leader comes from the ISR, or from the ELR when the ISR is empty: it holds every
committed record. Everyone else is an unclean choice that may lose records; it is taken only when
somebody allowed it, or when the last known leader is all that is left to wait for.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from tidelog.core.types import NO_LEADER


class Election(IntEnum):
    """What the election is for; the current leader stays unless the mode prefers another."""

    PREFERRED = 0
    ONLINE = 1
    UNCLEAN = 2


class Ballot(NamedTuple):
    """The sets *after* the change that the election is part of, and the leader before it."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    leader: int
    last_known_elr: tuple[int, ...]
    elr_enabled: bool
    unclean_allowed: bool
    is_acceptable: Callable[[int], bool]


class Elected(NamedTuple):
    leader: int
    unclean: bool


NOBODY = Elected(NO_LEADER, unclean=False)


def elect(ballot: Ballot, mode: Election) -> Elected:
    for elected in (
        clean_leader(ballot, mode),
        last_known_leader(ballot),
        unclean_leader(ballot, mode),
    ):
        if elected.leader != NO_LEADER:
            assert elected.leader in ballot.replicas, f"{elected} is not of {ballot.replicas}"
            return elected
    return NOBODY


def clean_leader(ballot: Ballot, mode: Election) -> Elected:
    preferred = ballot.replicas[:1] if mode == Election.PREFERRED else ()
    for broker in (*preferred, ballot.leader, *ballot.replicas):
        if is_valid(ballot, broker):
            return Elected(broker, unclean=False)
    return NOBODY


def is_valid(ballot: Ballot, broker: int) -> bool:
    return holds_all_committed(broker, ballot.isr, ballot.elr) and may_lead(ballot, broker)


def holds_all_committed(broker: int, isr: tuple[int, ...], elr: tuple[int, ...]) -> bool:
    """The ELR waits for an empty ISR: it holds what is committed, the ISR what is written."""
    return broker in isr or (not isr and broker in elr)


def may_lead(ballot: Ballot, broker: int) -> bool:
    return broker in ballot.replicas and ballot.is_acceptable(broker)


def last_known_leader(ballot: Ballot) -> Elected:
    """With nobody left who surely holds everything, the last leader comes closest: it had the
    longest log. It restarted uncleanly, so it counts as unclean, but needs no permission:
    there is nothing better to wait for (KIP-966)."""
    if not ballot.elr_enabled or ballot.isr or ballot.elr or len(ballot.last_known_elr) != 1:
        return NOBODY
    candidate = ballot.last_known_elr[0]
    return Elected(candidate, unclean=True) if may_lead(ballot, candidate) else NOBODY


def unclean_leader(ballot: Ballot, mode: Election) -> Elected:
    """Availability instead of durability, where the topic or an operator chose that."""
    if not may_elect_uncleanly(mode, ballot.unclean_allowed):
        return NOBODY
    for broker in ballot.replicas:
        if may_lead(ballot, broker):
            return Elected(broker, unclean=True)
    return NOBODY


def may_elect_uncleanly(mode: Election, unclean_allowed: bool) -> bool:
    """`unclean_allowed` is the topic's setting; the mode is what an operator asked for."""
    return mode == Election.UNCLEAN or (mode == Election.ONLINE and unclean_allowed)
