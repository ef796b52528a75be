"""Driver processes from the outside: started ahead of time, asked, and seen to die."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

from support.exactly_once.driver import ANSWER, answer_to
from support.exactly_once.faults import FaultySource, FaultyTableSource, kill

READY_WITHIN_S = 240
SUPPORT = Path(__file__).parents[2]
SOURCES = Path(__file__).parents[3] / "src"
LOCAL = "local[2,4]"
"""Four tries for each task: a killed worker does not end the query."""
WITH_EXECUTORS = "local-cluster[2,1,1024]"
DEAD = None


class Driver:
    """One JVM and its Python."""

    def __init__(self, spark_url, directory):
        path = os.pathsep.join([str(SUPPORT), str(SOURCES)])
        environment = {
            **os.environ,
            "PYTHONPATH": path,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / f"driver-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "support.exactly_once.driver", spark_url],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                cwd=directory,
            )
        self._answers = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.jvm = None

    def _read(self):
        for line in self.process.stdout:
            if line.startswith(ANSWER.encode()):
                self._answers.put(json.loads(line.decode().removeprefix(ANSWER)))
        self._answers.put(DEAD)

    def ready(self):
        if self.jvm is None:
            answer = self.answer(READY_WITHIN_S)
            assert answer is not DEAD, self.log.read_text()[-4000:]
            self.jvm = answer["jvm"]

    def ask(self, **job):
        # A driver that dies while it is asked is seen to be dead by who waits for the answer.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()

    def answer(self, timeout_s):
        """None if it died."""
        return self._answers.get(timeout=timeout_s)

    @property
    def pids(self):
        return (self.process.pid, self.jvm)

    def kill(self):
        if self.jvm is not None:
            kill(self.jvm)
        self.process.kill()
        self.close()

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(60)
        self._reader.join(60)
        self.process.stdout.close()


class Drivers:
    """Keeps drivers ready: a JVM takes long to start."""

    def __init__(self, directory):
        self._directory = directory
        self._spare = {}
        self._taken = set()

    def prepare(self, spark_url):
        if not self._spare.get(spark_url):
            self._spare[spark_url] = [Driver(spark_url, self._directory)]

    def take(self, spark_url):
        self.prepare(spark_url)
        driver = self._spare[spark_url].pop(0)
        self._taken.add(driver)
        driver.ready()
        return driver

    def lose(self, driver):
        """It died: what is left of it goes too."""
        self._taken.discard(driver)
        driver.kill()

    def give_back(self, spark_url, driver):
        self._taken.discard(driver)
        self._spare[spark_url].insert(0, driver)

    def drop(self, spark_url):
        for driver in self._spare.pop(spark_url, ()):
            driver.kill()

    def close(self):
        for spark_url in list(self._spare):
            self.drop(spark_url)
        for driver in list(self._taken):
            self.lose(driver)


class InSession:
    """A session that is there already, for faults that it survives."""

    def __init__(self, spark):
        self._spark = spark
        self._job = None
        spark.dataSource.register(FaultySource)
        spark.dataSource.register(FaultyTableSource)

    def take(self, _spark_url):
        return self

    def give_back(self, _spark_url, driver):
        assert driver is self

    def ask(self, **job):
        self._job = job

    def answer(self, _timeout_s):
        return answer_to(self._spark, self._job)
