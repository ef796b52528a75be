"""Which cluster the console looks at, and as whom."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tidelog.client.security import OF_LOGIN, read_properties
from tidelog.cluster.nodes import LocalNodes
from tidelog.console.lab_seeds import Document, Seed

LIVE, POLLED, SIMULATED = "live", "polled", "sim"
NOWHERE = "127.0.0.1:9"
"""Where no cluster is: the discard port."""


class Place(NamedTuple):
    name: str
    bootstrap_servers: str
    properties: Mapping[str, str] = {}
    """Of the console itself: of the administrator of a local cluster, or `--command-config`."""
    timeout_ms: int = 8_000
    """How long the cluster is asked for an answer."""
    nodes: LocalNodes | None = None
    """The processes, if the cluster runs in this directory; only then it is live."""
    is_simulated: bool = False
    """There is no cluster: only the lab has something to show."""
    told_seeds: tuple[tuple[Seed, Document], ...] = ()
    """Runs of the simulator that the lab need not make again."""

    def __repr__(self) -> str:
        """Passwords never reach a log."""
        return f"Place({self.name}, {self.bootstrap_servers})"

    @property
    def mode(self) -> str:
        if self.is_simulated:
            return SIMULATED
        return POLLED if self.nodes is None else LIVE

    @property
    def lab_directory(self) -> Path | None:
        """Of a local cluster that `up --lab` has started: stories can be played on it."""
        return self.nodes.directory if self.nodes is not None and self.nodes.state.lab else None

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


def simulator(*told: tuple[Seed, Document]) -> Place:
    """A console without a cluster."""
    return Place("simulator", NOWHERE, is_simulated=True, told_seeds=told)
