"""Same input, same output: what code that runs inside a seed may not touch."""

import ast
from collections.abc import Iterator

from .source import Finding, Function, Source

SEEDED = ("core", "storage", "sim", "testing.simulated")
RUN_BY_SEEDS = (*SEEDED, "broker", "controller", "quorum", "coordinators", "node", "rpc", "host")
"""Whole-node runs must repeat, so nothing here may follow the order of a set."""
SILENT = ("core", "storage", "wire", "sim")

# Clocks, chance, processes, the operating system: everything that answers differently twice.
FORBIDDEN_MODULES = frozenset(
    (
        "time",
        "datetime",
        "random",
        "secrets",
        "uuid",
        "asyncio",
        "threading",
        "multiprocessing",
        "concurrent",
        "subprocess",
        "signal",
        "os",
        "io",
        "pathlib",
        "shutil",
        "tempfile",
        "socket",
        "select",
        "selectors",
        "ssl",
    )
)
FORBIDDEN_CALLS = frozenset(("open", "hash", "id", "input", "breakpoint"))

# Names that are safe although their module is not, per package.
HARMLESS_NAMES = {
    "sim": {"random": {"Random"}, "pathlib": {"PurePath"}, "os": {"strerror"}},
    "testing": {"datetime": {"timedelta"}, "pathlib": {"Path"}},
}

# Whole-node runs are an event loop: asyncio without its own loops, clocks and sockets.
VIRTUAL_LOOP_NAMES = frozenset(
    (
        "AbstractEventLoop",
        "BaseProtocol",
        "CancelledError",
        "Future",
        "Handle",
        "IncompleteReadError",
        "Lock",
        "Protocol",
        "Task",
        "TimerHandle",
        "Transport",
        "_get_running_loop",
        "_set_running_loop",
        "all_tasks",
        "gather",
        "open_connection",
        "sleep",
    )
)

# A simulated cluster is used by coroutines, of its own world and of the real one.
AMONG_OTHER_LOOPS = frozenset(("_enter_task", "_leave_task", "current_task", "iscoroutine"))

# Parts of `sim` that stand around a seed and never run inside one.
AROUND_A_SEED = {
    "tidelog.sim.fleet": "runs many seeds in processes and says how fast it went",
    "tidelog.sim.bench": "measures steps per second",
    "tidelog.sim.campaign": "keeps what seeds came to in files",
    "tidelog.sim.coverage": "traces seeds and reads the source of what they ran",
    "tidelog.sim.nodes.replay_file": "writes and reads the file of a failed seed",
}

SET_MAKERS = frozenset(("set", "frozenset"))
SET_METHODS = frozenset(("union", "intersection", "difference", "symmetric_difference"))
SET_TYPES = frozenset(("set", "frozenset", "Set", "AbstractSet", "MutableSet"))
ORDER_KEEPERS = frozenset(("list", "tuple", "iter", "enumerate", "zip", "map", "filter", "next"))
ORDER_BLIND = frozenset(("sorted", "any", "all", "set", "frozenset", "len"))


def impure_imports(source: Source) -> list[Finding]:
    if not source.within(*SEEDED) or source.module in AROUND_A_SEED:
        return []
    package = source.module.split(".")[1]
    harmless = HARMLESS_NAMES.get(package, {})
    if source.within("sim.nodes"):
        harmless = {**harmless, "asyncio": VIRTUAL_LOOP_NAMES}
    if source.within("testing.simulated"):
        harmless = {**harmless, "asyncio": VIRTUAL_LOOP_NAMES | AMONG_OTHER_LOOPS}
    return [
        source.finding(node, f"{package} may not use {name}")
        for node, name in _outside_names(source)
        if name.split(".")[1] not in harmless.get(name.split(".")[0], set())
    ]


