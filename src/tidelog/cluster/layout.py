"""Making a cluster's directory: ports, one server.properties per node, formatted data."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tidelog.cluster import state as states
from tidelog.cluster.free_ports import HOST, free_ports
from tidelog.cluster.state import ClusterState, NodeState
from tidelog.config.profiles import BRISK, PROFILES
from tidelog.config.properties import write_properties
from tidelog.host.disk import FileDisk
from tidelog.host.entropy import SystemEntropy
from tidelog.secure.home import DIRECTORY_NAME, SecureHome
from tidelog.secure.node_settings import (
    ADMIN_USER,
    CLIENTS,
    CONTROLLER,
    INTERNAL,
    secure_settings,
)
from tidelog.storage.meta_properties import MetaProperties, format_directory
from tidelog.storage.uuids import uuid_text

CONFIG_NAME = "server.properties"
LOG_NAME = "node.log"
USUAL_CONTROLLERS = 3
FIRST_SEPARATE = 101
"""The number of the first controller that is no broker: brokers may be added below."""

FACTORS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)
LEAST_IN_SYNC = ("min.insync.replicas", "transaction.state.log.min.isr")


class DifferentCluster(Exception):  # noqa: N818 - it names what is so
    """The data that lies here belongs to a cluster of another shape."""


class Shape(NamedTuple):
    """What somebody wants a cluster to be."""

    brokers: int = 3
    controllers: int | None = None
    """How many of the brokers are controllers too; None: three, or one of fewer than three."""
    racks: Sequence[str] = ()
    config: Mapping[str, str] = {}
    first_port: int | None = None
    """None: any ports that are free."""
    ephemeral: bool = False
    separate: bool = False
    """The controllers are processes of their own, and no broker is one."""
    secure: bool = False
    """TLS, logins and ACLs on every listener."""
    lab: bool = False
    """Followers fetch only what somebody releases (`cluster.lab`)."""


def create(directory: Path, name: str, shape: Shape) -> ClusterState:
    """A new cluster, or the one whose data lies here, ready to be started."""
    known = states.load(directory)
    if known is not None and known.ephemeral:
        shutil.rmtree(directory)
        known = None
    cluster_id = known.cluster_id if known else uuid_text(SystemEntropy().uuid())
    nodes = _nodes(shape, known)
    _check_same(known, nodes, shape)
    state = ClusterState(
        name, cluster_id, HOST, nodes, shape.ephemeral, shape.secure, lab=shape.lab
    )
    directory.mkdir(parents=True, exist_ok=True)
    for node in nodes.values():
        _write_node(directory, state, node, shape)
    states.save(directory, state)
    return state


def plan(name: str, shape: Shape) -> ClusterState:
    """A new cluster that leaves nothing on any disk."""
    cluster_id = uuid_text(SystemEntropy().uuid())
    return ClusterState(name, cluster_id, HOST, _nodes(shape, None), ephemeral=True)


def node_directory(directory: Path, node_id: int) -> Path:
    return directory / f"node-{node_id}"


def data_directory(directory: Path, node_id: int) -> Path:
    return node_directory(directory, node_id) / "data"


def log_file(directory: Path, node_id: int) -> Path:
    return node_directory(directory, node_id) / LOG_NAME


def config_file(directory: Path, node_id: int) -> Path:
    return node_directory(directory, node_id) / CONFIG_NAME


def secure_home(directory: Path) -> SecureHome:
    """The authority, keys and users of a secured cluster."""
    return SecureHome(directory / DIRECTORY_NAME)


def admin_properties(directory: Path, state: ClusterState) -> dict[str, str]:
    """How a client of ours reaches a cluster that was made here."""
    return secure_home(directory).client_properties(ADMIN_USER) if state.secure else {}


def controllers_of(shape: Shape) -> int:
    if shape.controllers is not None:
        return shape.controllers
    return USUAL_CONTROLLERS if shape.brokers >= USUAL_CONTROLLERS else 1


def properties_of(state: ClusterState, node: NodeState, shape: Shape, data: Path) -> dict[str, str]:
    """The whole content of a node's server.properties, in reading order."""
    voters = [f"{each.id}@{state.host}:{each.controller_port}" for each in state.controllers]
    values = {
        "process.roles": ",".join(node.roles),
        "node.id": str(node.id),
        "listeners": _listeners(state, node),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(voters),
        "log.dirs": str(data),
        "tidelog.http.listener": f"{'https://' if state.secure else ''}{HOST}:{node.http_port}",
        "tidelog.chaos.enable": "true",
    }
    if node.rack is not None:
        values["broker.rack"] = node.rack
    # Three copies of which two are needed; a smaller cluster gets what it can hold.
    values.update(dict.fromkeys(FACTORS, str(min(3, shape.brokers))))
    values.update(dict.fromkeys(LEAST_IN_SYNC, str(min(2, max(1, shape.brokers - 1)))))
    return {**values, **PROFILES[BRISK], **shape.config}


