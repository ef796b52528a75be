"""What the documents tell people to do, done: three nodes by hand, and a test of their own."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.plugin_options import plugin_options
from tidelog.cluster import layout
from tidelog.testing import Cluster

DOCS = Path(__file__).parents[2] / "docs"
GUARD_S = 90
NODES = (1, 2, 3)
UNCACHED = ("-p", "no:cacheprovider")


def tidelog(*arguments, **extra):
    return subprocess.run(
        [sys.executable, "-m", "tidelog", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=GUARD_S,
        check=False,
        **extra,
    )


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def documented_properties(name):
    """The first properties file of a document."""
    text = (DOCS / name).read_text("utf-8")
    block = re.search(r"^```properties\n(.*?)^```", text, re.MULTILINE | re.DOTALL).group(1)
    return dict(line.split("=", 1) for line in block.splitlines())


class ByHand:
    """The documented file three times, with hosts, ports and directories of this machine."""

    def __init__(self, directory):
        self.directory = directory
        ports = layout.free_ports(9)
        self.client, self.controller, self.http = (
            dict(zip(NODES, ports[at : at + 3], strict=True)) for at in (0, 3, 6)
        )
        self.processes = {}
        voters = ",".join(f"{each}@127.0.0.1:{self.controller[each]}" for each in NODES)
        for each in NODES:
            values = documented_properties("operations.md") | {
                "node.id": each,
                "listeners": f"PLAINTEXT://127.0.0.1:{self.client[each]},"
                f"CONTROLLER://127.0.0.1:{self.controller[each]}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.client[each]}",
                "controller.quorum.voters": voters,
                "log.dirs": directory / f"data-{each}",
                "tidelog.http.listener": f"127.0.0.1:{self.http[each]}",
            }
            text = "".join(f"{key}={value}\n" for key, value in values.items())
            self.file(each).write_text(text)

    def file(self, node):
        return self.directory / f"node-{node}.properties"

    @property
    def bootstrap(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.client.values())

    def start(self, node):
        command = [sys.executable, "-m", "tidelog", "node", "start", "--config", self.file(node)]
        with (self.directory / f"node-{node}.log").open("ab") as log:
            process = subprocess.Popen(command, stderr=log, env=environment())
        self.processes[node] = process

    def get(self, node, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http[node]}{path}") as answer:
            return answer.read().decode()

    def healthy(self):
        waited = tidelog("cluster", "health", "--wait", "--timeout", "60s", "-b", self.bootstrap)
        return waited.returncode == 0, waited.stdout + waited.stderr

    def end(self):
        for process in self.processes.values():
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    made = ByHand(tmp_path_factory.mktemp("by-hand"))
    for node in NODES:
        assert tidelog("config", "check", made.file(node)).returncode == 0
        done = tidelog("format", "--config", made.file(node), "--cluster-id", "orders-prod")
        assert done.returncode == 0, done.stderr
    with contextlib.ExitStack() as held:
        held.callback(made.end)
        for node in NODES:
            made.start(node)
        sound, said = made.healthy()
        assert sound, said
        yield made


def test_the_table_of_metrics_is_what_a_node_says(nodes):
    families = list(text_string_to_metric_families(nodes.get(1, "/metrics")))
    rows = [f"| `{each.name}` | {each.type} | {each.documentation} |" for each in families]
    text = (DOCS / "operations.md").read_text("utf-8")
    section = text.partition("### Metrics")[2].partition("\n## ")[0]
    written = re.findall(r"^\| `.*$", section, re.MULTILINE)
    assert written == rows, "put this into docs/operations.md:\n" + "\n".join(rows)


def test_three_nodes_by_hand_survive_a_crash_and_stop_in_order(nodes):
    at = ("-b", nodes.bootstrap)
    assert json.loads(nodes.get(1, "/healthz"))["serves"] is True
    created = tidelog("topic", "create", "orders", "-p", "3", *at)
    assert created.stdout == "orders created: 3 partitions, replication factor 3\n", created.stderr
    lines = "".join(f"{number}\n" for number in range(1000))
    written = tidelog("produce", "orders", *at, input=lines)
    assert written.stdout.startswith("1,000 records written"), written.stderr
    nodes.processes[1].kill()
    nodes.processes[1].wait()
    read = tidelog("consume", "orders", "--from", "start", "-n", "1000", "--idle", "20s", *at)
    assert sorted(map(int, read.stdout.split())) == list(range(1000)), read.stderr
    nodes.start(1)
    sound, said = nodes.healthy()
    assert sound, said
    for node in NODES:
        nodes.processes[node].send_signal(signal.SIGTERM)
    assert [nodes.processes[each].wait(GUARD_S) for each in NODES] == [0, 0, 0]
    for node in NODES:
        assert "stopped in order" in (nodes.directory / f"node-{node}.log").read_text()


def test_the_readme_shows_the_same_file():
    readme = (DOCS.parent / "README.md").read_text("utf-8")
    block = re.search(r"^```properties\n(.*?)^```", readme, re.MULTILINE | re.DOTALL).group(1)
    assert dict(line.split("=", 1) for line in block.splitlines()) == documented_properties(
        "operations.md"
    )


def test_the_tests_that_the_documents_show_pass(tmp_path):
    text = (DOCS / "testing-api.md").read_text("utf-8")
    shown = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(shown) == 2, "with any client, and on virtual time"
    for number, tests in enumerate(shown):
        (tmp_path / f"test_shown_{number}.py").write_text(tests)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin_options(), *UNCACHED, str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=tmp_path,
        timeout=GUARD_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def test_the_clients_of_the_readme_read_what_they_write():
    readme = (DOCS.parent / "README.md").read_text("utf-8")
    shown = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    shown = [each for each in shown if "pyspark" not in each]  # see test_documented_spark.py
    assert len(shown) == 2, "confluent-kafka and kafka-python"
    with Cluster(brokers=1) as cluster:
        cluster.topic("orders", partitions=1)
        for program in shown:
            ran = subprocess.run(
                [
                    sys.executable,
                    "-c",
                    program.replace("localhost:9092", cluster.bootstrap_servers),
                ],
                capture_output=True,
                text=True,
                timeout=GUARD_S,
                check=False,
            )
            assert ran.stdout == "b'hello'\n", ran.stderr
