"""The connector on a real Spark cluster: a driver, a master, two workers and their executors."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.spark_cluster import standalone
from tidelog.client import Client, Consumer, NewRecord, Producer

JOB = Path(__file__).parent / "jobs" / "orders_on_a_cluster.py"
RECORDS = 6_000
PARTITIONS = 4
JOB_WITHIN_SECONDS = 400


def orders() -> list[NewRecord]:
    return [
        NewRecord(
            json.dumps({"order": number, "amount": number % 97}).encode(),
            key=f"customer-{number % 7}".encode(),
        )
        for number in range(RECORDS)
    ]


def written(cluster, topic, records):
    async def write(client: Client) -> None:
        producer = Producer(client)
        for first in range(0, len(records), 500):
            await producer.write(topic, records[first : first + 500])

    cluster.ask(write)


def committed(cluster, topic):
    """Every record a reader may see."""

    async def read(client: Client) -> list[bytes]:
        partitions = (await client.topic(topic)).partitions
        consumer = Consumer(
            client, {(topic, each.partition): 0 for each in partitions}, committed=True
        )
        found: list[bytes] = []
        while True:
            answers = (await consumer.read()).values()
            found += [bytes(each.record.value) for every in answers for each in every.reads]
            if all(each.next_offset >= each.high_watermark for each in answers):
                return found

    return cluster.ask(read)


@pytest.mark.long
def test_a_job_runs_on_two_executors_and_survives_the_death_of_one(cluster, tmp_path):
    source, target = cluster.topic("standalone-in", PARTITIONS), cluster.topic("standalone-out", 2)
    records = orders()
    written(cluster, source, records)
    python_path = os.pathsep.join(filter(None, sys.path))
    arguments = [cluster.bootstrap_servers, source, target, str(tmp_path / "checkpoint")]
    with standalone(tmp_path, workers=2, python_path=python_path) as url:
        job = subprocess.run(
            [sys.executable, str(JOB), url, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=JOB_WITHIN_SECONDS,
            env={**os.environ, "PYTHONPATH": python_path, "PYSPARK_PYTHON": sys.executable},
        )
    assert job.returncode == 0, job.stderr[-4000:]
    found = json.loads(job.stdout.splitlines()[-1])
    expected = Counter[str]()
    for record in records:
        expected[(record.key or b"").decode()] += json.loads(record.value or b"")["amount"]
    assert found["sums"] == expected
    assert len(found["executors"]) == 2, "both executors have read"
    assert found["batches"] > 1
    assert sorted(committed(cluster, target)) == sorted(record.value for record in records)
