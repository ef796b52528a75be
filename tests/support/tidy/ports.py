"""A node takes everything from its host, so that a simulated host can stand in for the world."""

import ast
from collections.abc import Iterator

from .source import Finding, Source

# What runs inside a node or a client. All else is a process of its own around them.
BEHIND_PORTS = (
    "core",
    "config",
    "storage",
    "rpc",
    "observe",
    "client",
    "coordinators",
    "quorum",
    "controller",
    "broker",
    "node",
)

# Where the real world is chosen, or looked at from outside.
CHOOSES_THE_WORLD = {
    "tidelog.node.life": "TCP with the limits of a node, on the running loop: real or simulated",
    "tidelog.observe.loop_watch": "an alarm of the process that finds who holds its loop",
    "tidelog.client.client": "`system_world`: what a client gets that was given nothing else",
    "tidelog.client.loop_thread": "for callers that have no event loop: tests and Spark",
}

# Threads, sockets and clocks: whole modules that only `host` may import.
WORLDLY_MODULES = frozenset(
    (
        "concurrent",
        "multiprocessing",
        "random",
        "secrets",
        "select",
        "selectors",
        "signal",
        "socket",
        "ssl",
        "subprocess",
        "threading",
        "time",
    )
)
# Harmless names of such modules and of the operating system.
HARMLESS = frozenset(("os.path", "os.strerror"))

# asyncio's loop, what makes one, and what goes round the host's timers, threads and network.
LOOP_NAMES = frozenset(
    (
        "AbstractEventLoop",
        "Runner",
        "create_task",
        "ensure_future",
        "get_event_loop",
        "get_running_loop",
        "new_event_loop",
        "open_connection",
        "run",
        "run_coroutine_threadsafe",
        "set_event_loop",
        "sleep",
        "start_server",
        "timeout",
        "timeout_at",
        "to_thread",
        "wait_for",
    )
)
LOOP_METHODS = frozenset(("call_at", "call_later", "call_soon", "run_in_executor"))

REAL_HOSTS = frozenset(
    (
        "FileDisk",
        "SYSTEM_FILESYSTEM",
        "SystemClock",
        "SystemEntropy",
        "SystemFilesystem",
        "TcpNetwork",
        "ThreadWorkers",
    )
)
# Its counters are shown; it is never made there.
SEES_THE_NETWORK = ("node.observation", "node.view")


def leaks(source: Source) -> list[Finding]:
    """Names of the real world in code that runs on a host."""
    if not source.within(*BEHIND_PORTS) or source.module in CHOOSES_THE_WORLD:
        return []
    return [
        source.finding(node, f"{name} does not come from the host")
        for node, name in worldly_names(source)
    ]


def worldly_names(source: Source) -> Iterator[tuple[ast.AST, str]]:
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in WORLDLY_MODULES:
                    yield node, alias.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                if _is_worldly(source, node.module or "", alias.name):
                    yield node, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and _is_worldly(source, node.value.id, node.attr):
                yield node, f"{node.value.id}.{node.attr}"
            elif node.attr in LOOP_METHODS:
                yield node, f".{node.attr}"
        elif isinstance(node, ast.Call) and _is_client_of_the_system(node):
            yield node, "the world of this Client"


def _is_worldly(source: Source, module: str, name: str) -> bool:
    top = module.split(".", maxsplit=1)[0]
    if top == "asyncio":
        return name in LOOP_NAMES
    if top in ("os", *WORLDLY_MODULES):
        return f"{top}.{name}" not in HARMLESS
    if name == "TcpNetwork" and source.within(*SEES_THE_NETWORK):
        return False
    return module.startswith("tidelog.host") and name in REAL_HOSTS


def _is_client_of_the_system(call: ast.Call) -> bool:
    """One that was given an address and no world takes the system's."""
    is_client = isinstance(call.func, ast.Name) and call.func.id == "Client"
    given = [each.arg for each in call.keywords]
    return is_client and bool(call.args) and "world" not in given
