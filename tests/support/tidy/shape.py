"""Size, names and assertions: what keeps a file readable."""

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .source import Finding, Function, Source

LINE_MAX = 100
FUNCTION_LINES_MAX = 50
MODULE_LINES_MAX = 600
PARAMETERS_MAX = 6

VAGUE_MODULES = frozenset(("utils", "util", "helpers", "helper", "common", "misc"))

# One word for one thing: docs/glossary.md has the words to use instead.
BANNED_WORDS = frozenset(
    (
        "term",
        "terms",
        "hwm",
        "hw",
        "leo",
        "lso",
        "slave",
        "slaves",
        "master",
        "masters",
        "purgatory",
        "rollback",
        "zk",
        "zookeeper",
        "util",
        "utils",
    )
)
BANNED_PHRASES = ("commit_index", "epoch_cache", "effective_isr", "delayed_operation")

NON_TRIVIAL_LINES = 5


def too_long(source: Source) -> list[Finding]:
    findings = [
        source.finding(number, f"{len(line)} columns, {LINE_MAX} allowed")
        for number, line in enumerate(source.lines, 1)
        if len(line) > LINE_MAX
    ]
    if len(source.lines) > MODULE_LINES_MAX:
        findings.append(
            source.finding(1, f"{len(source.lines)} lines, a module has at most {MODULE_LINES_MAX}")
        )
    for function in source.functions():
        lines = function_lines(function)
        if lines > FUNCTION_LINES_MAX:
            text = f"{function.name} has {lines} lines, {FUNCTION_LINES_MAX} allowed"
            findings.append(source.finding(function, text))
    return findings


def function_lines(function: Function) -> int:
    """From `def` to the last line, without the docstring."""
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None and first.end_lineno is not None:
        lines -= first.end_lineno - first.lineno + 1
    return lines


def too_many_parameters(source: Source) -> list[Finding]:
    """Keyword-only parameters name themselves at the call and do not count."""
    findings = []
    methods = {
        id(item) for node in source.nodes if isinstance(node, ast.ClassDef) for item in node.body
    }
    for function in source.functions():
        positional = [*function.args.posonlyargs, *function.args.args]
        count = len(positional)
        if id(function) in methods and not _is_static(function):
            count -= 1
        if count > PARAMETERS_MAX:
            text = f"{function.name} takes {count} positional parameters, {PARAMETERS_MAX} allowed"
            findings.append(source.finding(function, text))
    return findings


def _is_static(function: Function) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list)


def vague_names(source: Source) -> list[Finding]:
    findings = []
    name = source.module.rpartition(".")[2]
    if name in VAGUE_MODULES:
        findings.append(source.finding(1, f"a module called {name} says nothing"))
    for node in source.nodes:
        if isinstance(node, ast.ClassDef) and node.name.endswith("Manager"):
            findings.append(
                source.finding(node, f"{node.name}: say what it does, not that it does")
            )
    return findings


def banned_words(source: Source) -> list[Finding]:
    findings = []
    for node, name in _identifiers(source):
        words = _words(name)
        joined = "_".join(words)
        wrong = [word for word in words if word in BANNED_WORDS]
        wrong += [phrase for phrase in BANNED_PHRASES if phrase in joined]
        if wrong:
            findings.append(source.finding(node, f"{name}: {wrong[0]} is not in the glossary"))
    return findings


def _identifiers(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Every name a file gives to something; names given elsewhere are judged there."""
    yield source.tree, source.module.rpartition(".")[2]
    for node in source.nodes:
        if isinstance(node, Function | ast.ClassDef):
            yield node, node.name
        elif isinstance(node, ast.arg):
            yield node, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node, node.attr
        elif isinstance(node, ast.alias) and node.asname is not None:
            yield node, node.asname
        elif isinstance(node, ast.keyword) and node.arg is not None:
            yield node.value, node.arg


def _words(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return [word.lower() for word in spaced.split("_") if word]


def missing_docstring(source: Source) -> list[Finding]:
    if not source.text.strip() or ast.get_docstring(source.tree):
        return []
    return [source.finding(1, "no docstring says what this module is for")]


class Density(NamedTuple):
    asserts: int
    functions: int

    @property
    def ratio(self) -> float:
        return self.asserts / self.functions if self.functions else 0.0


def assert_density(sources: Iterable[Source], package: str) -> Density:
    """Assertions per function that is long enough to have something to state."""
    asserts = functions = 0
    for source in sources:
        if source.within(package):
            asserts += sum(isinstance(node, ast.Assert) for node in source.nodes)
            functions += sum(
                function_lines(function) > NON_TRIVIAL_LINES for function in source.functions()
            )
    return Density(asserts, functions)
