"""What the plugin adds to the report of a failed test, and what it does after every test."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidelog.config.properties import write_properties
from tidelog.testing import report
from tidelog.testing.cluster import SIM, Cluster
from tidelog.testing.invariants import InvariantBroken

CONSOLE_VARIABLE = "TIDELOG_CONSOLE"
CONSOLE_MODULE = "tidelog.console"


class Watched:
    """The cluster of one test."""

    __slots__ = ("_again", "_name", "_paths", "cluster")

    def __init__(self, cluster: Cluster, item: pytest.Item, paths: pytest.TempPathFactory) -> None:
        self.cluster = cluster
        self._again = f"once more: pytest {shlex.quote(item.nodeid)}"
        self._name = re.sub(r"[^\w.-]+", "_", item.name)[:80]
        self._paths = paths

    def check(self) -> None:
        """Told with everything that is known about the cluster."""
        try:
            self.cluster.check()
        except InvariantBroken as broken:
            broken.add_note(self.tell())
            raise

    def tell(self) -> str:
        """State table, the last events, and where all of them are. How to see a simulated cluster
        do the same again."""
        cluster = self.cluster
        trace = report.write_trace(self._trace_file(), cluster.events.all())
        last = cluster.last_events()
        lines = [
            cluster.state_table(),
            "",
            "--- the last events",
            *last,
            "",
            f"all events: {trace}",
        ]
        if cluster.host == SIM:
            lines += [cluster.replay, self._again]
        return "\n".join(lines)

    def _trace_file(self) -> Path:
        return self._paths.mktemp("tidelog") / f"{self._name}.jsonl"

    def show_console(self, config: pytest.Config) -> None:
        """With TIDELOG_CONSOLE=1 the cluster stays until somebody has looked at it."""
        if os.environ.get(CONSOLE_VARIABLE, "") in ("", "0"):
            return
        capture = config.pluginmanager.getplugin("capturemanager")
        if hasattr(config, "workerinput"):
            return  # a worker of xdist has no terminal
        with capture.global_and_fixture_disabled():
            capture.suspend_global_capture(in_=True)  # the keyboard too
            if self.cluster.host == SIM:
                print(f"\n{CONSOLE_VARIABLE}: no console reaches virtual time; {self._again}")
                return
            if importlib.util.find_spec(CONSOLE_MODULE) is None:
                print(f"\n{CONSOLE_VARIABLE}: this installation has no {CONSOLE_MODULE}")
                return
            show(self.cluster.bootstrap_servers, self._login())

    def _login(self) -> list[str]:
        """Of a secured cluster, for the command line."""
        properties = self.cluster.client_properties
        if len(properties) == 1:
            return []
        path = self._paths.mktemp("tidelog") / "client.properties"
        path.write_text(write_properties(properties), "utf-8")
        print(f"\n{CONSOLE_VARIABLE}: the console asks for a login, which is in {path}")
        return ["--command-config", str(path)]


def show(bootstrap_servers: str, login: Sequence[str]) -> None:
    """The console prints its address itself."""
    command = [sys.executable, "-m", "tidelog", "console", "-b", bootstrap_servers, "--port", "0"]
    command += login
    print(f"\n{CONSOLE_VARIABLE}: the cluster of this test is at {bootstrap_servers}")
    with subprocess.Popen(command) as console:  # noqa: S603 - our own command
        try:
            input("press Enter to go on with the tests\n")
        except (EOFError, OSError):
            print(f"{CONSOLE_VARIABLE}: nobody to wait for: run pytest in a terminal")
        finally:
            console.terminate()


@contextmanager
def watching(
    item: pytest.Item,
    key: "pytest.StashKey[Watched]",
    cluster: Cluster,
    paths: pytest.TempPathFactory,
) -> Iterator[Watched]:
    watched = Watched(cluster, item, paths)
    item.stash[key] = watched
    try:
        yield watched
    finally:
        del item.stash[key]
