"""Switches mutants on: code with one rule broken on purpose, absent from wheels.

`tidelog.sim.mutants` is looked for only when a mutant is asked for, so that nothing in an
installed package can switch one on by accident.
"""

import importlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, cast

PACKAGE = "tidelog.sim.mutants"


class Mutant(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str:
        """What is broken, in one line."""
        ...

    @property
    def depth(self) -> str:
        """Where it can be caught: seeds of whole "node" runs, "crash" states, or a "story" of
        tests/scenarios."""
        ...

    @property
    def focus(self) -> tuple[str, ...]:
        """Faults, plots and clients to draw from, storage workloads to crash, or stories; empty
        for any."""
        ...


class Mutants(Protocol):
    """What the package of mutants offers."""

    def catalogue(self) -> Sequence[Mutant]: ...
    def apply(self, name: str) -> AbstractContextManager[None]: ...


class MutantsAbsentError(Exception):
    """This installation has no mutants."""


class UnknownMutantError(Exception):
    """No mutant has this name."""


def load() -> Mutants:
    try:
        return cast(Mutants, importlib.import_module(PACKAGE))
    except ModuleNotFoundError as reason:
        if reason.name != PACKAGE:
            raise
        raise MutantsAbsentError(
            "the mutants are part of a source checkout and are never installed"
        ) from None


def names() -> list[str]:
    return [mutant.name for mutant in load().catalogue()]


def focus(name: str | None) -> tuple[str, ...]:
    """The kinds of fault to draw when looking for this mutant; none in particular for None."""
    if name is None or find(name).depth in ("crash", "story"):
        return ()
    return find(name).focus


def find(name: str) -> Mutant:
    for mutant in load().catalogue():
        if mutant.name == name:
            return mutant
    raise UnknownMutantError(name)


def applied(name: str | None) -> AbstractContextManager[None]:
    """The mutant of this name while the context lasts; nothing for None."""
    if name is None:
        return nullcontext()
    return load().apply(find(name).name)
