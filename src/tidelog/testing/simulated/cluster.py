"""A cluster on virtual time: the same seed does the same, to the last step."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

from tidelog.client import Client
from tidelog.cluster.layout import Shape
from tidelog.node.scripted_answers import OWN_CLIENT
from tidelog.sim.nodes.cluster import BROKER_PORT, machine_name
from tidelog.testing import reading
from tidelog.testing.cluster import SIM, START_WITHIN_MS, WAIT_SECONDS, Cluster, settings_of
from tidelog.testing.simulated.clock import Duration, SimClock
from tidelog.testing.simulated.nodes import SimNodes
from tidelog.testing.simulated.program import NotInThisWorld
from tidelog.testing.simulated.story import SimEvents

Result = TypeVar("Result")

RUN_LIMIT = "10min"
LAST_MOMENTS = 50


class SimCluster(Cluster):
    """What `Cluster(host="sim")` makes. Its world stands still unless the test waits for
    something: in a method of the cluster, in `clock.advance`, or in `run`."""

    __slots__ = ("_clock", "_entered", "seed")

    _nodes: SimNodes

    def __init__(
        self,
        brokers: int = 3,
        *,
        host: str = SIM,
        seed: int | None = None,
        config: Mapping[str, object] | None = None,
        controllers: int | None = None,
        separate: bool = False,
        racks: Sequence[str] = (),
        directory: Path | None = None,
        disk: Path | None = None,
        secure: bool = False,
    ) -> None:
        _check(brokers, 0 if seed is None else seed, secure=secure)
        if directory is not None or disk is not None:
            raise ValueError('disk= needs host="process" or "thread": these disks are simulated')
        self.seed = 0 if seed is None else seed
        """0 if none was given."""
        texts = settings_of(config)
        self._shape = Shape(brokers, controllers, tuple(racks), texts, separate=separate)
        self._nodes = SimNodes(self._shape, self.seed)
        self._clock = SimClock(self._nodes.world)
        self._entered = False
        self.events = SimEvents(self._nodes.story)

    def __enter__(self) -> Self:
        self._entered = True
        try:
            self._nodes.start(self._nodes.node_ids)
            self.wait_ready()
        except BaseException as error:
            self._note(error)
            self.close()
            raise
        return self

    async def __aenter__(self) -> Self:
        """The same: nothing of it waits for the world of the caller's event loop."""
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def close(self) -> None:
        entered, self._entered = self._entered, False
        if entered:
            self._nodes.close()

    # ---- virtual time ----

    @property
    def clock(self) -> SimClock:
        return self._clock

    def run(self, work: Coroutine[Any, Any, Result], limit: Duration = RUN_LIMIT) -> Result:
        """Run a coroutine in the world of the cluster, to its end: what it awaits takes virtual
        time. TimeoutError if it is not done after so much of it."""
        if not asyncio.iscoroutine(work):
            raise TypeError(f"{work!r} is no coroutine: call the async function, run(story())")
        try:
            self._check_entered()
        except RuntimeError:
            work.close()
            raise
        return self._nodes.world.run(work, limit)

    def client(self, client_id: str = "test") -> Client:
        """Our own client on a machine of its own, for coroutines of `run`."""
        self._check_entered()
        return self._nodes.world.new_client(client_id)

    @property
    def digest(self) -> str:
        """One number over the time and order of every step and every event so far. Two runs were
        the same if they were asked for it at the same moments, and it was the same."""
        return self._nodes.world.kernel.digest.hexdigest()

    # ---- reading ----

    @property
    def host(self) -> str:
        return SIM

    @property
    def bootstrap_servers(self) -> str:
        _has_no("bootstrap_servers")

    @property
    def client_properties(self) -> dict[str, str]:
        _has_no("client_properties")

    def address(self, node_id: int) -> tuple[str, int]:
        _has_no(f"address({node_id})")

    def http_port(self, node_id: int) -> int:
        _has_no(f"http_port({node_id})")

    def data_dir(self, node_id: int) -> Path:
        raise ValueError('these disks are simulated: Cluster(host="thread", disk=…) has files')

    def state(self, node_id: int) -> dict[str, Any]:
        document = self._look(node_id, "/state")
        found: dict[str, Any] = {} if document is None else json.loads(document)
        return found

    def metrics(self, node_id: int) -> dict[str, float]:
        document = self._look(node_id, "/metrics")
        if document is None:
            raise ConnectionError(f"node {node_id} does not tell its metrics: it does not run")
        return reading.parse_metrics(document.decode())

    def _look(self, node_id: int, path: str) -> bytes | None:
        """What a node would say over HTTP, without any time; None if it says nothing."""
        server = self._nodes.server(node_id)
        looking = server.looking
        if looking is None or not server.works:
            return None
        return self._nodes.look(node_id, lambda _: looking.ask(path))

    def wait(self, condition: Callable[[], object], timeout: float = WAIT_SECONDS) -> None:
        """Until it is so; TimeoutError after so many virtual seconds."""
        self._nodes.world.wait(condition, timeout)

    def wait_ready(self, brokers: Sequence[int] | None = None) -> None:
        self._check_entered()
        self._nodes.wait_ready(brokers or self.brokers, START_WITHIN_MS / 1000)

    def ask(self, work: Callable[[Client], Coroutine[Any, Any, Result]]) -> Result:
        self._check_entered()
        asked = self._asked_nodes()
        bootstrap = ",".join(f"{machine_name(node.id)}:{BROKER_PORT}" for node in asked)

        async def ask() -> Result:
            async with self._nodes.world.new_operator(bootstrap, OWN_CLIENT) as client:
                return await work(client)

        return self._nodes.world.ask(ask)

    def _broker_address(self, node_id: int) -> tuple[str, int]:
        return machine_name(node_id), BROKER_PORT

    # ---- changing ----

    def partition_off(self, *groups: Sequence[int]) -> None:
        parts = self._parts(groups)
        told = " from ".join(",".join(map(str, part)) for part in parts)
        self._nodes.story.world("Fault", f"the test cuts {told}")
        self._nodes.cut(parts)

    def slow(self, node_id: int, latency_ms: int) -> None:
        self._nodes.story.world("Fault", f"the test slows node {node_id} by {latency_ms} ms")
        self._nodes.slow(node_id, latency_ms)

    def heal(self) -> None:
        self._nodes.story.world("Fault", "the test heals all wires")
        self._nodes.heal()

    def _remind(self, node_id: int) -> None:
        """Wires are cut outside of nodes: one that starts again has nothing to be told."""

    # ---- telling ----

    def last_events(self) -> list[str]:
        return self._nodes.story.last(LAST_MOMENTS)

    def report(self) -> str:
        return "\n".join([super().report(), self.replay])

    @property
    def replay(self) -> str:
        """How to see this again."""
        return (
            f"seed {self.seed}, {self.clock.now():.3f} s of virtual time:"
            f' Cluster(host="{SIM}", seed={self.seed}, …) does the same again'
        )

    def _check_entered(self) -> None:
        if not self._entered:
            raise RuntimeError("this cluster has not begun, or is gone: use it in its with block")


def _check(brokers: int, seed: int, *, secure: bool) -> None:
    if brokers < 1:
        raise ValueError(f"brokers={brokers}: at least one")
    if seed < 0:
        raise ValueError(f"seed={seed}: a number from 0 on")
    if secure:
        raise ValueError('secure=True needs host="process": simulated nodes have no TLS')


def _has_no(what: str) -> NoReturn:
    raise NotInThisWorld(
        f"{what}: a simulated cluster has virtual time and no real sockets, so only"
        ' cluster.client() reaches it. Cluster(host="thread") serves every other client'
    )
