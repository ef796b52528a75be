"""Which cluster the console looks at, and as whom."""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.client.security import OF_LOGIN, read_properties
from tidelog.cluster.nodes import LocalNodes

LIVE, POLLED = "live", "polled"


class Place(NamedTuple):
    name: str
    bootstrap_servers: str
    properties: Mapping[str, str] = {}
    """Of the console itself: of the administrator of a local cluster, or `--command-config`."""
    timeout_ms: int = 8_000
    """How long the cluster is asked for an answer."""
    nodes: LocalNodes | None = None
    """The processes, if the cluster runs in this directory; only then it is live."""

    def __repr__(self) -> str:
        """Passwords never reach a log."""
        return f"Place({self.name}, {self.bootstrap_servers})"

    @property
    def mode(self) -> str:
        return POLLED if self.nodes is None else LIVE

    @property
    def wants_login(self) -> bool:
        """Users say who they are: nobody acts with the login of the console."""
        return read_properties(self.properties).login is not None

    def properties_of(self, user: str, password: str) -> dict[str, str]:
        """How this user connects: as the console does, with another login."""
        login = read_properties(self.properties).login
        assert login is not None, "nobody logs in here"
        without = {key: value for key, value in self.properties.items() if key not in OF_LOGIN}
        return {
            **without,
            "sasl.mechanism": login.mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }
