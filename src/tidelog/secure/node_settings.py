"""The settings that secure a node: what `tidelog up --secure` and `secure init` write.

Clients log in over TLS with a user and a password (SCRAM). Nodes talk to each other on listeners
of their own, where a certificate of the cluster's authority is required. Whatever no ACL allows
is refused.
"""

from pathlib import Path
from typing import Final, NamedTuple

from tidelog.secure.client_files import MECHANISM

CLIENTS: Final = "CLIENTS"
INTERNAL: Final = "INTERNAL"
CONTROLLER: Final = "CONTROLLER"
PROTOCOLS: Final = {CLIENTS: "SASL_SSL", INTERNAL: "SSL", CONTROLLER: "SSL"}

NODE_UNIT: Final = "tidelog-nodes"
USER_UNIT: Final = "tidelog-users"
"""The organisational units that certificates name."""

NODE_USER: Final = "tidelog-node"
ADMIN_USER: Final = "admin"
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class NodeFiles(NamedTuple):
    """Where a node finds its key and what it trusts."""

    bundle: Path
    authority: Path


def secure_settings(files: NodeFiles) -> dict[str, str]:
    """Everything but the listeners themselves, whose addresses differ from node to node."""
    protocols = ",".join(f"{name}:{protocol}" for name, protocol in PROTOCOLS.items())
    return {
        "listener.security.protocol.map": protocols,
        "inter.broker.listener.name": INTERNAL,
        "sasl.enabled.mechanisms": MECHANISM,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.bundle),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority),
        f"listener.name.{INTERNAL.lower()}.ssl.client.auth": "required",
        f"listener.name.{CONTROLLER.lower()}.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": principal_rules(),
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"User:{NODE_USER};User:{ADMIN_USER}",
    }


def principal_rules() -> str:
    """All nodes are one principal. Of a user's certificate the common name counts."""
    nodes = f"RULE:^CN=[^,]+,OU={NODE_UNIT}$/{NODE_USER}/"
    users = f"RULE:^CN=([^,]+),OU={USER_UNIT}$/$1/"
    return f"{nodes},{users},DEFAULT"
