"""Does a stream start where thirty other processes want the processor too?

Sessions are opened first. Then busy processes are started until the load is what was asked for,
and a stream is started again and again, in turns: with the stock connector, with
`format("tidelog")` as our sessions run it, and with it on a plain interpreter as Spark runs it by
itself. Told are the seconds until its first micro-batch is done, and how often it did not start.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.client.producer import NewRecord, Producer
from tidelog.testing import Cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support import stock_connector

TOPIC = "starved"
RECORDS = 100
START_WITHIN_S = 240
SETTLE_WITHIN_S = 60
BUSY = "import os\nwhile os.getppid() == {parent}: pass"
"""Never longer than who started it."""
STOCK, OURS, PLAIN = "kafka", "tidelog", "tidelog, plain python"
JOB = "--job"


class Started(NamedTuple):
    """One attempt to start a stream."""

    side: str
    seconds: float
    failure: str | None
    load: float


# ---- a driver, in a process of its own ----


def job(connector: str, servers: str, *, plain: bool) -> None:
    """Starts a stream once by itself, and once more for every line that comes in. Each gives a line
    of JSON."""
    if plain:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    from tidelog.spark.session import open_session  # noqa: PLC0415 - after the environment

    jars = ",".join(map(str, stock_connector.jars()))
    spark = open_session("starved", conf={"spark.jars": jars, "spark.driver.memory": "1g"})
    spark.sparkContext.setLogLevel("OFF")
    reader = spark.readStream.format(connector).options(
        **{"kafka.bootstrap.servers": servers, "subscribe": TOPIC, "startingOffsets": "earliest"}
    )
    for _ in itertools.chain([""], sys.stdin):
        begin = time.monotonic()
        failure = _started(reader)
        print(json.dumps([time.monotonic() - begin, failure]), flush=True)
    spark.stop()


def _started(reader: Any) -> str | None:
    """None once the first micro-batch is done; else why there is none."""
    with tempfile.TemporaryDirectory() as checkpoint:
        try:
            query = (
                reader.load()
                .writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            done = query.awaitTermination(START_WITHIN_S)
            query.stop()
        except Exception as error:  # the border of an attempt: it is counted
            causes = [line for line in str(error).splitlines() if "connect back" in line]
            return (causes or str(error).splitlines())[0].strip()[:200]
        return None if done else f"not started within {START_WITHIN_S} s"


# ---- the load ----


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """At the priority of everybody else, on purpose."""
    command = [sys.executable, "-c", BUSY.format(parent=os.getpid())]
    running = [
        subprocess.Popen(command)  # noqa: S603 - our own interpreter
        for _ in range(processes)
    ]
    try:
        yield
    finally:
        for each in running:
            each.kill()
        for each in running:
            each.wait()


def settle(load: float) -> None:
    """The load average of a minute takes about that long to tell."""
    deadline = time.monotonic() + SETTLE_WITHIN_S
    while os.getloadavg()[0] < load * 0.8 and time.monotonic() < deadline:
        time.sleep(1)


# ---- measuring ----


class Driver:
    """A session of its own, which has run a stream before the machine is busy: what is measured is
    the start of a stream and not of Spark."""

    def __init__(self, side: str, servers: str) -> None:
        self.side = side
        connector = STOCK if side == STOCK else OURS
        command = [sys.executable, __file__, JOB, connector, servers, str(side == PLAIN)]
        names = (name for name in os.environ if not name.startswith("PYSPARK_"))
        self._process = subprocess.Popen(  # noqa: S603 - this very file
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={name: os.environ[name] for name in names},
        )
        self.answer()

    def start(self) -> Started:
        assert self._process.stdin is not None, self.side
        self._process.stdin.write("start\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> Started:
        assert self._process.stdout is not None, self.side
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the driver of {self.side} has ended")
        seconds, failure = json.loads(line)
        return Started(self.side, seconds, failure, os.getloadavg()[0])

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def line_of(started: Started) -> str:
    how = started.failure or "started"
    return f"{started.side:24} {started.seconds:6.1f} s  load {started.load:4.0f}  {how}"


def summary(side: str, found: list[Started]) -> str:
    failures = sum(each.failure is not None for each in found)
    times = [each.seconds for each in found if each.failure is None]
    median = f"{statistics.median(times):.1f} s to the first batch" if times else "never started"
    return f"{side:24} {failures} of {len(found)} failed, {median}"


def run(arguments: argparse.Namespace) -> None:
    stock_connector.jars()
    results: dict[str, list[Started]] = {side: [] for side in (STOCK, OURS, PLAIN)}
    with Cluster(brokers=1) as cluster, ExitStack() as ends:
        cluster.topic(TOPIC, partitions=3)
        records = [NewRecord(b"%d" % n, partition=n % 3) for n in range(RECORDS)]
        cluster.ask(lambda client: Producer(client).write(TOPIC, records))
        drivers = []
        for side in results:
            drivers.append(Driver(side, cluster.bootstrap_servers))
            ends.callback(drivers[-1].end)
        ends.enter_context(busy(arguments.processes))
        settle(arguments.processes)
        for _ in range(arguments.times):
            for driver in drivers:
                started = driver.start()
                results[driver.side].append(started)
                print(line_of(started), flush=True)
    for side, found in results.items():
        print(summary(side, found))


def main() -> None:
    if sys.argv[1:2] == [JOB]:
        connector, servers, plain = sys.argv[2:]
        job(connector, servers, plain=plain == str(True))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=3, help="a stream is started on each side")
    parser.add_argument("--processes", type=int, default=30, help="that want the processor too")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
