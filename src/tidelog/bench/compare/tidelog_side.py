"""Clusters of Tidelog, as `tidelog up` makes them."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import tidelog
from tidelog.bench.compare import secured_tidelog
from tidelog.bench.compare.running import LocalCluster
from tidelog.bench.compare.system import TIDELOG, SystemFailed
from tidelog.cluster import layout
from tidelog.cluster.layout import Shape
from tidelog.cluster.nodes import LocalNodes, NodeFailed
from tidelog.cluster.readiness import wait_ready

START_WITHIN_MS = 60_000
STOP_WITHIN_MS = 30_000

PAGE_CACHE: Mapping[str, str] = {"ack.durability": "page-cache"}
"""What stock Kafka does: a record counts once it is written to the page cache of each replica."""


class TidelogSystem:
    """Tidelog, this checkout."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return TIDELOG

    def start(
        self,
        nodes: int = 3,
        settings: Mapping[str, str] | None = None,
        client_settings: Mapping[str, str] | None = None,
    ) -> "TidelogCluster":
        """Durability is that of stock Kafka, unless the settings say otherwise."""
        return TidelogCluster(nodes, {**PAGE_CACHE, **(settings or {})}, client_settings)

    def start_secured(self, settings: Mapping[str, str] | None = None) -> "TidelogCluster":
        """Three nodes as `tidelog up --secure` makes them; clients log in, and have rules."""
        return TidelogCluster(3, {**PAGE_CACHE, **(settings or {})}, secure=True)

    def facts(self) -> Mapping[str, str]:
        shown = ", ".join(f"{key}={value}" for key, value in PAGE_CACHE.items())
        return {"version": tidelog.__version__, "settings": f"as `tidelog up` makes it, {shown}"}


class TidelogCluster(LocalCluster):
    """Its data lies in a temporary directory, and goes when it is closed."""

    __slots__ = ("_directory", "_nodes", "_ready_after_s")

    def __init__(
        self,
        nodes: int,
        settings: Mapping[str, str],
        client_settings: Mapping[str, str] | None = None,
        *,
        secure: bool = False,
    ) -> None:
        super().__init__(client_settings)
        self._directory = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
        shape = Shape(brokers=nodes, config=settings, secure=secure)
        self._nodes = LocalNodes(self._directory, layout.create(self._directory, "bench", shape))
        try:
            if secure:
                secured_tidelog.make_keys(self._directory, self._nodes.state)
            begin = time.monotonic()
            self._nodes.start(self._nodes.node_ids, attached=True)
            self._wait_ready(self._nodes.node_ids)
            self._ready_after_s = time.monotonic() - begin
            if secure:
                user = secured_tidelog.add_user(self._directory, self._nodes.state)
                self._client_settings.update(user)
        except BaseException:
            self.close()
            raise

    @property
    def bootstrap_servers(self) -> str:
        return self._nodes.state.bootstrap_servers

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(self._nodes.node_ids)

    @property
    def ready_after_s(self) -> float:
        return self._ready_after_s

    def pid(self, node_id: int) -> int:
        process = self._nodes.node(node_id).process
        assert process is not None, f"node {node_id} was stopped"
        return process.pid

    def kill(self, node_id: int) -> None:
        self._nodes.kill(node_id)

    def stop(self, node_id: int) -> None:
        self._nodes.stop([node_id], timeout_ms=STOP_WITHIN_MS)

    def restart(self, node_id: int) -> None:
        self.stop(node_id)
        self._nodes.start([node_id], attached=True)
        self._wait_ready([node_id])

    def pause(self) -> None:
        for node_id in self.node_ids:
            self._nodes.pause(node_id)  # and waits until it stands still

    def log_dirs(self) -> tuple[str, ...]:
        return tuple(str(layout.data_directory(self._directory, each)) for each in self.node_ids)

    def close(self) -> None:
        for node_id in self._nodes.node_ids:
            self._nodes.kill(node_id)
        self._nodes.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _wait_ready(self, node_ids: Sequence[int]) -> None:
        try:
            asyncio.run(
                wait_ready(
                    self._nodes,
                    timeout_ms=START_WITHIN_MS,
                    expected=node_ids,
                    properties=self.client_settings or None,
                )
            )
        except NodeFailed as failure:
            raise SystemFailed(f"{failure}: {failure.why}") from None
