"""One server of this process for all its checkpoints, on this machine only."""

import secrets
import socket
import threading
import time
from typing import TYPE_CHECKING, Final

import uvicorn

from tidelog.spark.checkpoint_store.files import CheckpointFiles
from tidelog.spark.checkpoint_store.webhdfs import make_app
from tidelog.spark.failure import TidelogError

if TYPE_CHECKING:
    from tidelog.spark.tables.stores import Store

HOST: Final = "127.0.0.1"
IDLE_S: Final = 75
"""Longer than Java keeps an idle connection, so that no request meets one that just closes."""
STARTS_WITHIN_S: Final = 30.0


class CheckpointServer:
    """Lives as long as the process: Spark may look at a checkpoint until its last moment."""

    def __init__(self) -> None:
        self._checkpoints: dict[str, CheckpointFiles] = {}
        self._secrets: dict[Store, str] = {}
        listener = socket.create_server((HOST, 0))
        self._port: int = listener.getsockname()[1]
        config = uvicorn.Config(
            make_app(self._checkpoints),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_keep_alive=IDLE_S,
        )
        server = uvicorn.Server(config)
        threading.Thread(
            target=server.run, args=([listener],), name="tidelog-checkpoints", daemon=True
        ).start()
        deadline = time.monotonic() + STARTS_WITHIN_S
        while not server.started:
            if time.monotonic() > deadline:
                raise TidelogError("checkpoints are not served", "start again")
            time.sleep(0.01)

    def location(self, place: "Store") -> str:
        """What Spark calls a place. Nobody who has not been told can guess it."""
        secret = self._secrets.get(place)
        if secret is None:
            secret = secrets.token_urlsafe(24)
            self._checkpoints[secret] = CheckpointFiles(place)
            self._secrets[place] = secret
        return f"webhdfs://{HOST}:{self._port}/{secret}"


_server: CheckpointServer | None = None
_starting: Final = threading.Lock()


def location_of(place: "Store") -> str:
    """For `checkpointLocation`, as long as this process lives."""
    global _server  # noqa: PLW0603 - one per process
    with _starting:
        if _server is None:
            _server = CheckpointServer()
        return _server.location(place)
