"""Every release of Spark that we promise, each in a virtual environment of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import confluent_kafka
import pytest

from support.sink_bench import committed
from support.tidy.source import ROOT

pytestmark = pytest.mark.long

RELEASES = ("4.0.2", "4.1.4", "4.2.1", "4.3.0")
JOB = Path(__file__).parent / "jobs/release_story.py"
COUNT = 3_000
GUARD_S = 600


@pytest.fixture(params=RELEASES)
def release(request):
    return request.param


@pytest.fixture
def python(release, tmp_path_factory):
    """An interpreter with this Spark and what a wheel of ours brings."""
    place = tmp_path_factory.mktemp(f"spark-{release}")
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    install = [place / "bin/pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, f"{ROOT}[spark]", f"pyspark=={release}"], check=True)
    return place / "bin/python"


def write(cluster, topic):
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(COUNT):
        producer.produce(topic, b"value %d" % number, key=b"key %d" % (number % 50))
    assert producer.flush(GUARD_S) == 0


def begin(python, *words):
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH"):
        environment.pop(name, None)  # the driver and its workers run what is installed
    return subprocess.Popen(
        [python, JOB, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def finished(job):
    printed, told = job.communicate(timeout=GUARD_S)
    assert job.returncode == 0, told[-3_000:]
    return json.loads(printed.splitlines()[-1])


def test_batch_stream_and_an_exactly_once_sink_whose_driver_is_killed(
    python, release, cluster, tmp_path
):
    source, target = (cluster.topic(f"{name}-{release}", 3) for name in ("in", "out"))
    write(cluster, source)
    story = (cluster.bootstrap_servers, source, target, tmp_path)

    found = finished(begin(python, "read", *story))
    assert found.pop("spark") == release
    assert found == dict.fromkeys(("batch", "batch_values", "stream", "stream_values"), COUNT)

    job = begin(python, "copy", *story)
    deadline = time.monotonic() + GUARD_S
    while not committed(cluster, target):
        assert job.poll() is None, job.communicate()[1][-3_000:]
        assert time.monotonic() < deadline, "nothing was written"
    os.killpg(job.pid, signal.SIGKILL)
    job.communicate()
    finished(begin(python, "copy", *story))
    assert committed(cluster, target) == sorted(b"value %d" % number for number in range(COUNT))
