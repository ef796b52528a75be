"""The nodes of a cluster on threads of this process: production nodes, real sockets on loopback."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import TimeoutError as LookTimedOut
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tidelog.cluster import layout
from tidelog.cluster.layout import Shape
from tidelog.cluster.nodes import LAST_LINES, NodeFailed, Stopped
from tidelog.cluster.state import ClusterState, NodeState
from tidelog.config.layers import Inputs
from tidelog.config.node_config import NodeConfig, load_node_config
from tidelog.config.properties import parse_properties, write_properties
from tidelog.host.directory_lock import DirectoryLock
from tidelog.host.entropy import SystemEntropy
from tidelog.host.filesystem import SystemFilesystem
from tidelog.host.workers import ThreadWorkers
from tidelog.node.formatting import format_node
from tidelog.node.node import Node
from tidelog.node.scripted_answers import Script
from tidelog.sim.nodes.files import MachineFiles
from tidelog.testing.in_process import InProcessNodes, Promises, brokers_known
from tidelog.testing.loop_workers import LoopWorkers
from tidelog.testing.node_journal import NodeJournal
from tidelog.testing.node_thread import NodeThread, NodeWorld

Found = TypeVar("Found")

LOOK_SECONDS = 30.0
IN_MEMORY = Path("/memory")
"""Where the log directories of nodes without a disk seem to lie."""


class ThreadNodeState(NodeState):
    """Of a node that has a thread instead of a process."""

    __slots__ = ("thread",)

    thread: NodeThread | None

    @property
    def state(self) -> str:
        return self.thread.state if self.thread is not None else "gone"


class NodeFiles(SystemFilesystem):
    """Real files of one node. The kernel gives locks back when a process dies; nobody does when a
    thread ends."""

    __slots__ = ("_locks",)

    def __init__(self) -> None:
        self._locks: list[DirectoryLock] = []

    def lock(self, path: str) -> DirectoryLock:
        made = super().lock(path)
        self._locks.append(made)
        return made

    def release_locks(self) -> None:
        locks, self._locks = self._locks, []
        for lock in locks:
            lock.release()


class NodeOnThread:
    """One node over all its lives: what stays is its configuration, its disks and its journal."""

    __slots__ = ("config", "files", "journal", "state", "world")

    def __init__(self, state: ThreadNodeState, config: NodeConfig, memory: bool) -> None:
        self.state = state
        self.config = config
        self.journal = NodeJournal()
        self.files = MachineFiles() if memory else NodeFiles()
        self.world = NodeWorld(self.files, LoopWorkers if memory else ThreadWorkers)

    def start(self) -> None:
        if self.state.state == "gone":
            self.files.release_locks()  # of a life that ended by itself
            self.state.thread = NodeThread(self.config, self.world, self.journal)
            self.state.thread.start()

    def crash(self) -> None:
        """Files lose nothing by the end of a process: the operating system has what was written.
        Memory loses all that was not synced, as a machine without power does."""
        if isinstance(self.files, MachineFiles):
            self.files.lose_unsynced()
        self.files.release_locks()


class ThreadNodes:
    """Implements `testing.in_process.InProcessNodes`."""

    __slots__ = ("_nodes", "directory", "state")

    def __init__(self, shape: Shape, directory: Path | None) -> None:
        self.directory = directory or IN_MEMORY
        self.state = _state_of(directory, shape)
        self._nodes: dict[int, NodeOnThread] = {}
        for node in self.state.nodes.values():
            assert isinstance(node, ThreadNodeState), node
            config = _config_of(self.directory, self.state, node, shape)
            made = self._nodes[node.id] = NodeOnThread(node, config, memory=directory is None)
            format_node(config, self.state.cluster_id, made.world.filesystem, SystemEntropy())

    @property
    def node_ids(self) -> list[int]:
        return list(self._nodes)

    def node(self, node_id: int) -> NodeState:
        return self.state.nodes[node_id]

    def thread(self, node_id: int) -> NodeThread | None:
        return self._nodes[node_id].state.thread

    def journal(self, node_id: int) -> NodeJournal:
        return self._nodes[node_id].journal

    def look(self, node_id: int, at: Callable[[Node], Found]) -> Found | None:
        """None also if it stands still."""
        thread = self.thread(node_id)
        if thread is None or thread.state != "running":
            return None
        try:
            found: Found = thread.look(at, LOOK_SECONDS)
        except (LookTimedOut, RuntimeError):
            return None
        return found

    def promises(self, node_id: int) -> Promises:
        return self.journal(node_id).promises

    def broken_by_itself(self) -> list[str]:
        threads = {node_id: self.thread(node_id) for node_id in self.node_ids}
        return [
            f"node {node_id} ended by itself: {thread.ended_because}"
            for node_id, thread in threads.items()
            if thread is not None and thread.ended_because is not None
        ]

    def start(self, node_ids: Iterable[int]) -> None:
        for node_id in node_ids:
            self._nodes[node_id].start()

    def kill(self, node_id: int) -> bool:
        thread = self._alive(node_id)
        if thread is not None:
            thread.kill(self._nodes[node_id].crash)
        return thread is not None

    def pause(self, node_id: int) -> bool:
        thread = self._alive(node_id)
        if thread is not None:
            thread.pause()
        return thread is not None

    def resume(self, node_id: int) -> bool:
        thread = self._alive(node_id)
        if thread is not None:
            thread.resume()
        return thread is not None

    def stop(self, node_ids: Iterable[int], *, timeout_ms: int) -> list[Stopped]:
        stopped = []
        for node_id in node_ids:
            thread = self._alive(node_id)
            if thread is None:
                continue
            in_time = thread.stop(timeout_ms / 1000)
            if not in_time:
                self.kill(node_id)
            stopped.append(Stopped(node_id, in_time))
        return stopped

    def save(self) -> None:
        """Nobody but us reads it."""

    def exit_status(self, node_id: int) -> str:
        thread = self.thread(node_id)
        reason = None if thread is None else thread.ended_because
        return "ended" if reason is None else f"ended: {reason}"

    def log_text(self, node_id: int) -> str:
        return "".join(f"{line}\n" for line in tuple(self._nodes[node_id].journal.lines))

    def last_lines(self, node_id: int, count: int = LAST_LINES) -> list[str]:
        return list(self._nodes[node_id].journal.lines)[-count:]

    def close(self) -> None:
        for node_id in self._nodes:
            self.kill(node_id)

    def wait_ready(self, node_ids: Iterable[int], timeout_s: float) -> None:
        """Until these serve and know each other. NodeFailed if one does not."""
        wanted = list(node_ids)
        deadline = time.monotonic() + timeout_s
        for node_id in wanted:
            self._wait_serving(node_id, deadline)
        for node_id in wanted:
            self._wait_knowing(node_id, frozenset(wanted), deadline)

    def script(self, script: Script, node_id: int | None) -> None:
        """On one node, or on all that run: they count together."""
        for each in self._nodes if node_id is None else [node_id]:
            thread = self._alive(each)
            if thread is not None:
                thread.add_script(script)

    def clear_scripts(self) -> None:
        for each in self._nodes:
            thread = self._alive(each)
            if thread is not None:
                thread.clear_scripts()

    def _wait_serving(self, node_id: int, deadline: float) -> None:
        thread = self.thread(node_id)
        assert thread is not None, f"node {node_id} was never started"
        try:
            thread.ready.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise NodeFailed(node_id, "does not serve yet", self.last_lines(node_id)) from None
        except Exception as reason:
            raise NodeFailed(node_id, f"ended: {reason}", self.last_lines(node_id)) from reason

    def _wait_knowing(self, node_id: int, others: frozenset[int], deadline: float) -> None:
        """Brokers hear of each other by the metadata, which every one applies for itself."""
        thread = self.thread(node_id)
        assert thread is not None, f"node {node_id} was never started"
        while not others <= thread.look(brokers_known, max(0.1, deadline - time.monotonic())):
            if time.monotonic() >= deadline:
                reason = "does not know all others yet"
                raise NodeFailed(node_id, reason, self.last_lines(node_id))
            time.sleep(0.001)

    def _alive(self, node_id: int) -> NodeThread | None:
        """Running or paused."""
        thread = self.thread(node_id)
        return None if thread is None or thread.state == "gone" else thread


def _state_of(directory: Path | None, shape: Shape) -> ClusterState:
    """As on a disk, or made up for memory."""
    made = (
        layout.plan("test", shape) if directory is None else layout.create(directory, "test", shape)
    )
    nodes: dict[int, NodeState] = {}
    for node_id, node in made.nodes.items():
        mine = nodes[node_id] = ThreadNodeState(
            node.id, node.roles, node.port, node.controller_port, node.http_port, node.rack
        )
        mine.thread = None
    made.nodes = nodes
    return made


def _config_of(directory: Path, state: ClusterState, node: NodeState, shape: Shape) -> NodeConfig:
    data = layout.data_directory(directory, node.id)
    values = layout.properties_of(state, node, shape, data)
    loaded = load_node_config(Inputs(parse_properties(write_properties(values), "config")))
    if loaded.config is None:
        raise ValueError("\n".join(str(each) for each in loaded.problems))
    return loaded.config


if TYPE_CHECKING:
    _NODES: type[InProcessNodes] = ThreadNodes  # the type checker compares them
