"""The processes of one cluster: start, signal, stop, and read what they said."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tidelog.cluster import layout
from tidelog.cluster import state as states
from tidelog.cluster.process_ids import ProcessId
from tidelog.cluster.state import ClusterState, NodeState
from tidelog.config.layers import environment_name

POLL_SECONDS = 0.01
PAUSE_WITHIN_SECONDS = 5
"""A thread that waits for a disk stops when it has it."""
LAST_LINES = 15
LAST_BYTES = 64 * 1024

FIXED_KEYS = ("process.roles", "node.id", "broker.id", "listeners", "log.dirs", "log.dir")
"""What every node has for itself: the environment of whoever starts them must not say it."""


class NodeFailed(Exception):  # noqa: N818 - it names what is so
    """A node ended before it was ready, or never was."""

    def __init__(self, node_id: int, reason: str, last_lines: Sequence[str]) -> None:
        super().__init__(f"node {node_id} {reason}")
        self.node_id = node_id
        self.reason = reason
        self.last_lines = list(last_lines)

    @property
    def why(self) -> str:
        """In the node's own words: the reason of its error, or the last thing it said."""
        lines = [line.strip() for line in self.last_lines]
        for line in reversed(lines):
            if line.startswith("why: "):
                return line.removeprefix("why: ")
        return lines[-1] if lines else "it said nothing"


class Stopped(NamedTuple):
    node_id: int
    in_time: bool
    """False: it had to be killed."""


class LocalNodes:
    """The nodes of the cluster in one directory. The state file is kept true by every change.

    An attached node ends when whoever started it ends, however that happens: it holds the reading
    end of a pipe that closes with us, and a paused one is continued and hung up on by the kernel,
    because its process group becomes an orphan.
    """

    __slots__ = ("_children", "_lifeline", "directory", "state")

    def __init__(self, directory: Path, state: ClusterState) -> None:
        self.directory = directory
        self.state = state
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._lifeline: tuple[int, int] | None = None

    @property
    def node_ids(self) -> list[int]:
        return list(self.state.nodes)

    def node(self, node_id: int) -> NodeState:
        return self.state.nodes[node_id]

    def start(self, node_ids: Iterable[int], *, attached: bool) -> None:
        """Start those that do not run, all at once; who is ready is another question."""
        for node_id in node_ids:
            node = self.node(node_id)
            if node.state == "gone":
                self._bury(node_id)
                node.process = self._spawn(node, attached=attached)
        states.save(self.directory, self.state)

    def signal(self, node_id: int, number: signal.Signals) -> bool:
        """False if it does not run."""
        process = self.node(node_id).process
        return process is not None and process.send(number)

    def kill(self, node_id: int) -> bool:
        """As a crash: nothing is flushed, nobody is told. Returns when it is gone."""
        sent = self.signal(node_id, signal.SIGKILL)
        if sent:
            self._wait_gone([node_id], None)
        return sent

    def pause(self, node_id: int) -> bool:
        """Returns when it stands still. The end of whoever started it wakes a node only from
        then on: one that is about to stop would stay there for ever."""
        process = self.node(node_id).process
        if process is None or not process.send(signal.SIGSTOP):
            return False
        deadline = time.monotonic() + PAUSE_WITHIN_SECONDS
        while process.is_alive() and not process.stands_still() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return True

    def resume(self, node_id: int) -> bool:
        return self.signal(node_id, signal.SIGCONT)

    def stop(self, node_ids: Iterable[int], *, timeout_ms: int) -> list[Stopped]:
        """SIGTERM to all of them, and SIGKILL to those that are late."""
        running = [each for each in node_ids if self.node(each).state != "gone"]
        for node_id in running:
            self.resume(node_id)  # a paused process hears nothing
            self.signal(node_id, signal.SIGTERM)
        late = self._wait_gone(running, time.monotonic() + timeout_ms / 1000)
        for node_id in late:
            self.signal(node_id, signal.SIGKILL)
        self._wait_gone(late, None)
        for node_id in running:
            self.node(node_id).process = None
        states.save(self.directory, self.state)
        return [Stopped(each, each not in late) for each in running]

    def close(self) -> None:
        """Give the pipe back. Attached nodes that still run will end."""
        for node_id, child in self._children.items():
            if self.node(node_id).state == "gone":
                child.wait()
        lifeline, self._lifeline = self._lifeline, None
        if lifeline is not None:
            os.close(lifeline[0])
            os.close(lifeline[1])

    def lifeline(self) -> int:
        """The end of a pipe that a child reads: it closes when this process ends."""
        self._lifeline = self._lifeline or os.pipe()
        return self._lifeline[0]

    def save(self) -> None:
        states.save(self.directory, self.state)

    def exit_status(self, node_id: int) -> str:
        """How a child of ours ended, in words."""
        child = self._children.get(node_id)
        if child is None:
            return "ended"
        # It is gone for whoever looks at it a moment before its parent is told of it.
        code = child.wait()
        if code < 0:
            return f"ended by signal {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def log_text(self, node_id: int) -> str:
        try:
            return layout.log_file(self.directory, node_id).read_text("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def last_lines(self, node_id: int, count: int = LAST_LINES) -> list[str]:
        path = layout.log_file(self.directory, node_id)
        try:
            with path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - LAST_BYTES))
                text = file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return []
        return text.splitlines()[-count:]

    def _spawn(self, node: NodeState, *, attached: bool) -> ProcessId | None:
        config = layout.config_file(self.directory, node.id)
        command = [sys.executable, "-m", "tidelog", "node", "start", "--config", str(config)]
        inherited: tuple[int, ...] = ()
        if attached:
            command += ["--lifeline", str(self.lifeline())]
            inherited = (self.lifeline(),)
        with layout.log_file(self.directory, node.id).open("ab") as log:
            child = subprocess.Popen(  # noqa: S603 - our own program
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=inherited,
                env=child_environment(),
                # Ctrl-C is for us; a detached node must also survive the end of the terminal.
                start_new_session=not attached,
                process_group=0 if attached else None,
            )
        self._children[node.id] = child
        return ProcessId.of(child.pid)

    def _wait_gone(self, node_ids: Iterable[int], deadline: float | None) -> list[int]:
        """Those that are still there at the deadline."""
        left = list(node_ids)
        while left:
            alive = [each for each in left if self.node(each).state != "gone"]
            for node_id in left:
                if node_id not in alive:
                    self._bury(node_id)
            left = alive
            if left and deadline is not None and time.monotonic() >= deadline:
                break
            if left:
                time.sleep(POLL_SECONDS)
        return left

    def _bury(self, node_id: int) -> None:
        """A child that is gone stays in the table of processes until its parent asks."""
        child = self._children.get(node_id)
        if child is not None:
            child.wait()


def child_environment() -> dict[str, str]:
    ours = {environment_name(key) for key in FIXED_KEYS}
    environment = {key: value for key, value in os.environ.items() if key not in ours}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return environment
