"""Source files as the checks see them, and what a check says about them."""

import ast
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]

# What setup, tests and tools make beside the source; the same names as in .gitignore.
MADE_BY_TOOLS = frozenset(
    (
        ".git",
        ".venv",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".hypothesis",
        ".tidelog",
        ".cache",
        "__pycache__",
        "dist",
        "build",
        "demo-report",
        "rides-report",
        "checkpoint-revenue",
        "checkpoints",
        "metastore_db",
        "spark-warehouse",
    )
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Finding(NamedTuple):
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class Source:
    """One Python file: its dotted name, its text and its syntax tree."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node once: walking the tree again for each check costs more than the checks."""
        return list(ast.walk(self.tree))

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def module(self) -> str:
        """`tidelog.core.types`; a package has the name of its folder."""
        parts = list(Path(self.path).with_suffix("").parts)
        if parts[0] == "src":
            del parts[0]
        if parts[-1] == "__init__":
            del parts[-1]
        return ".".join(parts)

    @property
    def is_package(self) -> bool:
        return Path(self.path).name == "__init__.py"

    def within(self, *packages: str) -> bool:
        return any(in_package(self.module, package) for package in packages)

    def functions(self) -> Iterator[Function]:
        for node in self.nodes:
            if isinstance(node, Function):
                yield node

    def finding(self, node: ast.AST | int, text: str) -> Finding:
        line = node if isinstance(node, int) else getattr(node, "lineno", 1)
        return Finding(self.path, line, text)


def in_package(module: str, package: str) -> bool:
    """`tidelog.core.types` is in `core` and in `core.types`, not in `core.ty`."""
    name = f"tidelog.{package}"
    return module == name or module.startswith(name + ".")


def load(root: Path, folder: str) -> list[Source]:
    """Every Python file below a folder of the checkout, in the order of their paths."""
    return [
        Source(path.relative_to(root).as_posix(), path.read_text("utf-8"))
        for path in sorted((root / folder).rglob("*.py"))
        if "__pycache__" not in path.parts
    ]


def files(root: Path) -> Iterator[Path]:
    """Every file of the checkout that a person put there."""
    for path in sorted(root.iterdir()):
        if path.name in MADE_BY_TOOLS or path.name.endswith(".egg-info"):
            continue
        if path.is_dir():
            yield from files(path)
        elif path.is_file():
            yield path
