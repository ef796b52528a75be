"""One program of a client, on a machine of its own."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.loop import OnError


class ClientProcess:
    """Our own client, and the tasks that use it."""

    __slots__ = ("_cluster", "_loop", "client")

    def __init__(self, cluster: NodeCluster, on_error: OnError) -> None:
        self._cluster = cluster
        self._loop, self.client = cluster.new_client(on_error)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        tasks: list[asyncio.Task[None]] = []
        self._loop.perform(lambda: tasks.append(self._loop.create_task(work)))
        return tasks[0]
