"""The official Java client: one JVM per version, told what to do line by line."""

import base64
import hashlib
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote_plus

from e2e.clients.driver import (
    Driver,
    Fetched,
    How,
    NewTopic,
    PartitionSeen,
    QuorumSeen,
    Record,
    Refused,
    Start,
)

HERE = Path(__file__).parent / "java"
CACHE = Path(__file__).parents[3] / ".cache" / "kafka-clients"
NULL = "~"
TIMEOUT_S = 30.0
FETCH_TIMEOUT_S = 120.0
# One processor's worth of compiler and collector: such a short life does not earn more.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m")


class JavaMissing(Exception):  # noqa: N818 - it says what is wrong
    """Why the Java client cannot be run here."""


def built(version: str, source: Path = HERE / "Smoke.java") -> str:
    """The class path of a program for this version of the client; made once."""
    jars = CACHE / version / "jars"
    for tool in ("java", "javac"):
        if shutil.which(tool) is None:
            raise JavaMissing(f"there is no {tool}: install a JDK, 17 or later")
    if not list(jars.glob("kafka-clients-*.jar")):
        fetch(version, jars)
    stamp = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    classes = CACHE / version / "classes" / f"{source.stem}-{stamp}"
    if not classes.exists():
        compile_into(classes, source, f"{jars}/*")
    return f"{classes}:{jars}/*"


def compile_into(classes: Path, source: Path, path: str) -> None:
    """All at once: another process may be looking for the same."""
    classes.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=classes.parent))
    command = ["javac", "-cp", path, "-d", partial, source]
    subprocess.run(command, check=True, timeout=FETCH_TIMEOUT_S)
    try:
        partial.rename(classes)
    except OSError:  # the other one was first
        shutil.rmtree(partial)


def fetch(version: str, jars: Path) -> None:
    if shutil.which("mvn") is None:
        raise JavaMissing("there is no mvn to fetch kafka-clients with: install Maven")
    target = jars.with_name("jars.partial")
    command = ["mvn", "-q", "-B", "-f", HERE / "pom.xml", f"-Dkafka.version={version}"]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise JavaMissing(
            f"Maven did not fetch kafka-clients {version} in {FETCH_TIMEOUT_S:.0f} s"
        ) from late
    if done.returncode:
        said = (done.stdout or done.stderr).strip().splitlines()
        why = said[0] if said else f"exit {done.returncode}"
        raise JavaMissing(f"Maven cannot fetch kafka-clients {version}: {why}")
    target.rename(jars)


def as_text(data: bytes | None) -> str:
    return NULL if data is None else base64.b64encode(data).decode()


def as_bytes(text: str) -> bytes | None:
    return None if text == NULL else base64.b64decode(text)


def to_send(record: Record) -> str:
    headers = ";".join(
        f"{as_text(name.encode())}:{as_text(value)}" for name, value in record.headers
    )
    key, value = as_text(record.key), as_text(record.value)
    return f"{record.partition},{record.timestamp_ms},{key},{value},{headers}"


def fetched(text: str) -> Fetched:
    offset, partition, timestamp, key, value, flat = text.split(",")
    pairs = (header.split(":") for header in flat.split(";") if header)
    headers = tuple((base64.b64decode(name).decode(), as_bytes(value)) for name, value in pairs)
    record = Record(int(partition), as_bytes(key), as_bytes(value), headers, int(timestamp))
    return Fetched(int(offset), record)


class JavaDriver(Driver):
    """Its consumer waits for a topic that is unknown until its time is over."""

    lacks = frozenset({"refuse_to_read_an_unknown_topic"})
    tells_of_unknown_topics = False

    def __init__(self, bootstrap: str, version: str, errors: IO[Any]) -> None:
        self.name = f"java-{version}"
        self._jvm = subprocess.Popen(
            ["java", *JVM_OPTIONS, "-cp", built(version), "Smoke", bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )

    def close(self) -> None:
        stdin, stdout = self._jvm.stdin, self._jvm.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.close()
        try:
            self._jvm.wait(TIMEOUT_S)
        finally:
            self._jvm.kill()
            self._jvm.wait()
            stdout.close()

    def ask(self, verb: str, *arguments: object) -> list[str]:
        """What the program answers to a verb; raises Refused."""
        stdin, stdout = self._jvm.stdin, self._jvm.stdout
        assert stdin is not None
        assert stdout is not None
        stopper = threading.Timer(TIMEOUT_S, self._jvm.kill)
        stopper.start()
        try:
            stdin.write("\t".join(quote(str(word), safe="") for word in (verb, *arguments)) + "\n")
            stdin.flush()
            line = stdout.readline()
        finally:
            stopper.cancel()
        assert line, f"the JVM ended in {verb}"
        outcome, *results = (unquote_plus(word) for word in line.rstrip("\n").split("\t"))
        if outcome == "refused":
            raise Refused(*results)
        assert outcome == "ok", f"{verb}: {results}"
        return results

    # -- records

    def produce(self, topic: str, records: Sequence[Record], how: How) -> None:
        idempotent = str(how.idempotent).lower()
        self.ask("produce", topic, how.acks, how.codec, idempotent, *map(to_send, records))

    def read(self, topic: str, partition: int, start: Start) -> list[Fetched]:
        return [*map(fetched, self.ask("read", topic, partition, start.kind, start.number))]

    def read_new(self, topic: str, partition: int, when_ready: Callable[[], None]) -> Fetched:
        self.ask("seek_end", topic, partition)
        when_ready()
        return fetched(self.ask("next")[0])

    # -- administration

    def create_topic(self, topic: NewTopic) -> None:
        settings = [word for pair in topic.configs.items() for word in pair]
        self.ask("create_topic", topic.name, topic.partitions, topic.replicas, *settings)

    def delete_topic(self, topic: str) -> None:
        self.ask("delete_topic", topic)

    def broker_ids(self) -> set[int]:
        return {*map(int, self.ask("broker_ids"))}

    def partitions(self, topic: str) -> dict[int, PartitionSeen]:
        seen = {}
        for text in self.ask("partitions", topic):
            partition, leader, replicas, isr = text.split(";")
            seen[int(partition)] = PartitionSeen(
                int(leader),
                tuple(map(int, replicas.split(","))),
                frozenset(map(int, isr.split(","))),
            )
        return seen

    def configs(self, topic: str) -> dict[str, str]:
        return dict(entry.split("=", 1) for entry in self.ask("configs", topic))

    def set_config(self, topic: str, key: str, value: str) -> None:
        self.ask("set_config", topic, key, value)

    def log_sizes(self, topic: str) -> dict[int, int]:
        pairs = (text.split("=") for text in self.ask("log_sizes", topic))
        return {int(broker): int(size) for broker, size in pairs}

    def add_partitions(self, topic: str, total: int) -> None:
        self.ask("add_partitions", topic, total)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        return int(self.ask("delete_records", topic, partition, before)[0])

    def offset_at(self, topic: str, partition: int, start: Start) -> int:
        return int(self.ask("offset_at", topic, partition, start.kind, start.number)[0])

    def elect_preferred(self, topic: str, partition: int) -> None:
        self.ask("elect_preferred", topic, partition)

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        self.ask("reassign", topic, partition, *replicas)

    def quorum(self) -> QuorumSeen:
        leader, *voters = map(int, self.ask("quorum"))
        return QuorumSeen(leader, frozenset(voters))
