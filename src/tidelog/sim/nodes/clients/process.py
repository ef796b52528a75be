"""One program of a client, on a machine of its own."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from tidelog.client import Client
from tidelog.client.client import World
from tidelog.client.security import secured
from tidelog.host.network import TcpNetwork
from tidelog.host.ports import Network
from tidelog.sim.entropy import SeededEntropy, stream
from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes.clock import MachineClock
from tidelog.sim.nodes.cluster import CLIENT, NodeCluster
from tidelog.sim.nodes.loop import OnError, VirtualWorkers


class ClientProcess:
    """Our own client, the tasks that use it, and what can happen to them."""

    __slots__ = ("_cluster", "_loop", "client", "machine")

    def __init__(self, cluster: NodeCluster, on_error: OnError) -> None:
        self._cluster = cluster
        self._loop, self.client = cluster.new_client(on_error)
        self.machine = self._loop.machine

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        tasks: list[asyncio.Task[None]] = []
        self._loop.perform(lambda: tasks.append(self._loop.create_task(work)))
        return tasks[0]

    def new_client(self, client_id: str) -> Client:
        """Called by a task of this process: one that brokers know by another name."""
        return Client(
            self._cluster.bootstrap,
            client_id=client_id,
            world=self._new_world(client_id),
            properties=self._cluster.login_of(CLIENT),
        )

    def new_network(self, user: str = CLIENT) -> Network:
        """Called by a task of this process: for questions that our client does not ask. In the
        name of this user, where one has to log in."""
        return secured(self._new_world(user), self._cluster.login_of(user), "simulated")

    def new_bare_network(self) -> Network:
        """The same for somebody who does not say who he is."""
        return TcpNetwork(MachineClock(self._cluster.kernel))

    def _new_world(self, name: str) -> World:
        clock = MachineClock(self._cluster.kernel)
        return World(clock, TcpNetwork(clock), SeededEntropy(0, f"logins of {name}"))

    @property
    def kernel(self) -> Kernel:
        return self._cluster.kernel

    async def listen(self, port: int) -> None:
        """A port of its machine, with nobody behind it."""
        await self._loop.create_server(asyncio.BaseProtocol, "", port)

    def stop_listening(self) -> None:
        self.machine.listening.clear()

    def make_workers(self, _name: str, threads: int) -> VirtualWorkers:
        return VirtualWorkers(self._loop, threads, lambda: 1_000, stream(0, "work of a client"))

    async def connect(
        self, protocol: asyncio.BaseProtocol, host: str, port: int
    ) -> asyncio.Transport:
        """A connection with nothing of ours on it."""
        transport, _ = await self._loop.create_connection(lambda: protocol, host, port)
        return transport

    def kill(self, power_lost: bool) -> None:
        """Nothing of it runs any more; its peers hear of it, or its machine is silent."""
        self._loop.kill()
        self._cluster.kernel.revoke(self.machine.owner)
        self.machine.on_process_gone(power_lost=power_lost)

    def pause(self, _: None) -> None:
        self._cluster.kernel.pause(self.machine.owner)

    def resume(self, _: None) -> None:
        self._cluster.kernel.resume(self.machine.owner)

    def lose_connections(self) -> None:
        """Something on the way resets all of them."""
        for server in self._cluster.servers.values():
            self._cluster.internet.reset_connections(self.machine, server.machine)
