"""Servers of other makers that tests run, each as a process of its own."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import pytest

ENDS_WITHIN_S = 20


def skip_or_fail(reason: str) -> NoReturn:
    """A server cannot be had here. In CI nothing may be skipped."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def announced(command: Sequence[object]) -> Iterator[str]:
    """Where a server listens, while it runs. Its first line says `address 127.0.0.1:4443`."""
    server = subprocess.Popen(
        [str(each) for each in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    try:
        words = server.stdout.readline().split()
        assert words[:1] == ["address"], f"{command[0]} said {words}, and no address"
        yield words[1]
    finally:
        stop(server)
        server.stdout.close()


def stop(server: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
