"""A real Spark cluster for one test: a master and workers, each a process of its own."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
START_WITHIN_SECONDS = 120
STOP_WITHIN_SECONDS = 10
POLL_SECONDS = 0.05
ADDRESS = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = re.compile(r"Successfully registered with master")


@contextmanager
def standalone(directory: Path, *, workers: int, python_path: str) -> Iterator[str]:
    """The URL of a cluster whose workers have one core and room for one executor each."""
    with ExitStack() as processes:
        chief = directory / "chief.log"
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        started = _start("master.Master", arguments, chief, python_path)
        processes.enter_context(_ended(started))
        url = _wait_for(ADDRESS, chief, started)[1]
        logs = []
        for number in range(workers):
            log = directory / f"worker-{number}.log"
            room = ["-c", "1", "-m", "1G", "-d", str(directory / f"worker-{number}"), url]
            started = _start("worker.Worker", [*arguments, *room], log, python_path)
            processes.enter_context(_ended(started))
            logs.append((log, started))
        for log, started in logs:
            _wait_for(REGISTERED, log, started)
        yield url


def _start(
    kind: str, arguments: list[str], log: Path, python_path: str
) -> "subprocess.Popen[bytes]":
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"{QUICK_START} -Dspark.master.rest.enabled=false",
        "PYTHONPATH": python_path,
    }
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
    with log.open("wb") as output:
        return subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # executors are children of workers, and end with them
        )


@contextmanager
def _ended(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                break
            try:
                process.wait(STOP_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                continue
        process.wait()


def _wait_for(
    pattern: re.Pattern[str], log: Path, process: "subprocess.Popen[bytes]"
) -> re.Match[str]:
    deadline = time.monotonic() + START_WITHIN_SECONDS
    while True:
        text = log.read_text("utf-8", "replace")
        found = pattern.search(text)
        if found is not None:
            return found
        assert process.poll() is None, f"{log.name} ended: {text[-2000:]}"
        assert time.monotonic() < deadline, f"{log.name} still: {text[-2000:]}"
        time.sleep(POLL_SECONDS)
