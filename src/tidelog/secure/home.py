"""The directory of a secured cluster: its authority, a key for every node, the files of its users.

```
ca.pem  ca-key.pem           the authority; whoever has its key can make nodes and users
nodes/1/node.pem             key and certificate of node 1
users/admin/…                how each kind of client logs in as this user
```
"""

import json
from pathlib import Path
from typing import Final

from tidelog.secure.client_files import (
    PYTHON_NAME,
    Login,
    java_properties,
    login_of,
    write_client_files,
)
from tidelog.secure.node_settings import NodeFiles
from tidelog.secure.secret_files import make_password

DIRECTORY_NAME: Final = "secure"
CERTIFICATE_NAME: Final = "ca.pem"
KEY_NAME: Final = "ca-key.pem"
BUNDLE_NAME: Final = "node.pem"
LOGIN_NAME: Final = "client.properties"


class SecureHome:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def exists(self) -> bool:
        return (self.directory / KEY_NAME).exists()

    @property
    def authority_file(self) -> Path:
        return self.directory / CERTIFICATE_NAME

    # -- nodes

    def node_directory(self, node_id: int) -> Path:
        return self.directory / "nodes" / str(node_id)

    def node_files(self, node_id: int) -> NodeFiles:
        return NodeFiles(self.node_directory(node_id) / BUNDLE_NAME, self.authority_file)

    def node_ids(self) -> list[int]:
        """Who has a certificate."""
        found = (self.directory / "nodes").glob(f"*/{BUNDLE_NAME}")
        return sorted(int(path.parent.name) for path in found)

    # -- users

    def login_file(self, user: str) -> Path:
        """For `--command-config` and for Kafka's own tools."""
        return self.directory / "users" / user / LOGIN_NAME

    def client_properties(self, user: str) -> dict[str, str]:
        """Of this user, for our own client."""
        return java_properties(self.read_login(user))

    def make_login(self, user: str, bootstrap_servers: str) -> Login:
        """A new password, in one file per kind of client. The cluster does not know it yet."""
        login = Login(user, make_password(), bootstrap_servers, self.authority_file.resolve())
        write_client_files(self.directory / "users", login)
        return login

    def move_login(self, user: str, bootstrap_servers: str) -> None:
        """The same user and password, at other addresses."""
        login = self.read_login(user)
        if login.bootstrap_servers != bootstrap_servers:
            moved = login._replace(bootstrap_servers=bootstrap_servers)
            write_client_files(self.directory / "users", moved)

    def read_login(self, user: str) -> Login:
        arguments = json.loads((self.login_file(user).parent / PYTHON_NAME).read_text("utf-8"))
        return login_of(arguments)
