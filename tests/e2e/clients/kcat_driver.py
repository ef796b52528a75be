"""kcat, as Debian packages it: an older librdkafka, one process per deed."""

import json
import subprocess
import threading
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from e2e.clients.driver import Driver, Fetched, How, PartitionSeen, Record, Refused, Start

TIMEOUT_S = 20.0

SAID = {
    "Broker: Unknown topic or partition": "UNKNOWN_TOPIC_OR_PARTITION",
    "Broker: Message size too large": "MESSAGE_TOO_LARGE",
}
"""librdkafka's words for what the broker answered."""


def refusal_in(stderr: str) -> Refused | None:
    for words, error in SAID.items():
        if words in stderr:
            return Refused(error, stderr)
    return None


def fetched(line: str) -> Fetched:
    seen = json.loads(line)
    flat = seen.get("headers", [])
    headers = tuple(
        (name, as_bytes(value)) for name, value in zip(flat[::2], flat[1::2], strict=True)
    )
    record = Record(
        seen["partition"], as_bytes(seen["key"]), as_bytes(seen["payload"]), headers, seen["ts"]
    )
    return Fetched(seen["offset"], record)


def as_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


class KcatDriver(Driver):
    """It administers nothing, and cannot say an empty key or value beside a null one."""

    name = "kcat"
    chooses_timestamps = False
    lacks = frozenset(
        {
            "create_partitions",
            "delete_records",
            "delete_topic",
            "describe_and_alter_configs",
            "describe_log_dirs",
            "describe_quorum",
            "elect_leaders",
            "reassign_partitions",
            "refuse_a_topic_that_exists",
            "refuse_a_wrong_config_value",
            "refuse_a_wrong_topic_name",
            "refuse_an_unknown_topic",
            "refuse_more_replicas_than_brokers",
        }
    )

    def __init__(self, bootstrap: str) -> None:
        self._command = ["kcat", "-b", bootstrap, "-X", "client.id=kcat"]

    def _run(self, *arguments: str, given: bytes | None = None) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            input=given,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        stderr = done.stderr.decode()
        refused = refusal_in(stderr)
        if refused is not None:
            raise refused
        assert done.returncode == 0, f"kcat {' '.join(arguments)}: {stderr}"
        return done.stdout.decode()

    # -- records

    def produce(self, topic: str, records: Sequence[Record], how: How) -> None:
        for (partition, headers), alike in groupby(records, lambda r: (r.partition, r.headers)):
            for null, some in groupby(alike, lambda r: r.key is None or r.value is None):
                arguments = ["-P", "-t", topic, "-p", str(partition), "-K", "\t", "-z", how.codec]
                arguments += ["-X", f"acks={how.acks}", "-X", "message.max.bytes=10000000"]
                if how.idempotent:
                    arguments += ["-X", "enable.idempotence=true"]
                if null:
                    arguments.append("-Z")
                for name, value in headers:
                    given = name if value is None else f"{name}={value.decode()}"
                    arguments += ["-H", given]
                lines = b"".join((r.key or b"") + b"\t" + (r.value or b"") + b"\n" for r in some)
                self._run(*arguments, given=lines)

    def read(self, topic: str, partition: int, start: Start) -> list[Fetched]:
        offset = {"earliest": "beginning", "timestamp": f"s@{start.number}"}
        where = offset.get(start.kind, str(start.number))
        place = ("-t", topic, "-p", str(partition), "-o", where)
        text = self._run("-C", *place, "-e", "-q", "-J", "-X", "allow.auto.create.topics=false")
        return [fetched(line) for line in text.splitlines()]

    def read_new(self, topic: str, partition: int, when_ready: Callable[[], None]) -> Fetched:
        place = ("-t", topic, "-p", str(partition), "-o", "end")
        with subprocess.Popen(
            [*self._command, "-C", *place, "-c", "1", "-J", "-u"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            stopper = threading.Timer(TIMEOUT_S, process.kill)
            stopper.start()
            try:
                assert process.stdout is not None
                assert process.stderr is not None
                assert "Reached end" in process.stderr.readline()
                when_ready()
                return fetched(process.stdout.readline())
            finally:
                stopper.cancel()
                process.kill()

    # -- what it can tell

    def _metadata(self, *arguments: str) -> Any:
        return json.loads(self._run("-L", "-J", *arguments))

    def broker_ids(self) -> set[int]:
        return {broker["id"] for broker in self._metadata()["brokers"]}

    def partitions(self, topic: str) -> dict[int, PartitionSeen]:
        (seen,) = self._metadata("-t", topic)["topics"]
        return {
            each["partition"]: PartitionSeen(
                each["leader"],
                tuple(replica["id"] for replica in each["replicas"]),
                frozenset(replica["id"] for replica in each["isrs"]),
            )
            for each in seen["partitions"]
        }

    def offset_at(self, topic: str, partition: int, start: Start) -> int:
        asked = {"earliest": -2, "latest": -1}.get(start.kind, start.number)
        return int(self._run("-Q", "-t", f"{topic}:{partition}:{asked}").split()[-1])
