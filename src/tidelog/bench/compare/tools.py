"""Kafka's own measuring tools, each in a Java machine of its own, and what they print."""

import re
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from tidelog.bench.compare.load_clients import ConsumeJob, ProduceJob
from tidelog.bench.compare.system import SystemFailed

WITHIN_S = 180.0
# As kafka-producer-perf-test.sh and its like start them.
JVM_OPTIONS = ("-Xmx512M", "-XX:+UseG1GC", "-Djava.awt.headless=true")
# They print what they measured and nothing else.
QUIET = "-Dorg.apache.logging.log4j.level=OFF"

_SENT = re.compile(r"(\d+) records sent, ([\d.]+) records/sec .* ([\d.]+) ms 99th")
_AVERAGE = re.compile(r"Avg latency: ([\d.]+) ms")
_CONSUMER_FIELDS = 10
_CONSUMED_FIELD, _FETCHED_PER_S_FIELD = 4, 9


def produced_per_s(printed: str, records: int) -> float:
    """From the last line of ProducerPerformance, which is of all records."""
    found = [match for match in map(_SENT.search, printed.splitlines()) if match is not None]
    if not found or int(found[-1][1]) != records:
        raise SystemFailed(f"ProducerPerformance did not send {records}: {_last_line(printed)}")
    return float(found[-1][2])


def consumed_per_s(printed: str, records: int) -> float:
    """From ConsumerPerformance: without the time in which the group was made."""
    fields = _last_line(printed).split(", ")
    if len(fields) != _CONSUMER_FIELDS or int(fields[_CONSUMED_FIELD]) < records:
        raise SystemFailed(f"ConsumerPerformance did not read {records}: {_last_line(printed)}")
    return float(fields[_FETCHED_PER_S_FIELD])


def average_ms(printed: str) -> float:
    """From EndToEndLatency, whose percentiles are whole milliseconds."""
    found = _AVERAGE.search(printed)
    if found is None:
        raise SystemFailed(f"EndToEndLatency did not end well: {_last_line(printed)}")
    return float(found[1])


class KafkaTools(NamedTuple):
    """The Java client, as ProducerPerformance and its like use it."""

    class_path: str

    @property
    def name(self) -> str:
        return "java"

    def produce(self, job: ProduceJob) -> float:
        settings = {"bootstrap.servers": job.bootstrap_servers, **job.settings}
        words = ["--topic", job.topic, "--num-records", str(job.records), "--throughput", "-1"]
        words += ["--record-size", str(job.record_bytes), "--producer-props"]
        words += [f"{key}={value}" for key, value in settings.items()]
        return produced_per_s(self._run("ProducerPerformance", words), job.records)

    def consume(self, job: ConsumeJob) -> float:
        words = ["--bootstrap-server", job.bootstrap_servers, "--topic", job.topic]
        words += ["--messages", str(job.records), "--timeout", "30000", "--hide-header"]
        return consumed_per_s(self._run("ConsumerPerformance", words), job.records)

    def end_to_end_ms(self, bootstrap_servers: str, topic: str, records: int, size: int) -> float:
        """One record after the other, each read before the next is written; the mean."""
        words = [bootstrap_servers, topic, str(records), "all", str(size)]
        return average_ms(self._run("EndToEndLatency", words))

    def _run(self, tool: str, words: Sequence[str]) -> str:
        command = ["java", *JVM_OPTIONS, QUIET, "-cp", self.class_path]
        command += [f"org.apache.kafka.tools.{tool}", *words]
        try:
            done = subprocess.run(  # noqa: S603 - a command that we write ourselves
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SystemFailed(f"{tool} is not done after {WITHIN_S:g} s") from None
        if done.returncode:
            raise SystemFailed(f"{tool} ended with {done.returncode}: {_last_line(done.stdout)}")
        return done.stdout


def _last_line(printed: str) -> str:
    lines = [line for line in printed.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"
