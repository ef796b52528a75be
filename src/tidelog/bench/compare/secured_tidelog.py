"""A cluster as `tidelog up --secure` makes it, and a user who is no administrator.

The user may do everything with topics and groups because rules say so: whatever it asks is looked
up in them, which an administrator is spared.
"""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidelog.client import Client
from tidelog.client.access_admin import AccessAdmin, NewPassword
from tidelog.cluster.layout import admin_properties, secure_home
from tidelog.cluster.state import ClusterState
from tidelog.core.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidelog.core.security.scram import DEFAULT_ITERATIONS, ScramMechanism
from tidelog.secure.client_files import Login, librdkafka_properties

USER: Final = "bench"
SALT_BYTES: Final = 24
ALLOWED: Final = (
    (ResourceType.TOPIC, WILDCARD),
    (ResourceType.GROUP, WILDCARD),
    (ResourceType.CLUSTER, CLUSTER_NAME),
)


def make_keys(directory: Path, state: ClusterState) -> None:
    """Before the first start."""
    from tidelog.cluster.securing import secure  # noqa: PLC0415 - an extra

    secure(directory, state)


def add_user(directory: Path, state: ClusterState) -> Mapping[str, str]:
    """To a cluster that runs. What its clients need, in librdkafka's words."""
    login = secure_home(directory).make_login(USER, state.bootstrap_servers)
    asyncio.run(_tell(login, admin_properties(directory, state)))
    settings = librdkafka_properties(login)
    del settings["bootstrap.servers"]
    return settings


async def _tell(login: Login, properties: Mapping[str, str]) -> None:
    rules = [
        Acl(
            kind,
            name,
            PatternType.LITERAL,
            f"User:{USER}",
            WILDCARD,
            Operation.ALL,
            Permission.ALLOW,
        )
        for kind, name in ALLOWED
    ]
    salt = os.urandom(SALT_BYTES)
    mechanism = ScramMechanism.SCRAM_SHA_512
    async with Client(login.bootstrap_servers, properties=properties) as client:
        admin = AccessAdmin(client)
        await admin.add_acls(rules)
        await admin.set_password(
            NewPassword(login.user, mechanism, login.password, salt, DEFAULT_ITERATIONS)
        )
