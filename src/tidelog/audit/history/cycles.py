"""Circles in a graph of operations."""

from collections.abc import Iterable

OperationName = tuple[str, int]
"""(client, operation)"""
Edge = tuple[OperationName, OperationName]


def circles(edges: Iterable[Edge]) -> list[list[OperationName]]:
    """Operations that can all be reached from each other, each group in order.

    Tarjan's components, without recursion: histories are long. A loop from an operation to itself
    is none.
    """
    following: dict[OperationName, list[OperationName]] = {}
    for before, after in sorted(edges):
        following.setdefault(before, []).append(after)
    search = _Search(following)
    for start in following:
        search.visit(start)
    return sorted(search.found)


class _Search:
    __slots__ = ("_following", "_lowest", "_number", "_on_stack", "_stack", "found")

    def __init__(self, following: dict[OperationName, list[OperationName]]) -> None:
        self._following = following
        self._number: dict[OperationName, int] = {}
        self._lowest: dict[OperationName, int] = {}
        self._stack: list[OperationName] = []
        self._on_stack: set[OperationName] = set()
        self.found: list[list[OperationName]] = []

    def visit(self, start: OperationName) -> None:
        if start in self._number:
            return
        self._enter(start)
        path = [(start, iter(self._following.get(start, ())))]
        while path:
            here, pending = path[-1]
            after = next(pending, None)
            if after is None:
                path.pop()
                self._leave(here, path[-1][0] if path else None)
            elif after not in self._number:
                self._enter(after)
                path.append((after, iter(self._following.get(after, ()))))
            elif after in self._on_stack:
                self._lowest[here] = min(self._lowest[here], self._number[after])

    def _enter(self, name: OperationName) -> None:
        self._number[name] = self._lowest[name] = len(self._number)
        self._stack.append(name)
        self._on_stack.add(name)

    def _leave(self, name: OperationName, parent: OperationName | None) -> None:
        if parent is not None:
            self._lowest[parent] = min(self._lowest[parent], self._lowest[name])
        if self._lowest[name] != self._number[name]:
            return
        component = [self._stack.pop()]
        while component[-1] != name:
            component.append(self._stack.pop())
        self._on_stack.difference_update(component)
        if len(component) > 1:
            self.found.append(sorted(component))