def _listeners(state: ClusterState, node: NodeState) -> str:
    ports = {
        (CLIENTS if state.secure else "PLAINTEXT"): node.port if node.is_broker else None,
        INTERNAL: node.internal_port,
        CONTROLLER: node.controller_port,
    }
    return ",".join(
        f"{name}://{state.host}:{port}" for name, port in ports.items() if port is not None
    )


def _nodes(shape: Shape, known: ClusterState | None) -> dict[int, NodeState]:
    combined = 0 if shape.separate else controllers_of(shape)
    ids = range(1, shape.brokers + 1)
    before = known.nodes if known is not None else {}
    wanted = [before[each].port for each in ids if each in before]
    if len(wanted) < shape.brokers:
        first = shape.first_port
        wanted = [] if first is None else [first + offset for offset in range(shape.brokers)]
    ports = free_ports(shape.brokers, wanted)
    each_has = 3 if shape.secure else 2
    others = free_ports(each_has * shape.brokers)
    nodes = {}
    for place, node_id in enumerate(ids):
        leads = place < combined
        nodes[node_id] = NodeState(
            node_id,
            ("broker", "controller") if leads else ("broker",),
            ports[place],
            others[each_has * place] if leads else None,
            others[each_has * place + 1],
            shape.racks[place % len(shape.racks)] if shape.racks else None,
            internal_port=others[each_has * place + 2] if shape.secure else None,
        )
    return {**nodes, **_separate_controllers(shape)}


def _separate_controllers(shape: Shape) -> dict[int, NodeState]:
    count = controllers_of(shape) if shape.separate else 0
    ports = free_ports(2 * count)
    return {
        FIRST_SEPARATE + place: NodeState(
            FIRST_SEPARATE + place,
            ("controller",),
            ports[2 * place],
            ports[2 * place],
            ports[2 * place + 1],
        )
        for place in range(count)
    }


def _check_same(known: ClusterState | None, nodes: Mapping[int, NodeState], shape: Shape) -> None:
    """The voters of a quorum are part of its data; so are its users, and the brokers that hold
    replicas."""
    if known is None:
        return
    if known.secure != shape.secure:
        raise DifferentCluster(f"it was made {'with' if known.secure else 'without'} --secure")
    if known.lab != shape.lab:
        raise DifferentCluster(f"it was made {'with' if known.lab else 'without'} --lab")
    before = {node.id: node.roles for node in known.nodes.values()}
    now = {node.id: node.roles for node in nodes.values()}
    missing = [str(each) for each in before if each not in now]
    if missing:
        raise DifferentCluster(f"it has data of the brokers {', '.join(missing)} too")
    changed = [str(each) for each in before if before[each] != now[each]]
    added = [str(each) for each in now if each not in before and "controller" in now[each]]
    if changed or added:
        controllers = ", ".join(str(node.id) for node in known.controllers)
        raise DifferentCluster(f"its controllers are {controllers}, and that cannot change")


def _write_node(directory: Path, state: ClusterState, node: NodeState, shape: Shape) -> None:
    data = data_directory(directory, node.id)
    data.mkdir(parents=True, exist_ok=True)
    head = f"# Node {node.id} of {state.name}, with the {BRISK} profile: made by tidelog up.\n"
    values = properties_of(state, node, shape, data.resolve())
    if state.secure:
        values |= secure_settings(secure_home(directory.resolve()).node_files(node.id))
    config_file(directory, node.id).write_text(head + write_properties(values), "utf-8")
    format_directory(
        FileDisk(str(data)), MetaProperties(state.cluster_id, node.id, SystemEntropy().uuid())
    )
