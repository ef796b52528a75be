"""Commands as somebody would type them: some that end, some that run until they are stopped.

All of them end when the block ends, also after Ctrl-C or an error.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

HERE = Path(__file__).parent
COMMAND_SECONDS = 180
STOP_SECONDS = 60
LINES_SHOWN = 12


class StepError(Exception):
    """A command did not do what it should. The text says which one, and what it said."""


class Background:
    """A process that goes on beside us, and tells in lines of JSON how far it is."""

    def __init__(self, name: str, command: list[str], home: Path, environment: dict) -> None:
        self.name = name
        self.said: list[tuple[float, dict]] = []
        """(when, what), the times of time.time()"""
        self._log = home / f"{name}.log"
        self._news = threading.Condition()
        with self._log.open("a") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=home,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,  # Ctrl-C is for us, and a kill is for all of its own
            )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                with self._news:
                    self.said.append((time.time(), json.loads(line)))
                    self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def wait_until(self, done: Callable[[], bool], what: str, seconds: float) -> None:
        """Looked at whenever the process says something, and twice a second."""
        deadline = time.monotonic() + seconds
        with self._news:
            while not done():
                if not self._reader.is_alive() and not done():
                    raise StepError(f"{self.name} ended before {what}\n{self.tail()}")
                if time.monotonic() > deadline:
                    raise StepError(f"{self.name}: not {what} in {seconds:.0f} s\n{self.tail()}")
                self._news.wait(0.5)

    def last(self, name: str) -> object:
        """The newest value of a field that it told."""
        return next((each[name] for _, each in reversed(self.said) if name in each), None)

    def wait(self, seconds: float) -> None:
        """Until it has ended by itself."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise StepError(f"{self.name} did not end in {seconds:.0f} s") from None
        self._reader.join(seconds)
        if code:
            raise StepError(f"{self.name} ended with {code}\n{self.tail()}")

    def stop(self) -> None:
        """As SIGTERM ends it; what does not end is killed."""
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """SIGKILL to the process and all that it started, as when its machine dies."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()

    def tail(self) -> str:
        return last_lines(self._log)

    def log_line(self, part: str, seconds: float) -> str:
        """The first line of its log with these words."""
        deadline = time.monotonic() + seconds
        while True:
            for line in self._log.read_text("utf-8", "replace").splitlines():
                if part in line:
                    return line
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise StepError(f"{self.name} did not start\n{self.tail()}")
            time.sleep(0.1)


class Bench:
    """A directory in which commands run."""

    def __init__(self, *, keep: bool = False) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="ride-lakehouse-"))
        self._keep = keep
        self._started: list[Background] = []
        temporary = self.home / "tmp"
        temporary.mkdir()
        programs = Path(sys.executable).parent
        self._environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": str(temporary),
            "SPARK_LOCAL_DIRS": str(temporary),
            "SPARK_SUBMIT_OPTS": f"-Djava.io.tmpdir={temporary} -XX:-UsePerfData",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        before = {
            number: signal.signal(number, signal.SIG_IGN)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            for each in reversed(self._started):
                each.kill()
            self._call(["tidelog", "down", "--timeout", "10s"])
            if not self._keep:
                shutil.rmtree(self.home, ignore_errors=True)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def tidelog(self, *words: object) -> str:
        """What the command prints; StepError with its reasons if it fails."""
        return self._done(["tidelog", *map(str, words)])

    def program(self, name: str, *words: object) -> str:
        """The same with a program of this directory."""
        return self._done(self._python(name, words))

    def start_tidelog(self, name: str, *words: object) -> Background:
        return self._begin(name, ["tidelog", *map(str, words)])

    def start_program(self, name: str, *words: object) -> Background:
        return self._begin(Path(name).stem, self._python(name, words))

    def _python(self, name: str, words: tuple[object, ...]) -> list[str]:
        return [sys.executable, str(HERE / name), *map(str, words)]

    def _begin(self, name: str, command: list[str]) -> Background:
        started = Background(name, command, self.home, self._environment)
        self._started.append(started)
        return started

    def _done(self, command: list[str]) -> str:
        done = self._call(command)
        if done.returncode:
            said = "\n".join((done.stdout + done.stderr).splitlines()[-LINES_SHOWN:])
            shown = " ".join(Path(each).name if "/" in each else each for each in command[:4])
            raise StepError(f"{shown} … ended with {done.returncode}\n{said}")
        return done.stdout

    def _call(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.home,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )


def last_lines(path: Path) -> str:
    return "\n".join(path.read_text("utf-8", "replace").splitlines()[-LINES_SHOWN:])
