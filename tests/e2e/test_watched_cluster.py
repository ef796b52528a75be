"""A real cluster, watched and cut through the HTTP ports of its nodes."""

import http.client
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import tidelog

WITHIN_S = 30


class Cluster:
    def __init__(self, directory):
        self._ready = directory / "ready.json"
        self._output = (directory / "output").open("wb")
        command = [
            sys.executable,
            "-m",
            "tidelog",
            "up",
            "--no-console",
            "--ephemeral",
            "--port",
            "0",
        ]
        self.process = subprocess.Popen(
            [*command, "--ready-file", str(self._ready)],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(Path(tidelog.__file__).parents[1].resolve())},
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        until(self._ready.exists)
        nodes = json.loads(self._ready.read_text())["nodes"]
        self._ports = {node["id"]: node["http_port"] for node in nodes}

    def ask(self, node, method, path, document=None):
        connection = http.client.HTTPConnection("127.0.0.1", self._ports[node], timeout=10)
        try:
            body = None if document is None else json.dumps(document)
            headers = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def state(self, node):
        return json.loads(self.ask(node, "GET", "/state")[1])

    def serves(self, node):
        return self.ask(node, "GET", "/healthz")[0] == 200

    def metric(self, node, name):
        for family in text_string_to_metric_families(self.ask(node, "GET", "/metrics")[1]):
            for sample in family.samples:
                if sample.name == name:
                    return sample.value
        raise AssertionError(f"no {name}")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(WITHIN_S)
        finally:
            self.process.kill()
            self.process.wait()
            self._output.close()


def until(condition):
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.stop()


def test_a_node_that_is_cut_off_says_so_is_fenced_and_comes_back(cluster):
    until(lambda: all(cluster.serves(node) for node in (1, 2, 3)))
    active = cluster.state(1)["quorum"]["leader_id"]
    alone = next(node for node in (1, 2, 3) if node != active)
    others = [node for node in (1, 2, 3) if node != alone]
    assert cluster.metric(active, "kafka_controller_kafkacontroller_activebrokercount") == 3

    assert cluster.ask(alone, "POST", "/chaos", {"blocked": others})[0] == 200
    for node in others:
        assert cluster.ask(node, "POST", "/chaos", {"blocked": [alone]})[0] == 200
    until(lambda: not cluster.serves(alone))
    until(lambda: cluster.metric(active, "kafka_controller_kafkacontroller_fencedbrokercount") == 1)
    assert all(cluster.serves(node) for node in others)

    for node in (1, 2, 3):
        assert cluster.ask(node, "DELETE", "/chaos")[0] == 200
    until(lambda: all(cluster.serves(node) for node in (1, 2, 3)))
    assert cluster.metric(active, "kafka_controller_kafkacontroller_fencedbrokercount") == 0
