"""The configuration of a broker with two listeners."""

from collections.abc import Sequence
from pathlib import Path

from tidelog.config.layers import Inputs
from tidelog.config.node_config import NodeConfig, load_node_config
from tidelog.config.properties import parse_properties

OWN_ID = 1
CLIENTS, INSIDE = "PLAINTEXT", "INSIDE"


def node_config(log_dirs: Sequence[Path], **settings: str) -> NodeConfig:
    """Underscores in the names of settings stand for dots."""
    given = {
        "process.roles": "broker",
        "node.id": str(OWN_ID),
        "listeners": f"{CLIENTS}://127.0.0.1:9092,{INSIDE}://127.0.0.1:9094",
        "listener.security.protocol.map": f"{CLIENTS}:PLAINTEXT,{INSIDE}:PLAINTEXT,C:PLAINTEXT",
        "inter.broker.listener.name": INSIDE,
        "controller.listener.names": "C",
        "controller.quorum.voters": "9@127.0.0.1:1",
        "log.dirs": ",".join(map(str, log_dirs)),
        "ack.durability": "page-cache",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    text = "".join(f"{name}={value}\n" for name, value in given.items())
    loaded = load_node_config(Inputs(parse_properties(text, "server.properties")))
    assert loaded.config is not None, loaded.problems
    return loaded.config
