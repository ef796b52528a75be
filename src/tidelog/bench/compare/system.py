"""What is compared, and what a comparison is made of: systems, rows and sections.

A system is a kind of cluster that can be started; a section measures some rows on whichever system
it is given, and knows of it only what is written here. So both are measured by the same lines.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import TracebackType
from typing import NamedTuple, Protocol, Self, runtime_checkable

TIDELOG, KAFKA, MACHINE = "tidelog", "kafka", "machine"
"""Whose values they are; the machine's are what no system on it can beat."""


class Scale(StrEnum):
    """How much is measured: figures of the tiny one mean nothing, it shows that all works."""

    TINY = "tiny"
    QUICK = "quick"
    FULL = "full"


class SystemMissing(Exception):  # noqa: N818 - it names what is so
    """Why a system cannot be had on this machine."""


class SystemFailed(Exception):  # noqa: N818 - it names what is so
    """A cluster, or a client of it, did not do what it was asked."""


class PartlyFailed(Exception):  # noqa: N818 - it names what is so
    """Some rows of a section could not be measured; the values of the others."""

    def __init__(self, values: Mapping[str, float], reasons: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{key}: {reason}" for key, reason in reasons.items()))
        self.values = dict(values)
        self.reasons = dict(reasons)


class Running(Protocol):
    """A running cluster of processes in a directory of its own; its block closes it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def client_settings(self) -> Mapping[str, str]:
        """TLS and the login of a client, in librdkafka's words; empty if it needs neither."""

    @property
    def node_ids(self) -> tuple[int, ...]: ...

    @property
    def ready_after_s(self) -> float:
        """From the start of the first process until all served and knew each other."""

    def create_topic(
        self,
        name: str,
        partitions: int,
        *,
        replication_factor: int = 3,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Returns when every partition has a leader and all its replicas are in sync."""

    def delete_topic(self, name: str) -> None:
        """What a row needs no more shall not be flushed to disk while the next is measured."""

    def leader(self, topic: str, partition: int = 0) -> int:
        """-1 while there is none."""

    def pid(self, node_id: int) -> int: ...

    def kill(self, node_id: int) -> None:
        """SIGKILL; returns when it is gone."""

    def stop(self, node_id: int) -> None:
        """SIGTERM; returns when it is gone."""

    def restart(self, node_id: int) -> None:
        """On the data it had; returns when the process answers."""

    def pause(self) -> None:
        """SIGSTOP to every node: they keep what they have and use no processor."""

    def resume(self) -> None:
        """SIGCONT; nobody has waited for their sessions meanwhile."""

    def wait_in_sync(self, calm_s: float = 0.0) -> None:
        """Until every replica of every topic is in sync, and has been for so long."""

    def log_dirs(self) -> tuple[str, ...]:
        """Where the segment files of the nodes lie."""

    def rss_bytes(self) -> int:
        """Of all nodes together."""

    def cpu_seconds(self) -> float:
        """Of all nodes together, of their whole life."""

    def close(self) -> None:
        """Everything is ended and the directory gone. May be called twice."""


class System(Protocol):
    """A kind of cluster that can be started: Tidelog or Kafka."""

    @property
    def name(self) -> str: ...

    def start(
        self,
        nodes: int = 3,
        settings: Mapping[str, str] | None = None,
        client_settings: Mapping[str, str] | None = None,
    ) -> Running:
        """Returns when it is ready: every node serves and knows the others. The second settings
        are what a client needs to connect to nodes with the first ones."""

    def facts(self) -> Mapping[str, str]:
        """Its version, and what is set that is not its default: part of every report."""


class Row(NamedTuple):
    """One line of the table."""

    key: str
    title: str
    unit: str
    more_is_better: bool
    section: str
    limit_key: str | None = None
    """Which row of the limit it is set against."""


class Section(Protocol):
    """Rows that are measured together, on clusters of their own."""

    @property
    def name(self) -> str: ...

    @property
    def rows(self) -> tuple[Row, ...]: ...

    def measure(self, system: System, round_number: int) -> Mapping[str, float]:
        """Row key → value. It starts and closes its clusters, and uses fresh topics."""


@runtime_checkable
class Narrowable(Protocol):
    """A section that need not measure all of its rows."""

    def only(self, keys: frozenset[str]) -> "AnySection": ...


@runtime_checkable
class Costly(Protocol):
    """A section that takes long, and is measured in fewer rounds than the others."""

    @property
    def rounds_max(self) -> int | None:
        """None: as many as are asked for."""


@runtime_checkable
class MachineSection(Protocol):
    """Rows of the machine itself: measured once in a round, whatever systems are there."""

    @property
    def name(self) -> str: ...

    @property
    def rows(self) -> tuple[Row, ...]: ...

    def measure_machine(self, round_number: int) -> Mapping[str, float]: ...


AnySection = Section | MachineSection
