"""Breaking a local cluster on purpose, and mending it: what is broken, by whom and since when.

What is broken is read off the cluster itself, so faults of `tidelog chaos` are seen too.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from tidelog.cluster import faults
from tidelog.cluster import state as states
from tidelog.cluster.faults import ControlFailed
from tidelog.cluster.nodes import LocalNodes, NodeFailed
from tidelog.cluster.readiness import wait_ready
from tidelog.console.live import Document
from tidelog.console.refusal import Refused

KILL, PAUSE, CUT, SLOW, FULL_DISK = "kill", "pause", "cut", "slow", "fill-disk"
STOP_WITHIN_MS = 15_000
READY_WITHIN_MS = 30_000

Login = Mapping[str, str]


class Fault(NamedTuple):
    id: str
    kind: str
    node: int | None
    detail: str


class Chaos:
    """Owner of what is remembered about faults; one change at a time."""

    __slots__ = ("_directory", "_lock", "_started")

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = asyncio.Lock()
        self._started: dict[str, tuple[str, int]] = {}
        """By whom, and when (wall clock), of the faults that were made here."""

    def load(self) -> LocalNodes:
        known = states.load(self._directory)
        if known is None:
            raise Refused(HTTPStatus.CONFLICT, "the cluster is gone", "tidelog up")
        return LocalNodes(self._directory, known)

    async def active(self) -> list[Document]:
        found = faults_in(await asyncio.to_thread(self.load))
        known = {fault.id for fault in found}
        for gone in [each for each in self._started if each not in known]:
            del self._started[gone]
        return [self._document(fault) for fault in found]

    def _document(self, fault: Fault) -> Document:
        by, since_ms = self._started.get(fault.id, ("the command line", None))
        return {**fault._asdict(), "by": by, "since_ms": since_ms}

    async def act(self, change: Callable[[LocalNodes], None], by: str) -> None:
        """Carry out a change on a thread; Refused if a node does not take it."""
        async with self._lock:
            nodes = await asyncio.to_thread(self.load)
            before = {fault.id for fault in faults_in(nodes)}
            try:
                await asyncio.to_thread(change, nodes)
            except ControlFailed as reason:
                advice = f"tidelog logs broker {reason.node_id}"
                raise Refused(HTTPStatus.BAD_GATEWAY, str(reason), advice) from None
            finally:
                now_ms = int(time.time() * 1000)
                for fault in faults_in(await asyncio.to_thread(self.load)):
                    if fault.id not in before:
                        self._started[fault.id] = (by, now_ms)

    async def restart(self, node_id: int, login: Login) -> None:
        async with self._lock:
            nodes = await asyncio.to_thread(self.load)
            await asyncio.to_thread(_stop_and_start, nodes, node_id)
            try:
                await wait_ready(nodes, timeout_ms=READY_WITHIN_MS, expected=[node_id])
                node = nodes.node(node_id)
                if node.blocked or node.latency_ms or node.full_disks:
                    await asyncio.to_thread(faults.tell, nodes, [node_id], login)
            except (NodeFailed, ControlFailed) as reason:
                advice = f"tidelog logs broker {node_id}"
                raise Refused(HTTPStatus.BAD_GATEWAY, str(reason), advice) from None


def _stop_and_start(nodes: LocalNodes, node_id: int) -> None:
    nodes.stop([node_id], timeout_ms=STOP_WITHIN_MS)
    nodes.start([node_id], attached=False)


def faults_in(nodes: LocalNodes) -> list[Fault]:
    found = []
    count = len(nodes.state.nodes)
    for node in nodes.state.nodes.values():
        if node.state == "gone":
            found.append(Fault(f"{KILL}-{node.id}", KILL, node.id, "it does not run"))
        elif node.state == "paused":
            found.append(Fault(f"{PAUSE}-{node.id}", PAUSE, node.id, "it hears and says nothing"))
        if count > 1 and len(node.latency_ms) == count - 1:
            latency_ms = max(node.latency_ms.values())
            detail = f"{latency_ms} ms to and from everybody"
            found.append(Fault(f"{SLOW}-{node.id}", SLOW, node.id, detail))
        if node.full_disks:
            found.append(Fault(f"{FULL_DISK}-{node.id}", FULL_DISK, node.id, "its disks look full"))
    cuts = [
        f"{n.id} from {','.join(map(str, n.blocked))}"
        for n in nodes.state.nodes.values()
        if n.blocked
    ]
    if cuts:
        found.append(Fault(CUT, CUT, None, "; ".join(cuts)))
    return found


def kill(node_id: int) -> Callable[[LocalNodes], None]:
    return lambda nodes: _signalled(nodes, nodes.kill(node_id), node_id)


def pause(node_id: int) -> Callable[[LocalNodes], None]:
    return lambda nodes: _signalled(nodes, nodes.pause(node_id), node_id)


def resume(node_id: int) -> Callable[[LocalNodes], None]:
    return lambda nodes: _signalled(nodes, nodes.resume(node_id), node_id)


def _signalled(nodes: LocalNodes, sent: bool, node_id: int) -> None:
    nodes.save()
    if not sent:
        error = f"node {node_id} does not run"
        raise Refused(HTTPStatus.CONFLICT, error, f"restart {node_id}")


def cut(groups: Sequence[Sequence[int]], login: Login) -> Callable[[LocalNodes], None]:
    return lambda nodes: faults.cut(nodes, groups, login)


def uncut(login: Login) -> Callable[[LocalNodes], None]:
    def mend(nodes: LocalNodes) -> None:
        for node in nodes.state.nodes.values():
            node.blocked.clear()
        faults.tell(nodes, nodes.node_ids, login)

    return mend


def slow(node_id: int, latency_ms: int, login: Login) -> Callable[[LocalNodes], None]:
    return lambda nodes: faults.slow(nodes, node_id, latency_ms, login)


def heal(login: Login) -> Callable[[LocalNodes], None]:
    return lambda nodes: faults.heal(nodes, login)


def fill_disk(node_id: int, login: Login, *, full: bool) -> Callable[[LocalNodes], None]:
    return lambda nodes: faults.fill_disk(nodes, node_id, login, full=full)
