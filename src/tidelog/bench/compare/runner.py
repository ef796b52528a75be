"""Runs sections on the systems in turn, and keeps every value.

A machine is not the same from one minute to the next, so systems alternate within every round and
a ratio is made of the two values of one round. A section that fails is told of; the others go on.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tidelog.bench.compare.system import (
    MACHINE,
    AnySection,
    Costly,
    MachineSection,
    Narrowable,
    PartlyFailed,
    Row,
    Section,
    System,
)


class Failure(NamedTuple):
    section: str
    row: str | None
    """None: all rows of the section."""
    system: str
    round_number: int
    reason: str


class Step(NamedTuple):
    """What is being measured now."""

    section: str
    system: str
    round_number: int
    done: int
    total: int


OnStep = Callable[[Step], None]


class Values:
    """Row key → system → one value per round, None where it could not be measured."""

    __slots__ = ("_found", "rounds")

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self._found: dict[str, dict[str, list[float | None]]] = {}

    def put(self, key: str, system: str, round_number: int, value: float) -> None:
        self.of(key, system)[round_number] = value

    def of(self, key: str, system: str) -> list[float | None]:
        return self._found.setdefault(key, {}).setdefault(system, [None] * self.rounds)

    def systems(self, key: str) -> list[str]:
        return list(self._found.get(key, {}))


class Results(NamedTuple):
    rows: tuple[Row, ...]
    values: Values
    failures: list[Failure]

    @property
    def is_complete(self) -> bool:
        return not self.failures


def chosen(sections: Sequence[AnySection], pattern: str | None) -> list[AnySection]:
    """The sections that have a row, or a name, in which the expression is found, and the limits
    that their rows are set against."""
    if pattern is None:
        return list(sections)
    wanted = re.compile(pattern)
    rows = [
        row
        for section in sections
        for row in section.rows
        if wanted.search(section.name) or wanted.search(row.key)
    ]
    keys = {row.key for row in rows} | {row.limit_key for row in rows}
    found: list[AnySection] = []
    for section in sections:
        known = frozenset(row.key for row in section.rows)
        taken = frozenset(key for key in known if key in keys)
        if taken:
            found.append(section if taken == known else _narrowed(section, taken))
    return found


def limit_keys(sections: Sequence[AnySection]) -> frozenset[str]:
    """What the rows of these sections are set against."""
    rows = [row for section in sections for row in section.rows]
    return frozenset(row.limit_key for row in rows if row.limit_key is not None)


def _narrowed(section: AnySection, keys: frozenset[str]) -> AnySection:
    return section.only(keys) if isinstance(section, Narrowable) else section


def run(
    sections: Sequence[AnySection], systems: Sequence[System], rounds: int, on_step: OnStep
) -> Results:
    """Every section, round by round, on one system after the other."""
    results = nothing_yet(sections, rounds)
    run_into(results, sections, systems, on_step)
    return results


def nothing_yet(sections: Sequence[AnySection], rounds: int) -> Results:
    """For `run_into`: whoever is interrupted has what was found until then."""
    assert rounds > 0, f"{rounds} rounds measure nothing"
    rows = tuple(row for section in sections for row in section.rows)
    return Results(rows, Values(rounds), [])


def run_into(
    results: Results, sections: Sequence[AnySection], systems: Sequence[System], on_step: OnStep
) -> None:
    turns = _turns(sections, systems, results.values.rounds)
    for done, (section, system, round_number) in enumerate(turns):
        name = MACHINE if system is None else system.name
        on_step(Step(section.name, name, round_number, done, len(turns)))
        _measure(results, section, system, round_number)


Turn = tuple[AnySection, System | None, int]


def _turns(sections: Sequence[AnySection], systems: Sequence[System], rounds: int) -> list[Turn]:
    turns: list[Turn] = []
    for section in sections:
        for round_number in range(rounds_of(section, rounds)):
            if isinstance(section, MachineSection):
                turns.append((section, None, round_number))
            else:
                turns += [(section, system, round_number) for system in systems]
    return turns


def rounds_of(section: AnySection, rounds: int) -> int:
    """How many of the rounds that were asked for a section takes part in."""
    most = section.rounds_max if isinstance(section, Costly) else None
    return rounds if most is None else min(rounds, most)


def _measure(
    results: Results, section: AnySection, system: System | None, round_number: int
) -> None:
    name = MACHINE if system is None else system.name
    keys = frozenset(row.key for row in section.rows)
    try:
        found = _ask(section, system, round_number)
    except PartlyFailed as partly:
        found = partly.values
        results.failures.extend(
            Failure(section.name, key, name, round_number, reason)
            for key, reason in partly.reasons.items()
        )
    except Exception as reason:  # whatever it is: hours of other sections are not thrown away
        text = f"{type(reason).__name__}: {reason}"
        results.failures.append(Failure(section.name, None, name, round_number, text))
        return
    for key, value in found.items():
        if key in keys:
            results.values.put(key, name, round_number, value)


def _ask(section: AnySection, system: System | None, round_number: int) -> dict[str, float]:
    if isinstance(section, MachineSection):
        return dict(section.measure_machine(round_number))
    asked: Section = section
    assert system is not None, f"{section.name} is not measured without a system"
    return dict(asked.measure(system, round_number))
