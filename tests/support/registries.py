"""Registries as processes, and plain questions to them."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

WITHIN_SECONDS = 60
_URL = re.compile(r"http://\S+?(?=,)")


class Answer(NamedTuple):
    status: int
    document: Any
    content_type: str


class RunningRegistry:
    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def ask(self, method: str, path: str, body: Any = None, login: str = "") -> Answer:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        if login:
            request.add_header("Authorization", f"Basic {b64encode(login.encode()).decode()}")
        try:
            with urllib.request.urlopen(request, timeout=WITHIN_SECONDS) as answer:
                return _read(answer)
        except urllib.error.HTTPError as error:
            with error:
                return _read(error)

    def get(self, path: str) -> Any:
        return self.ask("GET", path).document

    def register(self, subject: str, schema: Any, kind: str = "AVRO") -> Answer:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind}
        return self.ask("POST", f"/subjects/{subject}/versions", body)

    def wait_ready(self) -> None:
        until = time.monotonic() + WITHIN_SECONDS
        while self.ask("GET", "/health").status != 200:
            assert time.monotonic() < until, self.ask("GET", "/health")
            time.sleep(0.02)

    def stop(self) -> str:
        """What it said since it told where it listens."""
        self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(timeout=WITHIN_SECONDS)
        assert self.process.returncode == 0, said
        return said


def _read(answer: Any) -> Answer:
    kind = answer.headers["Content-Type"]
    return Answer(answer.status, json.loads(answer.read() or b"null"), kind)


def start(bootstrap: str, *more: str) -> RunningRegistry:
    """It listens when this returns; whether it serves is another question."""
    command = [sys.executable, "-m", "tidelog", "registry", "start", "--port", "0"]
    process = subprocess.Popen(
        [*command, "-b", bootstrap, *more], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    line = process.stderr.readline()
    found = _URL.search(line)
    if found is None:
        process.kill()
        raise AssertionError(line + process.communicate()[1])
    return RunningRegistry(process, found.group())


@contextmanager
def running(bootstrap: str, *more: str) -> Iterator[RunningRegistry]:
    registry = start(bootstrap, *more)
    try:
        registry.wait_ready()
        yield registry
    finally:
        if registry.process.poll() is None:
            registry.process.kill()
        registry.process.communicate()
