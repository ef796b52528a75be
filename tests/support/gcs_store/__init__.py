"""A server of Google's object store: fake-gcs-server with uploads of the XML API, compiled by Go.

It refuses a conditional upload whose object is there, also when many come at once. Objects are in
its memory. `main.go` says what stands in front of it, and why. It asks nobody for a login.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.go_programs import NotCompiled, compiled, ours
from support.server_process import announced, skip_or_fail

PROGRAM = ours("gcs-store", Path(__file__).parent)
BUCKET = "lake"


class GcsStore:
    """A server that runs, with one bucket."""

    scheme = "gs"

    def __init__(self, address: str) -> None:
        self.endpoint = f"http://{address}"

    @property
    def options(self) -> dict[str, str]:
        """As an environment, and as `--store-option`."""
        return {"STORAGE_EMULATOR_HOST": self.endpoint}

    def place(self, name: str) -> str:
        return f"gs://{BUCKET}/{name}"


@contextmanager
def running() -> Iterator[GcsStore]:
    with announced([compiled(PROGRAM), BUCKET]) as address:
        yield GcsStore(address)


@contextmanager
def running_or_skipped() -> Iterator[GcsStore]:
    try:
        compiled(PROGRAM)
    except NotCompiled as missing:
        skip_or_fail(str(missing))
    with running() as store:
        yield store
