"""What each machine of a secured cluster gets: one directory to copy, and two commands to run."""

import secrets
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tidelog.config.properties import write_properties
from tidelog.core.security.scram import ScramMechanism, salted_password
from tidelog.secure.client_files import MECHANISM, Login
from tidelog.secure.home import BUNDLE_NAME, CERTIFICATE_NAME, SecureHome
from tidelog.secure.issuing import issue_to_node, make_authority
from tidelog.secure.node_settings import (
    ADMIN_USER,
    CLIENTS,
    CONTROLLER,
    INTERNAL,
    NodeFiles,
    secure_settings,
)
from tidelog.secure.secret_files import write_secret

CONFIG_NAME: Final = "server.properties"
USERS_NAME: Final = "users.scram"

ITERATIONS: Final = 8192
SALT_BYTES: Final = 24
FEWEST_COPIES: Final = 3


class Machine(NamedTuple):
    node_id: int
    host: str


class Ports(NamedTuple):
    clients: int = 9092
    controller: int = 9093
    internal: int = 9094


class Places(NamedTuple):
    """On the machines of the cluster."""

    install: Path
    """Where the directory of a machine will be copied to."""
    data: Path


class Order(NamedTuple):
    """A cluster to be made."""

    name: str
    machines: tuple[Machine, ...]
    ports: Ports
    places: Places

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{machine.host}:{self.ports.clients}" for machine in self.machines)


def write_machines(home: SecureHome, order: Order) -> list[Path]:
    """The authority, the login of the administrator and a directory per machine, in order."""
    make_authority(home, order.name)
    admin = home.make_login(ADMIN_USER, order.bootstrap_servers)
    users = scram_line(admin)
    return [_write_machine(home, order, machine, users) for machine in order.machines]


def scram_line(login: Login) -> str:
    """What `tidelog format --add-scram` takes. It holds no password: whoever reads it could log
    in with it all the same, so it is kept like one."""
    salt = secrets.token_bytes(SALT_BYTES)
    mechanism = ScramMechanism.of_sasl_name(MECHANISM)
    assert mechanism is not None, MECHANISM
    salted = salted_password(mechanism, login.password, salt, ITERATIONS)
    values = f'iterations={ITERATIONS},salt="{_text(salt)}",saltedpassword="{_text(salted)}"'
    return f"{MECHANISM}=[name={login.user},{values}]"


def server_properties(order: Order, machine: Machine) -> dict[str, str]:
    """The whole configuration of one machine: a broker and a controller."""
    names = ((CLIENTS, order.ports.clients), (INTERNAL, order.ports.internal))
    advertised = ",".join(f"{name}://{machine.host}:{port}" for name, port in names)
    every = (*names, (CONTROLLER, order.ports.controller))
    voters = [f"{each.node_id}@{each.host}:{order.ports.controller}" for each in order.machines]
    copies = min(FEWEST_COPIES, len(order.machines))
    files = NodeFiles(order.places.install / BUNDLE_NAME, order.places.install / CERTIFICATE_NAME)
    return {
        "process.roles": "broker,controller",
        "node.id": str(machine.node_id),
        "listeners": ",".join(f"{name}://:{port}" for name, port in every),
        "advertised.listeners": advertised,
        "controller.listener.names": CONTROLLER,
        "controller.quorum.voters": ",".join(voters),
        "log.dirs": str(order.places.data),
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(max(1, copies - 1)),
        "tidelog.http.listener": "127.0.0.1:9644",
        **secure_settings(files),
    }


def _write_machine(home: SecureHome, order: Order, machine: Machine, users: str) -> Path:
    issue_to_node(home, machine.node_id, [machine.host])
    directory = home.node_directory(machine.node_id)
    write_secret(directory / USERS_NAME, f"{users}\n".encode())
    (directory / CERTIFICATE_NAME).write_bytes(home.authority_file.read_bytes())
    head = f"# Node {machine.node_id} of {order.name}, made by `tidelog secure init`.\n"
    text = head + write_properties(server_properties(order, machine))
    (directory / CONFIG_NAME).write_text(text, "utf-8")
    return directory


def repeated(machines: Sequence[Machine]) -> str | None:
    """The first node id or host that stands there twice."""
    seen: set[str] = set()
    for machine in machines:
        for name in (str(machine.node_id), machine.host):
            if name in seen:
                return name
            seen.add(name)
    return None


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")
