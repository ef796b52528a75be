"""Who may import whom, and modules that nobody imports."""

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .source import Finding, Source, in_package

# The words that all state machines share. Not the machines themselves.
WORDS = ("core.types", "core.errors", "core.events", "core.requests", "core.coordination")
DATA = ("core", "wire", "host", "config", "storage", "rpc", "observe", "client", "coordinators")

ANYTHING = "*"
ROOT_MODULE = "tidelog"

# Package → what it may import beside itself. The first row that holds the importing module
# counts, so a narrower package stands above the one that contains it.
MODULE_MAP: dict[str, tuple[str, ...]] = {
    "core.replication": (*WORDS, "core.metadata.records"),
    "core.quorum": (*WORDS, "core.replication.epochs"),
    "core.metadata": (*WORDS, "core.security"),
    "core.groups": WORDS,
    "core.transactions": WORDS,
    "core": (),
    "_native": (),
    "wire": ("_native",),
    "host": ("core.types", "core.events", "core.security"),
    "config": ("core",),
    "storage": ("core", "wire.records", "host"),
    "rpc": (*WORDS, "core.security", "wire", "host"),
    "observe": ("core", "host"),
    "client": (*WORDS, "core.security", "wire", "host", "rpc"),
    "replica_files": ("core", "wire", "host", "storage"),  # what storage wrote, from outside
    "quorum": ("core", "wire", "host", "config", "storage", "rpc"),
    "coordinators": ("core", "storage", "wire", "host", "config", "observe"),
    "broker": DATA,
    "controller": (*DATA, "quorum"),
    "node": (*DATA, "broker", "controller", "quorum"),
    "sim": (*DATA, "broker", "controller", "quorum", "node"),
    "secure": ("core.security", "config"),
    "survey": (*WORDS, "client", "host", "config.quantities"),  # for the command and the console
    # Starts nodes as processes, and formats their directories before.
    "cluster": ("core", "config", "storage", "host", "wire", "client", "secure", "node"),
    "lab": ("core", "client", "sim", "node"),  # its stories speak of the core's values
    # From outside, as a client sees it, and by the files of the replicas.
    "audit": (*WORDS, "client", "wire", "host", "cluster", "replica_files", "spark"),
    # Measures clusters of processes, and is worth nothing without the verdict on their data.
    # Its smallest client is a socket, the bytes of a request, and a login.
    "bench": ("core.security", "secure", "client", "wire", "sim", "node", "cluster", "audit"),
    "spark": (*WORDS, "client", "wire", "replica_files"),  # topics as tables are read by files
    # Asks a cluster as a client and its nodes over HTTP; breaks local ones through `cluster`.
    "console": ("core", "wire", "host", "client", "survey", "observe", "cluster", "lab"),
    "cli": (ANYTHING,),
    "testing": (ANYTHING,),
    "__main__": ("cli",),
    ROOT_MODULE: (),
}
NOBODY_IMPORTS = ("cli", "testing")


class Import(NamedTuple):
    target: str
    line: int


def imports_of(source: Source, modules: frozenset[str]) -> Iterator[Import]:
    """Every module of ours that a file imports, wherever in the file it does so."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(source, node)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield Import(inner if inner in modules else base, node.lineno)


def _absolute(source: Source, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    package = source.module.split(".")
    if not source.is_package:
        package.pop()
    package = package[: len(package) - (node.level - 1)]
    return ".".join([*package, *([node.module] if node.module else [])])


def row_of(module: str) -> str | None:
    if module == ROOT_MODULE:
        return ROOT_MODULE
    return next((package for package in MODULE_MAP if in_package(module, package)), None)


def against_direction(sources: Iterable[Source]) -> list[Finding]:
    sources = list(sources)
    modules = frozenset(source.module for source in sources)
    return [finding for source in sources for finding in _wrong_imports(source, modules)]


def _wrong_imports(source: Source, modules: frozenset[str]) -> Iterator[Finding]:
    row = row_of(source.module)
    if row is None:
        yield source.finding(1, f"{source.module} is in no row of the module map")
        return
    for target, line in imports_of(source, modules):
        if target.startswith("tidelog.") and not may_import(row, target):
            yield source.finding(line, f"{row} may not import {target}")


def may_import(row: str, target: str) -> bool:
    if row_of(target) == row:
        return True
    if row not in NOBODY_IMPORTS and any(in_package(target, name) for name in NOBODY_IMPORTS):
        return row == "__main__"
    allowed = MODULE_MAP[row]
    return ANYTHING in allowed or any(in_package(target, package) for package in allowed)


def dead_modules(
    sources: Iterable[Source], tests: Iterable[Source], entry_points: frozenset[str]
) -> list[Finding]:
    """A module is alive when other code, a test or the packaging names it.

    Commands and mutants are loaded by name when they are asked for, so a string that is
    exactly a module's name counts as an import.
    """
    sources = list(sources)
    modules = frozenset(source.module for source in sources)
    alive = set(entry_points)
    for reader in [*sources, *tests]:
        named = {target for target, _ in imports_of(reader, modules)}
        named |= {
            node.value
            for node in reader.nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        } & modules
        named.discard(reader.module)
        for target in named:
            parts = target.split(".")  # importing a.b.c imports a and a.b
            alive.update(".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return [
        source.finding(1, f"{source.module} is imported by nothing")
        for source in sources
        if source.module not in alive and source.lines
    ]
