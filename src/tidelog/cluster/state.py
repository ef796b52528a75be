"""What is known of a cluster on this machine: one file, replaced whole."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.cluster.process_ids import ProcessId

FILE_NAME = "cluster.json"
HOME = ".tidelog"
"""Where the clusters of a working directory lie, each under its name."""
DEFAULT_NAME = "dev"


class BadStateFile(Exception):  # noqa: N818 - it names what is so
    """The file is there and cannot be understood."""


@dataclass(slots=True)
class NodeState:
    id: int
    roles: tuple[str, ...]
    port: int
    controller_port: int | None
    http_port: int
    rack: str | None = None
    process: ProcessId | None = None
    blocked: list[int] = field(default_factory=list)
    """Nodes it does not hear, by `chaos partition`."""
    latency_ms: dict[str, int] = field(default_factory=dict)
    """By `chaos slow`: how late it hears other nodes."""
    full_disks: bool = False
    """By `chaos disk --full`: its disks look full."""
    internal_port: int | None = None
    """Where brokers of a secured cluster talk to each other."""

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def state(self) -> str:
        """`running`, `paused` or `gone`."""
        return self.process.state() if self.process is not None else "gone"


class ConsoleState(NamedTuple):
    """The web console that `tidelog up` has started."""

    url: str
    process: ProcessId


@dataclass(slots=True)
class ClusterState:
    name: str
    cluster_id: str
    host: str
    nodes: dict[int, NodeState]
    ephemeral: bool = False
    """Its data goes when it stops."""
    secure: bool = False
    """Clients log in over TLS; nothing is allowed that no ACL allows."""
    console: ConsoleState | None = None

    @property
    def brokers(self) -> list[NodeState]:
        return [node for node in self.nodes.values() if node.is_broker]

    @property
    def controllers(self) -> list[NodeState]:
        return [node for node in self.nodes.values() if node.is_controller]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{self.host}:{node.port}" for node in self.brokers)

    @property
    def is_running(self) -> bool:
        return any(node.state != "gone" for node in self.nodes.values())

    def as_document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "cluster_id": self.cluster_id,
            "host": self.host,
            "ephemeral": self.ephemeral,
            "secure": self.secure,
            "bootstrap_servers": self.bootstrap_servers,
            "console": None
            if self.console is None
            else {"url": self.console.url, **self.console.process._asdict()},
            "nodes": [_node_document(node) for node in self.nodes.values()],
        }


def save(directory: Path, state: ClusterState) -> None:
    path = directory / FILE_NAME
    temporary = path.with_suffix(".json.tmp")
    temporary.write_text(json.dumps(state.as_document(), indent=2) + "\n", "utf-8")
    os.replace(temporary, path)


def load(directory: Path) -> ClusterState | None:
    """None if there was never a cluster here."""
    path = directory / FILE_NAME
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    try:
        return _from_document(json.loads(text))
    except (ValueError, KeyError, TypeError) as reason:
        raise BadStateFile(f"{path}: {reason!r}") from None


def clusters_under(home: Path) -> dict[str, Path]:
    """The directories of clusters, by name."""
    return {path.parent.name: path.parent for path in sorted(home.glob(f"*/{FILE_NAME}"))}


def _node_document(node: NodeState) -> dict[str, Any]:
    process = node.process
    return {
        "id": node.id,
        "roles": list(node.roles),
        "port": node.port,
        "controller_port": node.controller_port,
        "http_port": node.http_port,
        "rack": node.rack,
        "pid": process.pid if process else None,
        "start_ticks": process.start_ticks if process else None,
        "blocked": node.blocked,
        "latency_ms": node.latency_ms,
        "full_disks": node.full_disks,
        "internal_port": node.internal_port,
    }


def _from_document(document: Mapping[str, Any]) -> ClusterState:
    nodes = {}
    for each in document["nodes"]:
        pid, ticks = each["pid"], each["start_ticks"]
        nodes[int(each["id"])] = NodeState(
            int(each["id"]),
            tuple(each["roles"]),
            int(each["port"]),
            each["controller_port"],
            int(each["http_port"]),
            each["rack"],
            None if pid is None else ProcessId(int(pid), int(ticks)),
            list(each["blocked"]),
            dict(each["latency_ms"]),
            bool(each.get("full_disks", False)),
            each.get("internal_port"),
        )
    return ClusterState(
        str(document["name"]),
        str(document["cluster_id"]),
        str(document["host"]),
        nodes,
        bool(document["ephemeral"]),
        bool(document.get("secure", False)),
        _console_in(document.get("console")),
    )


def _console_in(document: Mapping[str, Any] | None) -> ConsoleState | None:
    if document is None:
        return None
    process = ProcessId(int(document["pid"]), int(document["start_ticks"]))
    return ConsoleState(str(document["url"]), process)
