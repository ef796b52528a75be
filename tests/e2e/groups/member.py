"""Members of groups as processes of their own, one program for each client library."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from e2e.clients import java_driver
from tidelog.testing import Cluster

TESTS = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
GUARD_S = 90.0
"""No story may hang for ever. Nothing is measured against it."""
GONE = ("revoked", "lost")

Event = dict[str, Any]


class Library(NamedTuple):
    """A client library and how it is set up."""

    program: str
    settings: Mapping[str, str]
    java: str | None = None
    """The version of the Java client; None for Python."""

    @property
    def is_new(self) -> bool:
        """KIP-848: the broker sets the session and hands out partitions."""
        return self.settings.get("group.protocol") == "consumer"

    def command(self, words: list[str]) -> list[str]:
        if self.java is None:
            return [sys.executable, "-m", f"e2e.groups.programs.{self.program}", *words]
        try:
            path = java_driver.built(self.java, PROGRAMS / f"{self.program}.java")
        except java_driver.JavaMissing as missing:
            pytest.skip(str(missing))
        return ["java", *java_driver.JVM_OPTIONS, "-cp", path, self.program, *words]


ASSIGNOR = "partition.assignment.strategy"
RANGE, STICKY = {ASSIGNOR: "range"}, {ASSIGNOR: "cooperative-sticky"}
NEW = {"group.protocol": "consumer"}
_PACKAGE = "org.apache.kafka.clients.consumer"
JAVA_RANGE = {ASSIGNOR: f"{_PACKAGE}.RangeAssignor"}
JAVA_STICKY = {ASSIGNOR: f"{_PACKAGE}.CooperativeStickyAssignor"}

LIBRARIES = {
    "confluent-eager": Library("confluent_member", RANGE),
    "confluent-cooperative": Library("confluent_member", STICKY),
    "confluent-new": Library("confluent_member", NEW),
    "kafka-python": Library("kafka_python_member", RANGE),
    "aiokafka": Library("aiokafka_member", RANGE),
    "java-3.9.1": Library("Member", JAVA_RANGE, java="3.9.1"),
    "java-4.1.0": Library("Member", JAVA_STICKY, java="4.1.0"),
    "java-4.1.0-new": Library("Member", NEW, java="4.1.0"),
}


def libraries(*usual: str) -> list[Any]:
    """All of them as parameters. `make test` runs a story with the usual ones, `make proof` with
    all: the others write nothing that one of these does not write."""
    others = [name for name in LIBRARIES if name not in usual]
    return [*usual, *(pytest.param(name, marks=pytest.mark.long) for name in others)]


class Member:
    """A process, and everything it has said."""

    def __init__(self, name: str, command: list[str], errors: IO[Any]) -> None:
        self.name = name
        self._events: list[Event] = []
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | {"PYTHONPATH": str(TESTS), "PYTHONUNBUFFERED": "1"},
        )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                break  # it was killed while it spoke
            event = {"at": time.monotonic(), **json.loads(line)}
            with self._changed:
                self._events.append(event)
                self._changed.notify_all()

    # -- what it said

    @property
    def events(self) -> list[Event]:
        with self._changed:
            return list(self._events)

    def named(self, *names: str, since: int = 0) -> list[Event]:
        return [each for each in self.events[since:] if each["event"] in names]

    def wait(self, *names: str, since: int = 0) -> Event:
        """The first event of such a name."""
        with self._changed:
            self._changed.wait_for(lambda: self._has(names, since), GUARD_S)
        found = self.named(*names, since=since)
        assert found, f"{self.name} never said {names}: {self.last_words()}"
        return found[0]

    def _has(self, names: tuple[str, ...], since: int) -> bool:
        return any(each["event"] in names for each in self._events[since:])

    def owned(self) -> set[int]:
        """The partitions it believes to own."""
        owned: set[int] = set()
        for each in self.named("assigned", *GONE):
            if each["event"] == "assigned":
                owned |= set(each["partitions"])
            else:
                owned -= set(each["partitions"])
        return owned

    def last_words(self) -> str:
        told = [{**each, "records": len(each.get("records", ()))} for each in self.events[-12:]]
        return f"{self.name} owns {sorted(self.owned())}; " + "\n  ".join(map(str, told))

    # -- what happens to it

    def tell(self, order: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """As a crash. Everything it said before is known when this returns."""
        self._process.kill()
        self._end()

    def leave(self) -> None:
        """In order."""
        self.tell("close")
        try:
            self._process.wait(GUARD_S)
        finally:
            self._process.kill()
            self._end()
        assert self.named("closed"), f"it did not leave in order: {self.last_words()}"

    def _end(self) -> None:
        self._process.wait()
        self._listener.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()


class Crew:
    """The members of one group of one story, those that are gone too."""

    def __init__(self, cluster: Cluster, topic: str, home: Path) -> None:
        self.topic = topic
        self.group_id = f"group-of-{topic}"
        self.members: list[Member] = []
        self._bootstrap = cluster.bootstrap_servers
        self._home = home

    def start(self, name: str, library: Library, **settings: object) -> Member:
        dotted = {key.replace("_", "."): str(value) for key, value in settings.items()}
        if library.is_new:  # there the broker decides on these
            dotted = {key: dotted[key] for key in dotted if key not in OF_MEMBERS}
        known = {
            "bootstrap.servers": self._bootstrap,
            "group.id": self.group_id,
            "client.id": name,
            **library.settings,
            **dotted,
        }
        words = [self.topic, *(f"{key}={value}" for key, value in known.items())]
        with (self._home / f"{name}.log").open("a") as errors:
            member = Member(name, library.command(words), errors)
        self.members.append(member)
        return member

    def report(self) -> str:
        """What everybody said last, for a story that failed."""
        logs = [f"--- {path.name}\n{path.read_text()[-2000:]}" for path in self._home.iterdir()]
        return "\n".join([*(each.last_words() for each in self.members), *logs])

    def close(self) -> None:
        for member in self.members:
            member.kill()


OF_MEMBERS = ("session.timeout.ms", "heartbeat.interval.ms")


@contextlib.contextmanager
def crew_of(cluster: Cluster, topic: str, home: Path) -> Iterator[Crew]:
    crew = Crew(cluster, topic, home)
    try:
        yield crew
    except BaseException as failure:
        failure.add_note(crew.report())
        failure.add_note(cluster.report())
        raise
    finally:
        crew.close()


def until(condition: Callable[[], object], what: str, timeout_s: float = GUARD_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)


def share(partitions: int, *members: Member) -> bool:
    """Whether these members own every partition, each exactly once, and each has some."""
    owned = [member.owned() for member in members]
    together = sorted(partition for each in owned for partition in each)
    return all(owned) and together == list(range(partitions))


def until_shared(partitions: int, *members: Member, timeout_s: float = GUARD_S) -> None:
    names = " and ".join(member.name for member in members)
    what = f"{names} own {partitions} partitions, each once"
    until(lambda: share(partitions, *members), what, timeout_s)
