"""The way from a process of Spark's to a cluster: a client on a thread, kept from task to task.

Spark uses its Python workers again, and a micro-batch that had to connect anew would wait for it.
"""

import os
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from tidelog.client import BadProperties, Client
from tidelog.client.loop_thread import LoopThread
from tidelog.spark.client_settings import ClientSettings
from tidelog.spark.failure import InvalidOption
from tidelog.spark.security_options import Security, invalid

Result = TypeVar("Result")


class Connection:
    """A client and the event loop it lives on."""

    __slots__ = ("_loop", "client", "made_by")

    def __init__(self, bootstrap: str, settings: ClientSettings, timeout_ms: int) -> None:
        self._loop = LoopThread()
        self.made_by = os.getpid()
        try:
            self.client = self._loop.run(_open(bootstrap, settings, timeout_ms))
        except BaseException:
            self._loop.close()
            raise

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._loop.run(work)

    def submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Begin it; whoever wants the result waits for it."""
        return self._loop.submit(work)

    def close(self) -> None:
        self._loop.run(self.client.close())
        self._loop.close()


async def _open(bootstrap: str, settings: ClientSettings, timeout_ms: int) -> Client:
    """Clients belong to the loop that they are made on."""
    try:
        return Client(
            bootstrap,
            client_id=settings.client_id,
            timeout_ms=timeout_ms,
            properties=settings.security.properties,
        )
    except BadProperties as error:  # fine on the driver, and a file is not there on an executor
        raise invalid(error) from None
    except ValueError as error:
        raise InvalidOption(
            f"the option kafka.bootstrap.servers is {bootstrap!r}: {error}",
            "give host:port, several of them with commas between",
        ) from None


_connections: dict[tuple[str, str, Security, int], Connection] = {}


def connect(bootstrap: str, settings: ClientSettings, timeout_ms: int) -> Connection:
    """The connection of this process to a cluster; nobody is asked yet."""
    key = (bootstrap, settings.client_id, settings.security, timeout_ms)
    known = _connections.get(key)
    if known is None or known.made_by != os.getpid():  # threads do not survive a fork
        known = _connections[key] = Connection(bootstrap, settings, timeout_ms)
    return known


def close_all() -> None:
    """For who ends in order; a worker of Spark's just ends."""
    while _connections:
        _, connection = _connections.popitem()
        if connection.made_by == os.getpid():
            connection.close()
