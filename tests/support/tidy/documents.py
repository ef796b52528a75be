"""Documents: links lead somewhere, and names of code are names of code."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from .source import Finding, Function, Source, files

LINK = re.compile(r"\]\(([^)#\s]+)[^)\s]*\)")
CODE_NAME = re.compile(
    r"`((?:core|wire|host|config|storage|rpc|observe|audit|sim|lab|cli)(?:\.\w+)+)`"
)
CHECKOUT_FILE = re.compile(r"`((?:src|tests|docs)/[\w./-]+\.\w+)`")


def bad_references(root: Path, sources: Iterable[Source]) -> list[Finding]:
    names = {source.module: _names(source) for source in sources}
    findings = []
    for path in files(root):
        if path.suffix == ".md":
            text = path.read_text("utf-8")
            findings += judge_document(path.relative_to(root).as_posix(), text, root, names)
    return findings


def judge_document(
    path: str, text: str, root: Path, names: dict[str, dict[str, set[str]]]
) -> list[Finding]:
    findings = []
    for number, line in enumerate(text.splitlines(), 1):
        for link in LINK.findall(line):
            if "://" not in link and not (root / path).parent.joinpath(link).exists():
                findings.append(Finding(path, number, f"the link {link} leads nowhere"))
        for file in CHECKOUT_FILE.findall(line):
            if not (root / file).exists():
                findings.append(Finding(path, number, f"there is no {file}"))
        for name in CODE_NAME.findall(line):
            if not _is_known(f"tidelog.{name}", names):
                findings.append(Finding(path, number, f"there is no {name} in the code"))
    return findings


def _is_known(name: str, names: dict[str, dict[str, set[str]]]) -> bool:
    """A module, something in a module, or a member of a class in one."""
    if name in names:
        return True
    module, _, last = name.rpartition(".")
    if module in names:
        return last in names[module]
    outer, _, owner = module.rpartition(".")
    return outer in names and last in names[outer].get(owner, ())


def _names(source: Source) -> dict[str, set[str]]:
    """What a module defines; for a class also what the class does."""
    return {
        name: {member for item in body for member, _ in _defined(item)}
        for statement in source.tree.body
        for name, body in _defined(statement)
    }


def _defined(statement: ast.stmt) -> Iterator[tuple[str, list[ast.stmt]]]:
    if isinstance(statement, ast.ClassDef):
        yield statement.name, statement.body
    elif isinstance(statement, Function):
        yield statement.name, []
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, []
