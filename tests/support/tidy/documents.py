"""Documents: links lead somewhere, and names of code are names of code."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tidelog.config.broker_keys import KEYS

from .imports import ANYTHING, DATA, MODULE_MAP, WORDS
from .source import Finding, Function, Source, files

LINK = re.compile(r"\]\(([^)#\s]+)[^)\s]*\)")
CODE_NAME = re.compile(
    r"`((?:core|wire|host|config|storage|rpc|observe|audit|sim|lab|cli"
    r"|broker|controller|quorum|coordinators|node|replica_files)(?:\.\w+)+)`"
)
NOT_CODE = frozenset((*KEYS, "node.log"))
"""Names of settings and files that look like names of code."""
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
            if name not in NOT_CODE and not _is_known(f"tidelog.{name}", names):
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


# ---- docs/architecture.md

MAP_ROW = re.compile(r"^\| `(\w[\w.]*)` \| [^|]* \| ([^|]*) \|$", re.MULTILINE)
POOL_ROW = re.compile(r"^\| `([\w-]+)` \| (\d+)[^|]* \| [^|]* \|$", re.MULTILINE)
GROUPS = {"words": WORDS, "data side": DATA, "anything": (ANYTHING,)}


def module_map_of(text: str) -> dict[str, tuple[str, ...]]:
    """Package → what it may import beside itself, as a document's table says it."""
    told: dict[str, tuple[str, ...]] = {}
    section = text.partition("## The map")[2].partition("\n## ")[0]
    for package, column in MAP_ROW.findall(section):
        allowed: list[str] = []
        for item in column.split(", "):
            allowed.extend(GROUPS.get(item) or re.findall(r"`([\w.]+)`", item))
        told[package] = tuple(allowed)
    return told


def untrue_map(text: str) -> list[str]:
    """Rows in which the document and the map of the import check differ."""
    told = module_map_of(text)
    wrong = [
        f"{package}: the document says {told.get(package)}, the check {allowed}"
        for package, allowed in MODULE_MAP.items()
        if told.get(package) is None or set(told[package]) != set(allowed)
    ]
    wrong += [f"{package} is no row of the check" for package in told if package not in MODULE_MAP]
    if not wrong and list(told) != list(MODULE_MAP):
        wrong.append("the rows are in another order, and the first one that fits counts")
    return wrong


def pools_of(text: str) -> set[str]:
    """Pools of threads, as a document's table names them."""
    section = text.partition("### One loop")[2].partition("\n###")[0]
    return {name for name, _ in POOL_ROW.findall(section)}


def pools_in(sources: Iterable[Source]) -> set[str]:
    """Pools of threads that a node makes."""
    return {
        node.args[0].value
        for source in sources
        if source.within("node", "quorum", "controller", "broker", "coordinators")
        for node in source.nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name | ast.Attribute)
        and (node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id).strip("_")
        == "make_workers"
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }
