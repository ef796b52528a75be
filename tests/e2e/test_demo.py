"""`tidelog demo --without-spark` needs no Java, ends by itself and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time

from tidelog.audit.failover import Killed, Report, Returned
from tidelog.audit.ledger import Verdict
from tidelog.cli.demo.failover import exit_code
from tidelog.cluster.process_ids import ProcessId

GUARD_S = 120


def start(tmp_path, *arguments):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "TMPDIR": str(tmp_path),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tidelog", "demo", "--without-spark", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_a_killed_leader_costs_nothing_that_was_acknowledged(tmp_path):
    with start(tmp_path, "--records", "1500", "--seeds", "2", "--jobs", "1", "-o", "json") as demo:
        stdout, stderr = demo.communicate(timeout=GUARD_S)
    assert demo.returncode == 0, stdout + stderr
    document = json.loads(stdout)
    assert document["ok"] is True
    records = document["records"]
    assert records["acknowledged"] >= 1500
    assert records["read_back"] >= records["acknowledged"]
    for wrong in ("lost", "duplicated", "out_of_order", "misplaced", "never_sent"):
        assert records[wrong] == 0, document
    assert document["replicas"]["differences"] == []
    assert document["replicas"]["compared_bytes"] > 0
    assert document["killed"]["election_ms"] > 0
    assert document["killed"]["node"] in (1, 2, 3)
    assert document["returned"]["in_sync_ms"] >= document["returned"]["serving_ms"] > 0
    assert all(size > 0 for size in document["rss_bytes"].values())
    assert sorted(document["rss_bytes"]) == ["1", "2", "3"]
    assert document["simulated"] == {"seeds": 2, "violations": 0}
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_is_told_to_stop_takes_its_cluster_with_it(tmp_path):
    with start(tmp_path, "--records", "100000000", "--seeds", "0") as demo:
        told = demo.stdout.readline()
        (directory,) = tmp_path.iterdir()
        state = json.loads((directory / "cluster.json").read_text())
        nodes = [ProcessId.of(node["pid"]) for node in state["nodes"]]
        demo.send_signal(signal.SIGTERM)
        _, stderr = demo.communicate(timeout=GUARD_S)
    assert "3 processes, ready in" in told
    assert demo.returncode == 130, stderr
    assert stderr.strip().splitlines()[-1] == "interrupted"
    deadline = time.monotonic() + GUARD_S
    while any(node.is_alive() for node in nodes):
        assert time.monotonic() < deadline, "nodes are left"
        time.sleep(0.02)
    assert list(tmp_path.iterdir()) == []


def test_a_lost_record_is_exit_code_5():
    def report(**wrong):
        fields = dict.fromkeys(Verdict._fields, 0) | wrong
        killed, returned = Killed(1, False, 0, 1.0, 1.0), Returned(1.0, 1.0, 0)
        return Report(1.0, killed, returned, Verdict(**fields), [], 1.0, 1.0, {}, [])

    assert exit_code(report(), None) == 0
    for what in ("lost", "duplicated", "out_of_order", "misplaced", "never_sent"):
        assert exit_code(report(**{what: 1}), None) == 5
