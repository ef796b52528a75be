"""Several producers at once, each a process, and what they were told."""

import json
import os
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.audit.ledger import Ledger
from tidelog.bench.compare.system import SystemFailed
from tidelog.bench.verify.values import writer_of

TOPIC = "verify"
CLIENT = "tidelog.bench.verify.client"
WRITE_WITHIN_S = 600.0

Process = subprocess.Popen[str]


class Work(NamedTuple):
    producers: int = 4
    records: int = 100_000
    """Of each producer."""
    record_bytes: int = 1024
    partitions: int = 6
    durability: str = "page-cache"


def write_all(bootstrap_servers: str, work: Work, ledger: Ledger) -> list[str]:
    """What the producers were told is in the ledger; some of the reasons why records were refused
    are returned. SystemFailed when one of them did not end well."""
    with tempfile.TemporaryDirectory(prefix="tidelog-verify-") as directory:
        files = [Path(directory) / str(producer) for producer in range(work.producers)]
        jobs = [_job(bootstrap_servers, work, *each) for each in enumerate(files)]
        with _started(jobs) as processes:
            deadline = time.monotonic() + WRITE_WITHIN_S
            said = [_answer_of(process, deadline) for process in processes]
        for producer, file in enumerate(files):
            note(ledger, work, producer, array("q", file.read_bytes()))
    return [reason for each in said for reason in each["refused"]]


def note(ledger: Ledger, work: Work, producer: int, offsets: Sequence[int]) -> None:
    """Offsets are in the order of sending: one partition after the other, in turn."""
    for partition in range(work.partitions):
        writer = writer_of(producer, partition, work.partitions)
        told = offsets[partition :: work.partitions]
        ledger.next_numbers(writer, len(told))
        for number, offset in enumerate(told):
            if offset >= 0:
                ledger.acknowledge(writer, [number], partition, offset)


def _job(bootstrap_servers: str, work: Work, producer: int, file: Path) -> dict[str, Any]:
    settings = {"bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": True}
    return {
        **work._asdict(),
        "settings": settings,
        "topic": TOPIC,
        "producer": producer,
        "offsets_file": str(file),
    }


@contextmanager
def _started(jobs: Sequence[dict[str, Any]]) -> Iterator[list[Process]]:
    """All have their job when they are given; none is left, whatever happens inside."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    processes: list[Process] = []
    try:
        for job in jobs:
            process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", CLIENT],
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                text=True,
                env=environment,
            )
            processes.append(process)
            assert process.stdin is not None, "it was asked for"
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _answer_of(process: Process, deadline: float) -> dict[str, Any]:
    try:
        out, errors = process.communicate(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise SystemFailed(f"a producer is not done after {WRITE_WITHIN_S:g} s") from None
    if process.returncode:
        lines = errors.strip().splitlines() or [f"exit code {process.returncode}"]
        raise SystemFailed(f"a producer failed: {lines[-1]}")
    answer: dict[str, Any] = json.loads(out)
    return answer
