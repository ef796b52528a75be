"""A registry as a process: a client of the cluster and an HTTP server on one event loop.

HTTP answers from the first moment on, with 503 until the topic was read. A cluster that cannot be
reached is asked again for as long as the process lives.
"""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

import uvicorn

from tidelog.client import BadProperties, Client, ClientError, NotTrusted
from tidelog.host import tasks
from tidelog.registry import errors
from tidelog.registry.app import make_app
from tidelog.registry.service import Registry
from tidelog.registry.topic import SchemaTopic, WrongTopic
from tidelog.registry.users import Users

AGAIN_AFTER_MS: Final = 1_000
STOP_WITHIN_S: Final = 5

Say = Callable[[str], None]
"""A line of the journal."""


class RegistryConfig(NamedTuple):
    bootstrap: str
    properties: Mapping[str, str]
    topic: str
    replicas: int
    timeout_ms: int
    users: Users | None = None
    """None: nobody needs a login."""

    def __repr__(self) -> str:
        """Passwords never reach a log or a traceback."""
        return f"RegistryConfig({self.bootstrap}, {self.topic})"


class Server(uvicorn.Server):
    """Told to end by whoever runs it, and not by taking the signals of the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class RegistryProcess:
    """The way from nothing to a registry that serves, and back."""

    def __init__(self, config: RegistryConfig, say: Say) -> None:
        self._config = config
        self._say = say
        self._registry: Registry | None = None
        self._trouble: str | None = "it has just begun"

    async def run(self, listener: socket.socket) -> None:
        """Until SIGINT or SIGTERM."""
        app = make_app(self._ready, self._config.users)
        server = Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=STOP_WITHIN_S,
            )
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, setattr, server, "should_exit", True)
        config = self._config
        async with Client(
            config.bootstrap, timeout_ms=config.timeout_ms, properties=config.properties
        ) as client:
            following = tasks.begin(self._follow(client))
            serving = tasks.begin(server.serve(sockets=[listener]))
            done, _ = await asyncio.wait((following, serving), return_when=asyncio.FIRST_COMPLETED)
            server.should_exit = True
            await serving
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            self._say("ended")
            if following in done:
                following.result()

    def _ready(self) -> Registry:
        if self._registry is None:
            raise errors.not_ready(self._trouble or "it is being read")
        return self._registry

    async def _follow(self, client: Client) -> None:
        """What cannot get better by waiting ends the process: WrongTopic, NotTrusted."""
        config = self._config
        topic = SchemaTopic(client, config.topic, replicas=config.replicas)
        while True:
            try:
                await topic.open()
                break
            except (NotTrusted, BadProperties):
                raise
            except ClientError as error:
                self._troubled(error)
                await tasks.pause(AGAIN_AFTER_MS)
        self._registry = Registry(topic)
        image = topic.image
        self._trouble = None
        skipped = f", {image.skipped} records of no kind that is known" if image.skipped else ""
        self._say(f"{topic.name} is read: {len(image.subjects())} subjects{skipped}; serving")
        await topic.follow(self._troubled)

    def _troubled(self, error: ClientError | None) -> None:
        """Told once when it begins and once when it is over."""
        trouble = None if error is None else str(error)
        if trouble is not None and self._trouble != trouble:
            self._say(f"{trouble}; asking again")
        if trouble is None and self._trouble is not None:
            self._say("the cluster answers again")
        self._trouble = trouble


def listening(host: str, port: int) -> socket.socket:
    """OSError if somebody else is there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()  # whoever comes from now on is answered as soon as there is a loop
    except OSError:
        listener.close()
        raise
    return listener


__all__ = ["RegistryConfig", "RegistryProcess", "WrongTopic", "listening"]
