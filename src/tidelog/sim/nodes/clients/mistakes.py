"""An operator who makes mistakes: each one must be refused, with a reason, and harm nobody.

It happens while the cluster is calm. A second process of a node that runs is harmless only as long
as the first one can be heard.
"""

from contextlib import suppress
from random import Random
from typing import Final, NamedTuple

from tidelog.config.node_config import NodeConfig
from tidelog.core.events import Event
from tidelog.host import tasks
from tidelog.host.node_host import NodeHost
from tidelog.node.disks import CannotStart
from tidelog.node.formatting import CannotFormat, format_node
from tidelog.node.life import new_network
from tidelog.node.node import Node
from tidelog.sim.entropy import SeededEntropy
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.stage import Stage
from tidelog.sim.nodes.clock import MachineClock
from tidelog.sim.nodes.cluster import node_config
from tidelog.sim.nodes.cluster_plan import ClusterPlan, Settings
from tidelog.sim.nodes.files import MachineFiles
from tidelog.sim.nodes.server import CLUSTER_ID, Server

GIVEN_UP_AFTER_MS: Final = 3_800
"""Before the calm is over."""
RUNS, COPIED, EMPTY, STRANGE = "runs", "copied", "empty", "strange"
FORMATTED, FOREIGN = "formatted", "foreign"


class Start(NamedTuple):
    """A node is started like this."""

    files: str
    """Those of the node that runs, a copy of them, or others."""
    settings: Settings = ()
    port_taken: bool = False


class Format(NamedTuple):
    files: str
    cluster_id: str | None
    refused: bool = True
    users: tuple[str, ...] = ()


MISTAKES: Final[tuple[Start | Format, ...]] = (
    Start(RUNS),
    Start(EMPTY),
    Start(FORMATTED, (("log.dirs", "/nowhere"),)),
    Start(FOREIGN),
    Start(FORMATTED, port_taken=True),
    Format(FORMATTED, "another"),
    Format(FORMATTED, CLUSTER_ID, refused=False),
    Format(FORMATTED, None, refused=False),
    Format(FORMATTED, CLUSTER_ID, users=("SCRAM-SHA-512=[name=ann,password=secret]",)),
    Format(EMPTY, "no / id"),
    Format(EMPTY, None),
    Format(EMPTY, CLUSTER_ID, users=("nonsense",)),
    Format(EMPTY, CLUSTER_ID, False, ("SCRAM-SHA-256=[name=ann,password=secret]",)),
    Format(STRANGE, CLUSTER_ID),
    Start(COPIED),
)


class Mistakes:
    """Makes them all, one after the other, and comes to its end."""

    __slots__ = ("_entropy", "_plan", "_seed", "_stage")

    def __init__(self, stage: Stage, name: str, plan: ClusterPlan, seed: int) -> None:
        self._stage = stage
        self._plan = plan
        self._seed = seed
        self._entropy: Random = stage.stream(name)

    async def run(self, process: ClientProcess) -> None:
        node_id = self._entropy.randrange(1, self._plan.nodes + 1)
        for mistake in MISTAKES:
            server = self._stage.server(node_id)
            if isinstance(mistake, Format):
                self._format(server, mistake)
            elif self._makes_sense(mistake, node_id):
                await self._start(process, server, mistake)
            self._stage.history.done[f"mistake {type(mistake).__name__.lower()}"] += 1

    def _makes_sense(self, mistake: Start, node_id: int) -> bool:
        """Only voters look who answers for them, and there is no other node in a cluster of one."""
        if mistake.files == FOREIGN:
            return self._plan.nodes > 1
        return mistake.files != COPIED or node_id in self._plan.voter_ids

    def _entropy_of(self, what: object) -> SeededEntropy:
        return SeededEntropy(self._seed, f"mistake {what}")

    def _files(self, server: Server, kind: str) -> MachineFiles:
        if kind == RUNS:
            return server.files
        files = server.files.copy() if kind == COPIED else MachineFiles()
        config = server.config
        if kind in (FORMATTED, FOREIGN):
            owner = 1 + server.node_id % self._plan.nodes if kind == FOREIGN else server.node_id
            owners = node_config(owner, self._plan)
            format_node(owners, CLUSTER_ID, files, self._entropy_of(kind))
        elif kind != COPIED:
            for path in (*config.log_dirs, config.metadata_log_dir):
                files.make_directory(path)
                if kind == STRANGE:
                    files.open(path).make_dir("family-photos")
        return files

    def _format(self, server: Server, mistake: Format) -> None:
        files = self._files(server, mistake.files)
        try:
            format_node(
                server.config,
                mistake.cluster_id,
                files,
                self._entropy_of(mistake),
                users=mistake.users,
            )
        except CannotFormat:
            assert mistake.refused, f"refused: {mistake}"
        else:
            alone = mistake.cluster_id is None and [*self._plan.voter_ids] == [server.node_id]
            assert alone or not mistake.refused, f"done: {mistake}"

    async def _start(self, process: ClientProcess, server: Server, mistake: Start) -> None:
        plan = self._plan._replace(settings=(*self._plan.settings, *mistake.settings))
        config = node_config(server.node_id, plan)
        if mistake.port_taken:
            with suppress(OSError):  # a node that was refused late has it still
                await process.listen(config.listeners[0].port)
        refusal = await self._refusal(process, config, self._files(server, mistake.files))
        assert refusal is not None, f"started: {mistake}"
        process.stop_listening()

    async def _refusal(
        self, process: ClientProcess, config: NodeConfig, files: MachineFiles
    ) -> Exception | None:
        clock = MachineClock(process.kernel)
        network = new_network(config, clock)
        host = NodeHost(
            clock,
            network.wheel,
            network,
            self._entropy_of(config.node_id),
            _heard_by_nobody,
            filesystem=files,
            make_workers=process.make_workers,
        )
        try:
            node = Node(config, host)
            async with tasks.within(GIVEN_UP_AFTER_MS):
                await node.start(_never_ready)
        except CannotStart as refusal:
            return refusal
        except TimeoutError:
            return None
        return None


def _heard_by_nobody(_event: Event) -> None:
    """A node that does not start has nothing to tell."""


def _never_ready() -> None:
    raise AssertionError("a node that must not run is ready")
