"""`tidelog up` starts a console, `tidelog down` stops it, and nothing depends on it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request

from support.console import WITHIN_S, eventually
from tidelog.cluster import state as states

UP = ("up", "--brokers", "1", "--port", "0", "--ephemeral")


def tidelog(here, *words):
    command = [sys.executable, "-m", "tidelog", *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        command, cwd=here, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def session_of(url):
    with urllib.request.urlopen(f"{url}/api/session", timeout=WITHIN_S) as answer:
        return json.load(answer)


def test_the_console_comes_and_goes_with_a_detached_cluster(tmp_path):
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        started = tidelog(tmp_path, *UP, "-d", "-o", "json", "--console-port", port)
    try:
        assert started.returncode == 0, started.stderr
        document = json.loads(started.stdout)
        assert not document["console"].endswith(f":{port}")
        assert session_of(document["console"])["cluster"] == "dev"
        process = states.load(tmp_path / ".tidelog/dev").console.process
    finally:
        stopped = tidelog(tmp_path, "down")
    assert stopped.returncode == 0, stopped.stderr
    assert not process.is_alive()


def test_a_console_of_a_cluster_in_the_foreground_dies_with_it(tmp_path):
    ready = tmp_path / "ready.json"
    words = [
        sys.executable,
        "-m",
        "tidelog",
        *UP,
        "--console-port",
        "0",
        "--ready-file",
        str(ready),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    running = subprocess.Popen(
        words,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        eventually(ready.exists)
        url = json.loads(ready.read_text())["console"]
        assert session_of(url)["mode"] == "live"
        process = states.load(tmp_path / ".tidelog/dev").console.process
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate(timeout=WITHIN_S)
    eventually(lambda: not process.is_alive())
