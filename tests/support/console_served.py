"""Consoles that serve from this process: without a cluster, or of one that is only asked."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from tidelog.console.app import build
from tidelog.console.lab_seeds import Seed, finished
from tidelog.console.place import Place
from tidelog.console.serving import Address, listen, url_of

GUARD_SECONDS = 60
HELD = {"story": [{"at_ms": 89, "text": "node 4 leads the metadata quorum, epoch 1"}]}
BROKEN = {"rule": "committed-is-kept", "at_ms": 3400, "text": "tides-0 lost offset 7"}
TOLD_SEEDS = (
    (Seed(7), finished(Seed(7), {**HELD, "failures": []})),
    (Seed(8), finished(Seed(8), {**HELD, "failures": [BROKEN]})),
)
"""Runs of the simulator take a while; how they are shown does not depend on that."""


@contextmanager
def served(place: Place) -> Iterator[str]:
    """The address of a console. It serves from a thread of this process."""
    listening = listen(Address("127.0.0.1", 0))
    app = build(place, loopback=True)
    config = uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
    thread.start()
    yield url_of(listening, None)
    server.should_exit = True
    thread.join(GUARD_SECONDS)
    assert not thread.is_alive(), "the console did not stop"
    listening.close()
