"""One life of a production node on a thread of this process, with an event loop of its own.

A loop for each node, because a loop can stand still: a paused node is a loop that does not run,
while its sockets still take connections, as those of a process that got SIGSTOP.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future as ThreadFuture
from contextlib import suppress
from typing import Any, NamedTuple

from tidelog.config.node_config import NodeConfig
from tidelog.host.clock import SystemClock
from tidelog.host.entropy import SystemEntropy
from tidelog.host.event_loop import loop_factory
from tidelog.host.gate import GatedNetwork
from tidelog.host.network import TcpNetwork
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import Filesystem, MakeWorkers, Workers
from tidelog.node.life import new_gate, new_network, until_the_end
from tidelog.node.node import Node
from tidelog.node.observation import Observation
from tidelog.node.scripted_answers import Script, ScriptedAnswers
from tidelog.observe.counts import LoopDelay
from tidelog.observe.journal import JournalHandler
from tidelog.observe.stream import EventStream
from tidelog.testing.node_journal import NodeJournal, journals

LAST_WORDS_SECONDS = 5.0
"""For tasks of a killed node to notice it. They are cancelled, so this is never needed."""
OBEYS_WITHIN_SECONDS = 60.0
POLL_SECONDS = 0.05
LAST_TURNS = 4
"""Of its loop: a connection that is just being made gets its transport a turn after it was given
up, which is told to close in another one, and closes in the next."""

_LOGGER = logging.getLogger("tidelog.node")


class NodeWorld(NamedTuple):
    """What a node on a thread is given instead of the machine's."""

    filesystem: Filesystem
    make_workers: MakeWorkers


