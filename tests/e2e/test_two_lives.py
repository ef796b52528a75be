"""One directory, two processes: the next life of a killed node, and a copy beside a living one."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys

import pytest

from tidelog.cluster import layout

GUARD_S = 60
TEN_MINUTES_MS = 600_000


def tidelog(*arguments):
    return [sys.executable, "-m", "tidelog", *map(str, arguments)]


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


class Lone:
    """A cluster of one node, whose sessions outlast every story."""

    def __init__(self, directory):
        self.directory = directory
        self.client, self.controller = layout.free_ports(2)
        self.file = self.write("server", data="data", client=self.client, own=self.controller)
        subprocess.run(
            tidelog("format", "--config", self.file), env=environment(), check=True, timeout=GUARD_S
        )

    def write(self, name, *, data, client, own):
        file = self.directory / f"{name}.properties"
        values = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{own}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller}",
            "log.dirs": str(self.directory / data),
            "broker.session.timeout.ms": TEN_MINUTES_MS,
            "ack.durability": "page-cache",
        }
        file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        return file

    @contextlib.contextmanager
    def running(self):
        """Until it serves; killed at the end."""
        process = subprocess.Popen(
            tidelog("node", "start", "--config", self.file),
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        with process:
            try:
                lines = iter(process.stderr.readline, "")
                assert any("node 1 is ready" in line for line in lines), "it ended instead"
                yield process
            finally:
                process.send_signal(signal.SIGKILL)


@pytest.fixture
def lone(tmp_path):
    return Lone(tmp_path)


def test_a_single_node_that_was_killed_does_not_wait_for_its_own_session(lone):
    with lone.running():
        pass
    with lone.running() as second:
        assert second.poll() is None


def test_a_copy_of_the_directory_of_a_running_node_is_refused_and_the_node_runs_on(lone):
    with lone.running() as first:
        shutil.copytree(lone.directory / "data", lone.directory / "copy")
        client, own = layout.free_ports(2)
        copy = lone.write("copy", data="copy", client=client, own=own)
        refused = subprocess.run(
            tidelog("node", "start", "--config", copy),
            capture_output=True,
            text=True,
            env=environment(),
            timeout=GUARD_S,
            check=False,
        )
        assert refused.returncode == 3, refused.stderr
        why, advice = refused.stderr.splitlines()[-2:]
        assert why.endswith(
            f"another process is running as controller 1 at 127.0.0.1:{lone.controller}"
        )
        assert "copied" in advice
        asked = subprocess.run(
            tidelog("cluster", "health", "-b", f"127.0.0.1:{lone.client}"),
            env=environment(),
            timeout=GUARD_S,
            check=False,
        )
        assert asked.returncode == 0
        assert first.poll() is None