def _outside_names(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """`module.name` for every use of a forbidden module, however it was imported."""
    aliases: dict[str, str] = {}
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                if top in FORBIDDEN_MODULES:
                    aliases[alias.asname or top] = top
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            top = (node.module or "").split(".")[0]
            if top in FORBIDDEN_MODULES:
                for alias in node.names:
                    yield node, f"{top}.{alias.name}"
    used = set()
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = aliases.get(node.value.id)
            if module is not None:
                used.add(node.value.id)
                yield node, f"{module}.{node.attr}"
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.split(".")[0]
                if name in aliases and name not in used:
                    yield node, f"{aliases[name]}.*"


def impure_calls(source: Source) -> list[Finding]:
    if not source.within(*SEEDED) or source.module in AROUND_A_SEED:
        return []
    findings = []
    for node in source.nodes:
        if not isinstance(node, ast.Call):
            continue
        name = _called(node)
        if name in FORBIDDEN_CALLS:
            findings.append(source.finding(node, f"{name}() differs between two runs"))
        if _is_unseeded(node):
            findings.append(source.finding(node, "Random() without a seed"))
    return findings


def _is_unseeded(node: ast.Call) -> bool:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else _called(node)
    return name == "Random" and not node.args and not node.keywords


def printing(source: Source) -> list[Finding]:
    """Events and return values leave these packages; the terminal belongs to `cli`."""
    if not source.within(*SILENT):
        return []
    return [
        source.finding(node, "print() outside the command line")
        for node in source.nodes
        if isinstance(node, ast.Call) and _called(node) == "print"
    ]


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def set_iteration(source: Source) -> list[Finding]:
    """The order of a set of strings or bytes changes with PYTHONHASHSEED."""
    if not source.within(*RUN_BY_SEEDS) or source.module in AROUND_A_SEED:
        return []
    return list(_SetIteration(source).findings())


class _SetIteration:
    """Knows which names and attributes of one file hold sets, by annotation or assignment."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.attributes = {
            name
            for node in source.nodes
            for name in self._declared(node, names=frozenset(), attribute=True)
        }

    def findings(self) -> Iterator[Finding]:
        scopes: list[ast.AST] = [self.source.tree, *self.source.functions()]
        for scope in scopes:
            yield from self._in_scope(scope)

    def _in_scope(self, scope: ast.AST) -> Iterator[Finding]:
        nodes = list(_own_nodes(scope))
        names: frozenset[str] = frozenset(_set_parameters(scope))
        for node in nodes:
            names |= frozenset(self._declared(node, names, attribute=False))
        blind = {inner for node in nodes for inner in _order_blind(node)}
        for node in nodes:
            for iterated in _iterated(node):
                if node not in blind and self._is_set(iterated, names):
                    text = f"iterates over a set: {ast.unparse(iterated)}"
                    yield self.source.finding(iterated, text)

    def _declared(self, node: ast.AST, names: frozenset[str], *, attribute: bool) -> Iterator[str]:
        """Names (or attributes) that this statement binds to a set."""
        targets: list[ast.expr] = []
        if isinstance(node, ast.AnnAssign) and _is_set_type(node.annotation):
            targets = [node.target]
        elif isinstance(node, ast.Assign) and self._is_set(node.value, names):
            targets = node.targets
        for target in targets:
            if attribute and isinstance(target, ast.Attribute):
                yield target.attr
            elif not attribute and isinstance(target, ast.Name):
                yield target.id

    def _is_set(self, node: ast.expr, names: frozenset[str]) -> bool:
        if isinstance(node, ast.Set | ast.SetComp):
            return True
        if isinstance(node, ast.Name):
            return node.id in names
        if isinstance(node, ast.Attribute):
            return node.attr in getattr(self, "attributes", ())
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right)
            by_operator = isinstance(node.op, ast.BitOr | ast.BitAnd | ast.BitXor | ast.Sub)
            return by_operator and any(
                self._is_set(side, names) or _is_keys(side) for side in sides
            )
        if isinstance(node, ast.IfExp):
            return self._is_set(node.body, names) or self._is_set(node.orelse, names)
        if isinstance(node, ast.Call):
            if _called(node) in SET_MAKERS:
                return True
            if isinstance(node.func, ast.Attribute) and node.func.attr in SET_METHODS:
                return self._is_set(node.func.value, names)
        return False


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function or module without those of the functions inside it."""
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop(0)
        yield node
        if not isinstance(node, Function):
            pending[:0] = ast.iter_child_nodes(node)


def _set_parameters(scope: ast.AST) -> Iterator[str]:
    if isinstance(scope, Function):
        arguments = scope.args
        for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            if argument.annotation is not None and _is_set_type(argument.annotation):
                yield argument.arg


def _is_set_type(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    return isinstance(annotation, ast.Name) and annotation.id in SET_TYPES


def _is_keys(node: ast.expr) -> bool:
    """`a.keys() - b` is a set although `a.keys()` keeps its order."""
    return isinstance(node, ast.Call) and (
        isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "items")
    )


def _iterated(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.For | ast.AsyncFor):
        yield node.iter
    elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp):
        for generator in node.generators:
            yield generator.iter
    elif isinstance(node, ast.Starred):
        yield node.value
    elif isinstance(node, ast.Call) and _called(node) in ORDER_KEEPERS:
        yield from node.args
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("join", "extend"):
            yield from node.args
        elif node.func.attr == "pop" and not node.args:
            yield node.func.value


def _order_blind(node: ast.AST) -> Iterator[ast.AST]:
    """`sorted(x for x in a_set)`: the order goes in and does not come out."""
    if isinstance(node, ast.Call) and _called(node) in ORDER_BLIND:
        yield from (argument for argument in node.args if isinstance(argument, ast.GeneratorExp))
    elif isinstance(node, ast.Set):
        yield from (element for element in node.elts if isinstance(element, ast.Starred))
