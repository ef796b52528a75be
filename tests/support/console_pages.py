"""What the browser tests of the console share: a console of a live cluster, and a watched page."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tidelog.cluster import state as states
from tidelog.cluster.nodes import LocalNodes
from tidelog.testing import Cluster

CLUSTER_NAME = "test"
GUARD_MS = 60_000
"""For a machine that does much else; nothing waits that long."""
expect.set_options(timeout=GUARD_MS)


class LiveConsole:
    """A cluster of three brokers, and a console that looks at it."""

    def __init__(self, cluster: Cluster, url: str) -> None:
        self.cluster = cluster
        self.url = url


@contextmanager
def running_console(home: Path) -> Iterator[str]:
    """`tidelog console` of the cluster that lies in this directory; its address. The nodes end
    with it: one that the console has started again would outlive the test."""
    try:
        with console_of(home, "--data-dir", str(home), "--name", CLUSTER_NAME) as url:
            yield url
    finally:
        nodes = nodes_on_disk(home / CLUSTER_NAME)
        for node_id in nodes.node_ids:
            nodes.kill(node_id)


def nodes_on_disk(directory: Path) -> LocalNodes:
    """As the file of the cluster knows them, whoever started them."""
    known = states.load(directory)
    assert known is not None, f"no cluster in {directory}"
    return LocalNodes(directory, known)


@contextmanager
def console_of(home: Path, *place: str) -> Iterator[str]:
    """`tidelog console` of any cluster; what it has to say lies in `home`."""
    said = home / "console.log"
    with said.open("w") as complaints:
        process = subprocess.Popen(
            [sys.executable, "-m", "tidelog", "console", *place, "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )
    assert process.stdout is not None
    silence = threading.Timer(GUARD_MS / 1000, process.kill)
    silence.start()
    try:
        line = process.stdout.readline()  # ends when the process does
        silence.cancel()
        assert "http://" in line, f"the console did not start: {said.read_text()}"
        yield line.split()[-1]
    finally:
        silence.cancel()
        process.terminate()
        process.wait(GUARD_MS / 1000)
        process.stdout.close()


class Complaints:
    """Everything a browser finds wrong with a page: errors, warnings, violations of the policy."""

    def __init__(self, page: Page) -> None:
        self.texts: list[str] = []
        self.are_expected = False
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.texts.append(f"uncaught: {error}"))

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.texts.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    def check(self) -> None:
        assert self.are_expected or not self.texts, "\n".join(self.texts)


def settled(page: Page) -> None:
    """The page says what it is, and waits for nothing."""
    expect(page.locator("main h1").first).to_be_visible()
    expect(page.locator("main .loading")).to_have_count(0)
    expect(page.locator("main .failed")).to_have_count(0)


def open_page(page: Page, url: str) -> None:
    page.goto(url)
    settled(page)
