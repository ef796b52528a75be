"""Our half of the comparison, on real clusters: it runs where there is no Kafka, and can fail."""

import json
import os
import subprocess
import sys

import pytest

from tidelog.bench.compare.librdkafka import Librdkafka
from tidelog.bench.compare.load_clients import ConsumeJob, ProduceJob
from tidelog.bench.compare.system import SystemFailed
from tidelog.bench.compare.tidelog_side import TidelogSystem

WITHIN_S = 120


def test_without_java_and_a_compiler_our_half_is_measured_alone_and_that_is_said(tmp_path):
    kept = tmp_path / "bench.json"
    words = ["bench", "compare", "--scale", "tiny", "--rounds", "1", "--json", str(kept)]
    words += ["--only", "librdkafka.acks-all.1KiB.6p.none$|read-back|small.1.acks-all|^tls"]
    done = subprocess.run(
        [sys.executable, "-m", "tidelog", *words, "--cache", str(tmp_path / "cache")],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "without Kafka, our half alone: there is no java" in done.stderr
    assert "without the rows of the limit: no C compiler" in done.stderr
    document = json.loads(kept.read_text("utf-8"))
    # A few records may cost less processor time than a tick of its clock: such a row is 0.
    found = {row["key"]: row["median"]["tidelog"] for row in document["rows"]}
    assert {key for key, value in found.items() if value > 0 or key.endswith(".cpu")} == {
        "produce.librdkafka.acks-all.1KiB.6p.none",
        "read-back.records",
        "small.1.acks-all",
        "tls.produce",
        "tls.produce.cpu",
        "tls.consume",
        "tls.consume.cpu",
    }
    assert all(row["ratio"] is None for row in document["rows"])
    assert [*document["systems"]] == ["tidelog"]


def test_reading_back_notices_values_that_were_not_written_and_records_too_many():
    client = Librdkafka()
    with TidelogSystem().start(nodes=1) as cluster:
        cluster.create_topic("kept", 2, replication_factor=1)
        servers = cluster.bootstrap_servers
        client.produce(ProduceJob(servers, "kept", 500, 100, {"acks": "all"}))
        job = ConsumeJob(servers, "kept", 2, 500)
        assert client.read_back(job, record_bytes=100) == 500
        with pytest.raises(SystemFailed, match="500 records were written, and others are read"):
            client.read_back(job, record_bytes=101)
        client.produce(ProduceJob(servers, "kept", 1, 100, {"acks": "all"}))
        with pytest.raises(SystemFailed, match=r"others are read|501 are there"):
            client.read_back(job, record_bytes=100)
