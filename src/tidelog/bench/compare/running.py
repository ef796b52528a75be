"""What a running cluster does alike, whatever its nodes are."""

import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tidelog.bench.compare import processes
from tidelog.bench.compare.topics import Topics, wait_until


class LocalCluster(ABC):
    """Nodes that are processes on this machine, and the topics they have.

    `with system.start() as cluster: …`
    """

    __slots__ = ("_client_settings", "_topics")

    def __init__(self, client_settings: Mapping[str, str] | None = None) -> None:
        self._client_settings = dict(client_settings or {})
        self._topics: Topics | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str: ...

    @property
    def client_settings(self) -> Mapping[str, str]:
        return self._client_settings

    @property
    @abstractmethod
    def node_ids(self) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def ready_after_s(self) -> float: ...

    @abstractmethod
    def pid(self, node_id: int) -> int: ...

    @abstractmethod
    def close(self) -> None: ...

    def create_topic(
        self,
        name: str,
        partitions: int,
        *,
        replication_factor: int = 3,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self._admin.create(name, partitions, replication_factor, config or {})

    def delete_topic(self, name: str) -> None:
        self._admin.delete(name)

    def leader(self, topic: str, partition: int = 0) -> int:
        return self._admin.leader(topic, partition)

    def pause(self) -> None:
        for node_id in self.node_ids:
            os.kill(self.pid(node_id), signal.SIGSTOP)

    def resume(self) -> None:
        for node_id in self.node_ids:
            os.kill(self.pid(node_id), signal.SIGCONT)

    def wait_in_sync(self, calm_s: float = 0.0) -> None:
        calm_since: float | None = None

        def is_calm() -> bool:
            nonlocal calm_since
            if not self._admin.all_in_sync():
                calm_since = None
                return False
            calm_since = calm_since or time.monotonic()
            return time.monotonic() - calm_since >= calm_s

        wait_until(is_calm, "every replica is in sync")

    def rss_bytes(self) -> int:
        return sum(processes.rss_bytes(self.pid(node_id)) for node_id in self.node_ids)

    def cpu_seconds(self) -> float:
        return sum(processes.cpu_seconds(self.pid(node_id)) for node_id in self.node_ids)

    @property
    def _admin(self) -> Topics:
        if self._topics is None:
            self._topics = Topics(self.bootstrap_servers, self.client_settings)
        return self._topics
