"""The door to the mutants: code with one rule broken on purpose, absent from wheels.

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


def applied(name: str | None) -> AbstractContextManager[None]:
    """The mutant of this name while the context lasts; nothing for None."""
    if name is None:
        return nullcontext()
    if name not in names():
        raise UnknownMutantError(name)
    return load().apply(name)
