"""Sections of the comparison, our half of them, with next to nothing to measure."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.bench.compare.failover import average_gap_ms
from tidelog.bench.compare.recovery import recovery_s
from tidelog.bench.compare.start import first_produce_s
from tidelog.bench.compare.system import Running, Scale, SystemFailed
from tidelog.bench.compare.tidelog_side import TidelogSystem
from tidelog.bench.compare.warm_clusters import WarmClusters
from tidelog.bench.compare.writing import write_bytes

GUARD_S = 120
"""No story may hang for ever. Nothing is measured against it."""


def test_a_start_ends_with_the_first_record():
    assert first_produce_s(TidelogSystem(), 1, "first") > 0


def test_a_leader_is_killed_under_load_and_a_killed_node_is_in_sync_again():
    with TidelogSystem().start(3) as running:
        running.create_topic("killed", 2, config={"min.insync.replicas": "2"})
        write_bytes(running.bootstrap_servers, "killed", 2, total_bytes=100_000, record_bytes=1_000)
        assert recovery_s(running, running.leader("killed", 1)) > 0
        assert average_gap_ms(running, "killed", kills=1) > 0


def pids(running: Running) -> list[int]:
    return [running.pid(node_id) for node_id in running.node_ids]


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]


def test_a_warm_cluster_stands_still_between_rounds_and_a_broken_one_is_not_used_again():
    with WarmClusters(Scale.TINY) as warm:
        with warm.running(TidelogSystem()) as running:
            first = pids(running)
            running.create_topic("kept", 1)
        assert {state_of(pid) for pid in first} == {"T"}
        with warm.running(TidelogSystem()) as running:
            assert pids(running) == first
            write_bytes(running.bootstrap_servers, "kept", 1, total_bytes=1_000, record_bytes=100)
        with pytest.raises(SystemFailed), warm.running(TidelogSystem()):
            raise SystemFailed
        with warm.running(TidelogSystem()) as running:
            second = pids(running)
            assert not {*first} & {*second}
    assert not [pid for pid in (*first, *second) if Path(f"/proc/{pid}").exists()]


def test_a_curve_is_told_as_a_table_and_kept_as_values_and_picture(tmp_path):
    told = subprocess.run(
        [
            sys.executable, "-m", "tidelog", "bench", "growth", "--scale", "tiny",
            "--only", "connections", "--json", "growth.json", "--plots", "plots",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=GUARD_S,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert "connections to one node" in told.stdout
    (curve,) = json.loads((tmp_path / "growth.json").read_text("utf-8"))["curves"]
    assert [point["size"] for point in curve["points"]] == [1, 5]
    assert (tmp_path / "plots" / "growth-connections.png").exists()
