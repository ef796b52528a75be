"""What the plugin adds to the report of a failed test, and what it does after every test."""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidelog.testing import report
from tidelog.testing.cluster import Cluster
from tidelog.testing.invariants import InvariantBroken

CONSOLE_VARIABLE = "TIDELOG_CONSOLE"
CONSOLE_MODULE = "tidelog.console"


class Watched:
    """The cluster of one test."""

    __slots__ = ("_name", "_paths", "cluster")

    def __init__(self, cluster: Cluster, name: str, paths: pytest.TempPathFactory) -> None:
        self.cluster = cluster
        self._name = re.sub(r"[^\w.-]+", "_", name)[:80]
        self._paths = paths

    def check(self) -> None:
        """Told with everything that is known about the cluster."""
        try:
            self.cluster.check()
        except InvariantBroken as broken:
            broken.add_note(self.tell())
            raise

    def tell(self) -> str:
        """State table, the last events, and where all of them are."""
        cluster = self.cluster
        events = cluster.events.all()
        trace = report.write_trace(self._trace_file(), events)
        last = report.last_events(events)
        title = f"--- the last {len(last)} events" if len(last) > 1 else "--- the last event"
        return "\n".join([cluster.state_table(), "", title, *last, "", f"all events: {trace}"])

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
            if importlib.util.find_spec(CONSOLE_MODULE) is None:
                print(f"\n{CONSOLE_VARIABLE}: this installation has no {CONSOLE_MODULE}")
                return
            show(self.cluster.bootstrap_servers)


def show(bootstrap_servers: str) -> None:
    """The console prints its address itself."""
    command = [sys.executable, "-m", "tidelog", "console", "-b", bootstrap_servers, "--port", "0"]
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
    watched = Watched(cluster, item.name, paths)
    item.stash[key] = watched
    try:
        yield watched
    finally:
        del item.stash[key]
