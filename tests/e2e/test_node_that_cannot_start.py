"""A node that must not run says why and what to do, ends with exit code 3, and touches nothing."""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.cluster import layout
from tidelog.host.directory_lock import DirectoryLock

GUARD_S = 60


def tidelog(*arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-m", "tidelog", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=GUARD_S,
        check=False,
    )


class OneNode:
    """A configuration of a node alone, and what is said when it is used."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "server.properties"
        self.data = directory / "data"
        self.other = directory / "other"
        self.values = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "advertised.listeners": "PLAINTEXT://127.0.0.1:19092",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@127.0.0.1:19093",
            "log.dirs": str(self.data),
        }

    def write(self, **changes: object) -> Path:
        values = {**self.values, **{key.replace("_", "."): each for key, each in changes.items()}}
        self.file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        return self.file

    def format(self, *arguments: object) -> str:
        done = tidelog("format", "--config", self.file, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refusal(self) -> str:
        ended = tidelog("node", "start", "--config", self.file)
        assert ended.returncode == 3, ended.stderr
        assert "Traceback" not in ended.stderr
        assert ended.stdout == ""
        lines = ended.stderr.splitlines()[-3:]
        assert lines[0] == "error: node start: node 1 cannot start"
        assert [line[:7] for line in lines[1:]] == ["  why: ", "  try: "]
        return "\n".join(lines[1:])


@pytest.fixture
def node(tmp_path):
    made = OneNode(tmp_path)
    made.write()
    return made


def test_a_missing_directory_is_to_be_formatted(node):
    said = node.refusal()
    assert f"why: {node.data} does not exist" in said
    assert f"try: tidelog format --config {node.file}" in said
    assert not node.data.exists()


def test_an_unformatted_directory_is_to_be_formatted(node):
    node.data.mkdir()
    said = node.refusal()
    assert f"why: {node.data} is not formatted" in said
    assert f"try: tidelog format --config {node.file}" in said
    assert list(node.data.iterdir()) == []


def test_a_port_in_use_is_named(node):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        node.write(listeners=f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0")
        node.format()
        said = node.refusal()
    assert f"cannot listen on PLAINTEXT://127.0.0.1:{port}: address already in use" in said
    assert "try: another address in listeners" in said


def test_an_http_port_in_use_is_named(node):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        node.write(tidelog_http_listener=address)
        node.format()
        said = node.refusal()
    assert f"cannot listen on {address}: address already in use" in said
    assert "tidelog.http.listener" in said


def test_directories_of_two_clusters_are_refused(node):
    node.format("--cluster-id", "ours")
    node.write(log_dirs=node.other)
    node.format("--cluster-id", "theirs")
    node.write(log_dirs=f"{node.data},{node.other}")
    said = node.refusal()
    assert f"{node.other}: meta.properties belongs to cluster theirs, this is ours" in said


def test_the_directory_of_another_node_is_refused(node):
    node.write(node_id=2, controller_quorum_voters="2@127.0.0.1:19093")
    node.format("--cluster-id", "ours")
    node.write()
    assert "belongs to node 2, this is node 1" in node.refusal()


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 90, b'{"data_version":1,"leaderEpoch":"x"}'],
    ids=["empty", "zeros", "no number"],
)
def test_a_vote_that_cannot_be_read_is_named_with_the_way_out(node, content):
    node.format()
    state = node.data / "__cluster_metadata-0" / "quorum-state"
    state.parent.mkdir(exist_ok=True)
    state.write_bytes(content)
    said = node.refusal()
    assert f"why: {node.data}: __cluster_metadata-0/quorum-state, " in said
    assert "might vote twice" in said
    assert "move that file away and start again" in said
    assert state.read_bytes() == content


def test_a_directory_in_use_is_left_alone(node):
    node.format()
    lock = DirectoryLock(node.data)
    assert lock.acquire()
    try:
        before = sorted(path.name for path in node.data.iterdir())
        said = node.refusal()
        assert sorted(path.name for path in node.data.iterdir()) == before
    finally:
        lock.release()
    assert f"another process uses {node.data}" in said
    assert "stop that node first" in said


def test_the_directory_of_the_metadata_log_is_locked_too(node):
    node.write(metadata_log_dir=node.other)
    node.format()
    lock = DirectoryLock(node.other)
    assert lock.acquire()
    try:
        assert f"another process uses {node.other}" in node.refusal()
    finally:
        lock.release()


def test_a_meta_file_that_is_no_meta_file_is_shown(node):
    node.data.mkdir()
    (node.data / "meta.properties").write_bytes(b"version=7\n")
    assert f"why: {node.data}: meta.properties, version: '7', only 1 is known" in node.refusal()


def test_a_cluster_that_does_not_come_up_says_what_its_node_said(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        started = tidelog(
            "up", "--no-console", "--brokers", "1", "--port", "0", "--data-dir", tmp_path,
            "-X", f"tidelog.http.listener={address}",
        )  # fmt: skip
    assert started.returncode == 3, started.stderr
    assert f"\n  why: cannot listen on {address}: address already in use\n" in started.stderr


def test_nodes_of_two_clusters_say_so(tmp_path):
    one, two = OneNode(tmp_path / "one"), OneNode(tmp_path / "two")
    ports = layout.free_ports(2)
    voters = f"1@127.0.0.1:{ports[0]},2@127.0.0.1:{ports[1]}"
    for number, node in enumerate((one, two), 1):
        node.file.parent.mkdir()
        node.write(
            process_roles="controller",
            node_id=number,
            listeners=f"CONTROLLER://127.0.0.1:{ports[number - 1]}",
            advertised_listeners="",
            controller_quorum_voters=voters,
        )
        node.format("--cluster-id", f"cluster-{number}")
    with started(one) as first, started(two):
        lines = iter(first.stderr.readline, "")
        said = next(line for line in lines if "another cluster" in line)
    assert "node 2 belongs to another cluster, we to cluster-1" in said


@contextlib.contextmanager
def started(node):
    command = [sys.executable, "-m", "tidelog", "node", "start", "--config", str(node.file)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()
