"""An S3 server of its own process: Versity's gateway over a directory, compiled by Go.

It refuses a conditional PUT whose object is there, also when many come at once, which is what
Delta needs. (`rclone serve s3` takes them all.) `make programs` compiles it into the cache of this
checkout.
"""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.go_programs import NotCompiled, compiled, published
from support.server_process import skip_or_fail, stop

PROGRAM = published("versitygw", "github.com/versity/versitygw/cmd/versitygw", "v1.8.0")
STARTS_WITHIN_S = 30.0

KEY_ID, SECRET = "test-key-of-nobody", "test-secret-that-nobody-may-see"
BUCKET = "lake"


class ObjectStore:
    """A server that runs, with one bucket."""

    scheme = "s3"

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.endpoint = f"http://127.0.0.1:{port}"

    @property
    def options(self) -> dict[str, str]:
        """As an environment, and as `--store-option`."""
        return {
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": self.endpoint,
        }

    def place(self, name: str) -> str:
        return f"s3://{BUCKET}/{name}"


@contextmanager
def running(directory: Path) -> Iterator[ObjectStore]:
    program = compiled(PROGRAM)
    (directory / "buckets" / BUCKET).mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = directory / "server.log"
    with log.open("wb") as said:
        server = subprocess.Popen(
            [program, "--port", f"127.0.0.1:{port}", "posix", str(directory / "buckets")],
            env={**os.environ, "ROOT_ACCESS_KEY": KEY_ID, "ROOT_SECRET_KEY": SECRET},
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for(server, port, log)
        yield ObjectStore(directory, port)
    finally:
        stop(server)


def _wait_for(server: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"the S3 server did not start: {log.read_text('utf-8', 'replace')[-500:]}")


@contextmanager
def running_or_skipped(directory: Path) -> Iterator[ObjectStore]:
    try:
        compiled(PROGRAM)
    except NotCompiled as missing:
        skip_or_fail(str(missing))
    with running(directory) as store:
        yield store
