"""Clusters of real processes: they serve, survive a crash, and leave nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidelog.cluster.process_ids import ProcessId
from tidelog.testing import Cluster

GUARD_S = 30
"""No story may hang for ever. Nothing is measured against it."""


def tidelog(*arguments, **extra):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-m", "tidelog", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * GUARD_S,
        env=environment,
        **extra,
    )


def wait_until(condition):
    deadline = time.monotonic() + GUARD_S
    while not condition():
        assert time.monotonic() < deadline, "still not so"
        time.sleep(0.02)


def test_a_crashed_leader_is_replaced_and_nothing_acknowledged_is_lost():
    with Cluster(brokers=3) as cluster:
        topic = cluster.topic("orders", partitions=1, replication_factor=3)
        before = cluster.partition(topic, 0)
        written = tidelog(
            "produce", topic, "--count", "50", "--value", "{}", "-b", cluster.bootstrap_servers
        )
        assert written.stdout == "50 records written · orders-0 [0, 50)\n", written.stderr
        cluster.kill(before.leader)
        cluster.wait(lambda: cluster.partition(topic, 0).leader not in (None, before.leader))
        assert cluster.partition(topic, 0).leader_epoch > before.leader_epoch
        read = tidelog(
            "consume", topic, "--from", "start", "-n", "50", "--idle", "20s",
            "-b", cluster.bootstrap_servers,
        )  # fmt: skip
        assert read.stdout.split() == [str(number) for number in range(1, 51)], read.stderr


def test_a_failing_test_is_told_what_the_nodes_said():
    seen = []

    def fails():
        with Cluster(brokers=1) as cluster:
            seen.extend([ProcessId.of(cluster.pid(1)), cluster.data_dir(1)])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        fails()
    assert "--- node 1, running" in caught.value.__notes__[-1]
    process, directory = seen
    assert not process.is_alive()
    assert not directory.exists()


KILLED_WITH_NODES = """
import sys, time
from tidelog.testing import Cluster
with Cluster(brokers=3) as cluster:
    cluster.pause(2)
    print(*(cluster.pid(node) for node in cluster.brokers), flush=True)
    time.sleep(600)
"""


def test_nodes_end_with_a_test_process_that_is_killed_even_paused_ones():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", KILLED_WITH_NODES]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        nodes = [ProcessId.of(int(pid)) for pid in parent.stdout.readline().split()]
        assert len(nodes) == 3
        parent.send_signal(signal.SIGKILL)
    try:
        wait_until(lambda: not any(node.is_alive() for node in nodes))
    finally:
        for node in nodes:
            node.send(signal.SIGKILL)


def test_a_detached_cluster_is_there_until_it_is_taken_down(tmp_path):
    ready = tmp_path / "ready.json"
    started = tidelog(
        "up",
        "--no-console",
        "--brokers",
        "1",
        "--detach",
        "--port",
        "0",
        "--ready-file",
        str(ready),
        cwd=tmp_path,
    )
    assert started.returncode == 0, started.stderr
    try:
        document = json.loads(ready.read_text())
        node = ProcessId.of(document["nodes"][0]["pid"])
        assert "dev is ready in" in started.stdout
        assert tidelog("topic", "create", "orders", cwd=tmp_path).returncode == 0
        second = tidelog("up", "--no-console", "--brokers", "1", cwd=tmp_path)
        assert (second.returncode, "dev runs already" in second.stderr) == (1, True)
    finally:
        stopped = tidelog("down", "--delete-data", cwd=tmp_path)
    assert stopped.stdout.startswith("dev: 1 node stopped\n")
    assert not node.is_alive()
    assert not Path(tmp_path / ".tidelog" / "dev").exists()


def test_every_node_of_a_cluster_that_is_taken_down_stops_in_order(tmp_path):
    """The last one too, which has nobody left to hand its partitions to."""
    started = tidelog(
        "up", "--no-console", "--brokers", "3", "--detach", "--port", "0", cwd=tmp_path
    )
    try:
        assert started.returncode == 0, started.stderr
        assert tidelog("topic", "create", "orders", cwd=tmp_path).returncode == 0
    finally:
        stopped = tidelog("down", "--output", "json", cwd=tmp_path)
    assert json.loads(stopped.stdout)["killed"] == []
    for log in tmp_path.glob(".tidelog/dev/node-*/node.log"):
        assert "stopped in order" in log.read_text()


def test_a_node_that_cannot_start_shows_its_own_words(tmp_path):
    started = tidelog(
        "up",
        "--no-console",
        "--brokers",
        "1",
        "--port",
        "0",
        "-X",
        "num.partitions=none",
        cwd=tmp_path,
    )
    assert started.returncode == 3
    assert "node 1 │ error:" in started.stderr
    assert "num.partitions=none" in started.stderr
    assert "up: node 1 ended with exit code 2" in started.stderr
