"""What a mutant is made of."""

from typing import Any, NamedTuple


class Patch(NamedTuple):
    """Replace one function or method of the production code."""

    owner: Any
    attribute: str
    replacement: Any


class Mutant(NamedTuple):
    name: str
    title: str
    patches: tuple[Patch, ...]
    depth: str = "node"
    """Where it can be caught: seeds of whole "node" runs, "crash" states of the storage, or a
    "story" of tests/scenarios, for what no cluster survives."""
    focus: tuple[str, ...] = ()
    """The faults, plots and clients of a run, the storage workloads or the stories that can bring
    it to light, when any mixture would take too long."""