class NodeThread:
    """Made for one start: a node that starts again gets a new one."""

    def __init__(self, config: NodeConfig, world: NodeWorld, journal: NodeJournal) -> None:
        self.config = config
        self._world = world
        self._journal = journal
        self._thread = threading.Thread(
            target=self._run, name=f"tidelog.node-{config.node_id}", daemon=True
        )
        self._loop = loop_factory()()
        self._loop.set_exception_handler(self._on_error)
        self._workers: list[Workers] = []
        self._network: TcpNetwork | None = None
        self._gate: GatedNetwork | None = None
        self._stop: asyncio.Future[None] | None = None
        self._killed = False
        self._ending = False
        self._standing = threading.Event()
        self._going = threading.Event()
        self._going.set()
        self._stream: EventStream | None = None
        self._observation: Observation | None = None
        self.node: Node | None = None
        self.ready: ThreadFuture[None] = ThreadFuture()
        """Done when it serves, or with the reason why it never will."""
        self.ended_because: Exception | None = None

    # -- from any thread

    def start(self) -> None:
        self._thread.start()

    @property
    def state(self) -> str:
        """`running`, `paused` or `gone`: the words of a process."""
        if not self._thread.is_alive():
            return "gone"
        return "running" if self._going.is_set() else "paused"

    def pause(self) -> None:
        """Nothing of the node runs until `resume`. Returns when it stands still."""
        if self.state != "running":
            return
        self._standing.clear()
        self._going.clear()
        self._call(self._halt)
        deadline = time.monotonic() + OBEYS_WITHIN_SECONDS
        while self._thread.is_alive() and not self._standing.wait(POLL_SECONDS):
            self._obey_by(deadline)

    def resume(self) -> None:
        self._going.set()

    def kill(self, crash: Callable[[], None]) -> None:
        """Connections are reset and nothing is told to anybody; `crash` does to the disk what a
        crash does. Returns when the thread is gone."""
        if self.state == "gone":
            return
        if self.state == "paused":
            self._die(crash)  # its loop stands still, so this thread has it for itself
            self.resume()
        else:
            self._call(self._die_running, crash)
        self._thread.join(OBEYS_WITHIN_SECONDS)
        if self._thread.is_alive():
            self._obey_by(0)

    def stop(self, timeout_s: float) -> bool:
        """As SIGTERM. False if it is not gone in time."""
        self.resume()
        self._call(self._told_to_stop)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def look(self, at: Callable[[Node], Any], timeout_s: float) -> Any:
        """What `at` finds, called on the loop of the node. TimeoutError if it stands still."""
        found: ThreadFuture[Any] = ThreadFuture()

        def work() -> None:
            try:
                if self.node is None:
                    raise RuntimeError("the node has not begun yet")
                found.set_result(at(self.node))
            except Exception as error:
                found.set_exception(error)

        self._call(work)
        return found.result(timeout_s)

    def add_script(self, script: Script) -> None:
        self._change_scripts(lambda answers: answers.add(script))

    def clear_scripts(self) -> None:
        self._change_scripts(ScriptedAnswers.clear)

    def _change_scripts(self, change: Callable[[ScriptedAnswers], None]) -> None:
        """Returns at once if the node stands still: it meets the change when it goes on."""
        changed = threading.Event()

        def work() -> None:
            if self._observation is not None and self._observation.chaos is not None:
                change(self._observation.chaos.answers)
            changed.set()

        self._call(work)
        deadline = time.monotonic() + OBEYS_WITHIN_SECONDS
        while self.state == "running" and not changed.wait(POLL_SECONDS):
            self._obey_by(deadline)

    def _obey_by(self, deadline: float) -> None:
        if time.monotonic() >= deadline:
            node_id = self.config.node_id
            raise TimeoutError(f"somebody holds the event loop of node {node_id} for too long")

    def _call(self, work: Callable[..., object], *arguments: object) -> None:
        """A loop that is closed already has nothing left to be told."""
        try:
            self._loop.call_soon_threadsafe(work, *arguments)
        except RuntimeError:
            if self._thread.is_alive():
                self._thread.join(LAST_WORDS_SECONDS)

    # -- on the thread

    def _run(self) -> None:
        with journals.of_this_thread(self._journal):
            try:
                self._live()
            finally:
                self._journal.close()

    def _live(self) -> None:
        loop = self._loop
        main = loop.create_task(self._main())
        main.add_done_callback(lambda _: self._halt())
        while not (self._killed or main.done()):
            loop.run_forever()
            if not self._going.is_set():
                self._standing.set()
                self._going.wait()
        self._ending = True
        try:
            loop.run_until_complete(self._end())
        finally:
            loop.close()
        if not self.ready.done():
            self.ready.set_exception(self.ended_because or RuntimeError("it was killed"))

    async def _main(self) -> None:
        """What `cli.node_process` does, without a process."""
        config, clock = self.config, SystemClock()
        self._stop = asyncio.get_running_loop().create_future()
        network = self._network = new_network(config, clock)
        gate = self._gate = new_gate(config, network)
        stream = self._stream = EventStream(config.node_id, clock, network.wheel)
        host = NodeHost(
            clock,
            network.wheel,
            gate or network,
            SystemEntropy(),
            stream.emit,
            filesystem=self._world.filesystem,
            make_workers=self._make_workers,
        )
        try:
            self.node = node = Node(config, host)
            handler = JournalHandler(self._journal.write, clock)
            observation = self._observation = Observation(
                node, stream, handler, network, gate, delay=LoopDelay()
            )
            self._journal.follow(stream, node.topic_name)
            await observation.start()
            await node.start(self._on_ready)
            await until_the_end(node, self._stop)
            if node.has_failed:
                self.ended_because = await node.failed()
        except Exception as error:
            self.ended_because = error
            _LOGGER.error("this node cannot go on: %s", error)

    def _on_ready(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    def _told_to_stop(self) -> None:
        if self._stop is not None and not self._stop.done():
            self._stop.set_result(None)

    def _die(self, crash: Callable[[], None]) -> None:
        """Whatever the node still does, until its tasks are cancelled, reaches nobody."""
        self._killed = True
        if self._stream is not None:
            self._stream.flush()  # for whoever checks later what it had committed
        crash()
        if self._network is not None:
            self._network.sever()

    def _die_running(self, crash: Callable[[], None]) -> None:
        self._die(crash)
        self._halt()

    def _halt(self) -> None:
        """Leave `run_forever`; whoever comes late must not stop what ends the loop."""
        if not self._ending:
            self._loop.stop()

    async def _end(self) -> None:
        """As `asyncio.run` ends: what is left is cancelled, so that nothing outlives the loop."""
        left = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=LAST_WORDS_SECONDS)
        if self._observation is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS_SECONDS):
                    await self._observation.stop()
        if self._gate is not None:
            self._gate.close()
        for workers in self._workers:
            workers.close(wait=False)
        loop = asyncio.get_running_loop()
        await loop.shutdown_asyncgens()
        await loop.shutdown_default_executor()
        for _ in range(LAST_TURNS):
            if self._network is not None:
                self._network.sever()
            await asyncio.sleep(0)

    def _make_workers(self, name: str, threads: int) -> Workers:
        workers = self._world.make_workers(name, threads)
        self._workers.append(workers)
        return workers

    def _on_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error that nobody has caught. After a kill it is an echo."""
        if not self._killed:
            _LOGGER.error("%s", context.get("message"), exc_info=context.get("exception"))
