"""A console as a process of its own, asked over real sockets."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from urllib.parse import urlsplit

WITHIN_S = 60


class Stream:
    """Server-sent events of one connection."""

    def __init__(self, connection, answer):
        self._connection, self._answer = connection, answer
        self.status = answer.status
        self.last_id = None

    def __iter__(self):
        event, data = "message", None
        while line := self._answer.readline():
            text = line.decode().rstrip("\n")
            if text.startswith("id: "):
                self.last_id = text[4:]
            elif text.startswith("event: "):
                event = text[7:]
            elif text.startswith("data: "):
                data = json.loads(text[6:])
            elif not text and data is not None:
                yield event, data
                event, data = "message", None

    def until(self, matches):
        """The first message that fits; others are passed over."""
        deadline = time.monotonic() + WITHIN_S
        for event, data in self:
            found = matches(event, data)
            if found:
                return found
            assert time.monotonic() < deadline, "nothing of the kind was told"
        raise AssertionError("the stream ended")

    def close(self):
        self._connection.close()


class ConsoleProcess:
    """`tidelog console` with these arguments. Ends with the block."""

    def __init__(self, *arguments, cwd=None):
        self._arguments = arguments
        self._cwd = cwd
        self.cookie = None
        self.csrf = ""

    def __enter__(self):
        command = [sys.executable, "-m", "tidelog", "console", "--port", "0", *self._arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._cwd,
            env=environment,
        )
        line = self._process.stdout.readline()
        found = re.search(r"http://\S+", line)
        if found is None:
            rest = self._process.stdout.read()
            self._process.wait()
            raise AssertionError(f"no console: {line}{rest}")
        self.url = found.group()
        self.csrf = self.get("/api/session")[1].get("csrf", "") if "token" not in self.url else ""
        return self

    def __exit__(self, *_):
        self._process.send_signal(signal.SIGTERM)
        try:
            self.output = self._process.communicate(timeout=WITHIN_S)[0]
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise
        assert self._process.returncode in (0, -signal.SIGTERM), self.output
        assert "Traceback" not in self.output, self.output

    def connect(self):
        parts = urlsplit(self.url)
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=WITHIN_S)

    def ask(self, method, path, body=None, **headers):
        """(status, document, headers)"""
        connection = self.connect()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            named.setdefault("Cookie", self.cookie)
        if method != "GET":
            named.setdefault("Content-Type", "application/json")
            named.setdefault("X-Tidelog-Csrf", self.csrf)
        with contextlib.closing(connection):
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, named)
            answer = connection.getresponse()
            text = answer.read()
            kind = answer.headers.get("content-type", "")
            document = json.loads(text) if kind == "application/json" else text.decode()
            return answer.status, document, answer.headers

    def get(self, path, **headers):
        return self.ask("GET", path, **headers)[:2]

    def ok(self, path):
        status, document = self.get(path)
        assert status == 200, (path, status, document)
        return document

    def post(self, path, body, **headers):
        return self.ask("POST", path, body, **headers)[:2]

    def delete(self, path):
        return self.ask("DELETE", path)[:2]

    @contextlib.contextmanager
    def stream(self, path, **headers):
        connection = self.connect()
        if self.cookie:
            headers["Cookie"] = self.cookie
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", path, headers=named)
        stream = Stream(connection, connection.getresponse())
        try:
            yield stream
        finally:
            stream.close()

    def log_in(self, user, password):
        body = {"user": user, "password": password}
        status, document, headers = self.ask("POST", "/api/login", body)
        if status == 200:
            self.cookie = headers["set-cookie"].partition(";")[0]
            self.csrf = document["csrf"]
        return status, document, headers


def eventually(look):
    """The first true answer."""
    deadline = time.monotonic() + WITHIN_S
    while not (found := look()):
        assert time.monotonic() < deadline, "it never came to be so"
        time.sleep(0.05)
    return found
