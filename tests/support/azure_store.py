"""Azurite, Microsoft's own emulator of its blob store, as a process; npm has it."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.server_process import skip_or_fail

VERSION = "3.37.0"
HOME = Path(__file__).parents[2] / ".cache" / f"azurite-{VERSION}"
PROGRAM = HOME / "node_modules" / ".bin" / "azurite-blob"
INSTALL_TIMEOUT_S = 300
STARTS_WITHIN_S = 60
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account of every Azurite, as its manual has it."""
CONTAINER = "lake"


def missing() -> str | None:
    """Why it cannot be run; None if it is there now."""
    if PROGRAM.exists():
        return None
    if shutil.which("npm") is None or shutil.which("node") is None:
        return "there is no npm to install Azurite with: install Node.js"
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(HOME)]
    done = subprocess.run(
        [*command, f"azurite@{VERSION}"],
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        check=False,
    )
    if done.returncode or not PROGRAM.exists():
        said = (done.stderr or done.stdout).strip().splitlines()
        return f"npm cannot install Azurite: {said[0] if said else '?'}"
    return None


@contextmanager
def running_or_skipped(directory: Path) -> Iterator[dict[str, str]]:
    """The options of a store with one container."""
    reason = missing()
    if reason is not None:
        skip_or_fail(reason)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(directory)]
    server = subprocess.Popen(
        ["node", PROGRAM, *given, "--silent", "--skipApiVersionCheck"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert server.poll() is None, "Azurite has ended"
                assert time.monotonic() < deadline, "Azurite does not listen"
                time.sleep(0.05)
        yield {
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}",
        }
    finally:
        server.kill()  # asked to end, it waits for connections that libraries keep
        server.wait(20)
