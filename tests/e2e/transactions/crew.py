"""Programs of several client libraries as processes of their own, and everything they say."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from e2e.clients import java_driver
from tidelog.testing import Cluster

TESTS = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
GUARD_S = 40.0
"""No story may hang for ever. Nothing is measured against it."""

Event = dict[str, Any]


class Library(NamedTuple):
    program: str
    java: str | None = None
    """The version of the Java client; None for Python."""
    more: tuple[str, ...] = ()
    """What its programs are told beside what all are told."""

    def command(self, words: list[str]) -> list[str]:
        words = [*words, *self.more]
        if self.java is None:
            return [sys.executable, "-m", f"e2e.transactions.programs.{self.program}", *words]
        try:
            path = java_driver.built(self.java, PROGRAMS / f"{self.program}.java")
        except java_driver.JavaMissing as missing:
            pytest.skip(str(missing))
        return ["java", *java_driver.JVM_OPTIONS, "-cp", path, self.program, *words]


class Program:
    """A process that tells events and takes orders, a line each."""

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
            with self._changed:
                self._events.append(json.loads(line))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    @property
    def events(self) -> list[Event]:
        with self._changed:
            return list(self._events)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def named(self, *names: str, since: int = 0) -> list[Event]:
        return [each for each in self.events[since:] if each["event"] in names]

    def wait(self, *names: str, since: int = 0) -> Event:
        """The first event of such a name."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over(names, since), GUARD_S)
        found = self.named(*names, since=since)
        assert found, f"never said {names}: {self.last_words()}"
        return found[0]

    def _is_over(self, names: tuple[str, ...], since: int) -> bool:
        told = any(each["event"] in names for each in self._events[since:])
        return told or not self._listener.is_alive()

    def tell(self, order: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """As a crash. Everything it said before is known when this returns."""
        self._process.kill()
        self._process.wait()
        self._listener.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def leave(self) -> None:
        """In order."""
        self.tell("close")
        try:
            self._process.wait(GUARD_S)
        finally:
            self.kill()
        assert self.named("closed"), f"it did not end in order: {self.last_words()}"

    def last_words(self) -> str:
        return f"{self.name}, of {len(self.events)}:\n  " + "\n  ".join(map(str, self.events[-15:]))


class Crew:
    """The programs of one story, those that are gone too."""

    def __init__(self, home: Path) -> None:
        self.programs: list[Program] = []
        self._home = home

    def start(self, name: str, library: Library, *words: object) -> Program:
        command = library.command([str(word) for word in words])
        with (self._home / f"{name}.log").open("a") as errors:
            program = Program(name, command, errors)
        self.programs.append(program)
        return program

    def report(self) -> str:
        logs = [f"--- {path.name}\n{path.read_text()[-3000:]}" for path in self._home.iterdir()]
        return "\n".join([*(each.last_words() for each in self.programs), *logs])

    def close(self) -> None:
        for program in self.programs:
            program.kill()


@contextlib.contextmanager
def crew_of(cluster: Cluster, home: Path) -> Iterator[Crew]:
    crew = Crew(home)
    try:
        yield crew
    except BaseException as failure:
        failure.add_note(crew.report())
        failure.add_note(cluster.report())
        raise
    finally:
        crew.close()
