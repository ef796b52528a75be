"""Which lines of production code the simulator runs.

A line counts if a statement of a function begins there. Lines that importing a module runs (its
imports, its constants, the heads of its classes and functions) do not count: a run would get them
for nothing. What is there to run comes from the line tables of the compiled functions
(`co_lines`); what was run, from a trace function.

The trace function is told of every line of a function until each of its lines was seen, and of
its calls from then on. It is taken away before the processes of a run are buried: the `finally`
blocks that run then are not something that a node did.
"""

import ast
import importlib.util
import inspect
import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.run import run_node_seed
from tidelog.sim.results import SeedResult

SHELL: Final = ("broker", "controller", "quorum", "coordinators", "node", "rpc")
"""What runs around `core`: the packages that a simulator with a shell of its own cannot reach."""
PACKAGES: Final = (*SHELL, "core", "storage", "host", "client", "wire")

AT_ONCE: Final = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""Code of these runs where it stands: in a module or a class, that is when it is imported."""

Lines = dict[str, set[int]]
"""By file."""
Trace = Callable[[FrameType, str, Any], Any]


class FileCoverage(NamedTuple):
    """Lines of one file, in order."""

    path: str
    """Below the package `tidelog`."""
    lines: tuple[int, ...]
    missing: tuple[int, ...]


class PackageCoverage(NamedTuple):
    name: str
    files: tuple[FileCoverage, ...]

    @property
    def lines(self) -> int:
        return sum(len(each.lines) for each in self.files)

    @property
    def executed(self) -> int:
        return self.lines - sum(len(each.missing) for each in self.files)

    @property
    def percent(self) -> float:
        return 100 * self.executed / self.lines if self.lines else 100.0


class Measured(NamedTuple):
    """What one seed ran that its process had not run before."""

    result: SeedResult
    lines: Lines


# -- what there is to run


def production_root() -> Path:
    spec = importlib.util.find_spec("tidelog")
    assert spec is not None, "the package that runs is not found"
    assert spec.origin is not None, "tidelog is not in files"
    return Path(spec.origin).parent


def source_files(package: str) -> list[Path]:
    return sorted((production_root() / package).rglob("*.py"))


class Statements:
    """The lines of one file at which statements of functions begin."""

    __slots__ = ("_begins", "lines")

    def __init__(self, text: str, path: str) -> None:
        self._begins = _begins(ast.parse(text))
        found = _lines_of_functions(compile(text, path, "exec", dont_inherit=True))
        self.lines = self.of(found)

    def of(self, lines: Iterable[int]) -> set[int]:
        """The statements that these lines are parts of."""
        begins = (self._begins.get(line, line) for line in lines)
        return {line for line in begins if line is not None}


def _begins(tree: ast.Module) -> dict[int, int | None]:
    """The first line of the statement that a line is part of; None for what is never run."""
    begins: dict[int, int | None] = {}
    for node in ast.walk(tree):  # outer statements come before those inside them
        if isinstance(node, ast.stmt):
            begin = None if _is_placeholder(node) else node.lineno
            for line in range(_first_line(node), _last_line(node) + 1):
                begins[line] = begin
    return begins


def _is_placeholder(node: ast.stmt) -> bool:
    """`...` is the body of a port's method: it says what there is, and is never called."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and node.value.value is Ellipsis
    )


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def _last_line(node: ast.stmt) -> int:
    """Of its head, if statements follow in it."""
    body: list[ast.stmt] | None = getattr(node, "body", None)
    if body:
        return max(node.lineno, _first_line(body[0]) - 1)
    if isinstance(node, ast.Match):
        return node.lineno
    return node.end_lineno or node.lineno


def _lines_of_functions(code: CodeType) -> Iterator[int]:
    is_function = bool(code.co_flags & inspect.CO_OPTIMIZED)  # no module, no body of a class
    if is_function:
        yield from _own_lines(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and (is_function or constant.co_name not in AT_ONCE):
            yield from _lines_of_functions(constant)


def _own_lines(code: CodeType) -> Iterator[int]:
    """Without the head, which is run where the function is made. Nothing is left of one that has
    only words to say."""
    for line in sorted({line for _, _, line in code.co_lines() if line is not None}):
        if line != code.co_firstlineno or code.co_name.startswith("<"):
            yield line


# -- what was run


class Tracer:
    """Notes the lines of some files while a seed runs."""

    __slots__ = ("_known", "_new", "_stop_at", "_wanted")

    def __init__(self, files: Iterable[str], stop_at: CodeType) -> None:
        self._wanted: dict[str, set[int]] = {name: set() for name in files}
        self._stop_at = stop_at
        self._known: dict[int, tuple[CodeType, Trace | None]] = {}
        """By the identity of a code object, which is kept: hashing one reads all of it."""
        self._new: Lines = {}

    def run(self, work: Callable[[], SeedResult]) -> Measured:
        self._new = {}
        before = sys.gettrace()
        sys.settrace(self._on_call)
        try:
            result = work()
        finally:
            sys.settrace(before)
        return Measured(result, self._new)

    def _on_call(self, frame: FrameType, event: str, _argument: object) -> Trace | None:
        code = frame.f_code
        known = self._known.get(id(code))
        if known is not None:
            return known[1]
        if code is self._stop_at:
            sys.settrace(None)
            return None
        lines = self._wanted.get(code.co_filename)
        trace = None if lines is None else self._watch(code, lines)
        self._known[id(code)] = (code, trace)
        return trace

    def _watch(self, code: CodeType, seen: set[int]) -> Trace:
        """A trace function for the lines of this function, until all of them were seen."""
        missing = {line for _, _, line in code.co_lines() if line is not None}
        missing.discard(code.co_firstlineno)
        self._note(code, seen, code.co_firstlineno)

        def on_line(frame: FrameType, event: str, _argument: object) -> Trace | None:
            line = frame.f_lineno
            if line in missing:
                missing.remove(line)
                self._note(code, seen, line)
            if missing:
                return on_line
            self._known[id(code)] = (code, None)
            frame.f_trace = None
            return None

        return on_line

    def _note(self, code: CodeType, seen: set[int], line: int) -> None:
        if line not in seen:
            seen.add(line)
            self._new.setdefault(code.co_filename, set()).add(line)


# -- many seeds


def measure(seeds: range, *, jobs: int) -> Iterator[Measured]:
    """Run whole-node seeds under the tracer, as they end."""
    if jobs == 1:
        tracer = _new_tracer()
        for seed in seeds:
            yield tracer.run(partial(run_node_seed, seed))
        return
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=fork) as pool:
        yield from pool.map(_run_in_worker, seeds)


_of_this_worker: list[Tracer] = []


def _run_in_worker(seed: int) -> Measured:
    if not _of_this_worker:
        _of_this_worker.append(_new_tracer())
    return _of_this_worker[0].run(partial(run_node_seed, seed))


def _new_tracer() -> Tracer:
    files = (str(path) for package in PACKAGES for path in source_files(package))
    return Tracer(files, NodeCluster.bury.__code__)


def packages_with(executed: Lines) -> list[PackageCoverage]:
    """What the packages hold, and which of it was not run."""
    return [
        PackageCoverage(
            package,
            tuple(
                _file_with(path, executed.get(str(path), set())) for path in source_files(package)
            ),
        )
        for package in PACKAGES
    ]


def _file_with(path: Path, executed: set[int]) -> FileCoverage:
    statements = Statements(path.read_text("utf-8"), str(path))
    return FileCoverage(
        path.relative_to(production_root()).as_posix(),
        tuple(sorted(statements.lines)),
        tuple(sorted(statements.lines - statements.of(executed))),
    )
