"""Mutants: the code with one rule broken on purpose (reliability.md §2.7).

A checker that has never failed proves nothing. Each mutant replaces exactly one rule of the
production code while it is applied; the simulator must then find a seed that breaks a rule, or
a crash state that does not recover, or a story must come out differently, and the unmutated code
must pass the same ones. Not part of any wheel.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tidelog.sim.mutants import (
    access,
    control,
    coordination,
    replication,
    shell,
    shell_control,
    shell_coordination,
    storage,
)
from tidelog.sim.mutants.patch import Mutant, Patch

_ALL: tuple[Mutant, ...] = (
    *replication.MUTANTS,
    *control.MUTANTS,
    *coordination.MUTANTS,
    *storage.MUTANTS,
    *access.MUTANTS,
    *shell.MUTANTS,
    *shell_control.MUTANTS,
    *shell_coordination.MUTANTS,
)


def catalogue() -> Sequence[Mutant]:
    return _ALL


@contextmanager
def apply(name: str) -> Iterator[None]:
    """The production code with this rule broken, as long as the context lasts."""
    (mutant,) = [mutant for mutant in _ALL if mutant.name == name]
    originals = [Patch(p.owner, p.attribute, getattr(p.owner, p.attribute)) for p in mutant.patches]
    for patch in mutant.patches:
        setattr(patch.owner, patch.attribute, patch.replacement)
    try:
        yield
    finally:
        for original in originals:
            setattr(original.owner, original.attribute, original.replacement)
