"""The clients of a whole-node run, from their first topic to the last read."""

import asyncio
from contextlib import suppress
from typing import Final

from tidelog.client import Admin, NewTopic
from tidelog.client.admin import PREFERRED, UNCLEAN
from tidelog.client.offsets import end_offsets
from tidelog.sim.nodes.client_plan import (
    ACKS_ALL,
    LATE_NAMES,
    OWN_ASSIGNMENT,
    ClientPlan,
    WriterPlan,
)
from tidelog.sim.nodes.clients.access_churn import AccessChurn
from tidelog.sim.nodes.clients.churn import Churn
from tidelog.sim.nodes.clients.group_keeper import GroupKeeper
from tidelog.sim.nodes.clients.history import GroupLog, History
from tidelog.sim.nodes.clients.hostile import Hostile
from tidelog.sim.nodes.clients.inspector import Inspector
from tidelog.sim.nodes.clients.late_writer import LateWriter
from tidelog.sim.nodes.clients.liveness import (
    Finisher,
    note_where_groups_ended,
    open_transaction,
)
from tidelog.sim.nodes.clients.members import Member
from tidelog.sim.nodes.clients.mistakes import Mistakes
from tidelog.sim.nodes.clients.outcast import Outcast
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.processors import Processor
from tidelog.sim.nodes.clients.readers import Reader, everything, read_back
from tidelog.sim.nodes.clients.stage import (
    FAILURES,
    GAMBLES,
    INPUTS,
    INPUTS_WRITER,
    OUTPUTS,
    TRANSFERS,
    Stage,
)
from tidelog.sim.nodes.clients.transactional import TransactionalWriter
from tidelog.sim.nodes.clients.writers import Writer
from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.loop import OnError
from tidelog.sim.nodes.plan import NodePlan
from tidelog.sim.nodes.topic_plan import TopicPlan

GAMBLE_PAUSE_MS: Final = 50


class Workload:
    """Starts the clients of a plan, stops them, and reads everything back."""

    def __init__(self, cluster: NodeCluster, plan: NodePlan, on_error: OnError) -> None:
        self._cluster = cluster
        self._plan = plan
        self._stage = Stage(
            cluster, plan.seed, {each.name: each.partitions for each in _topics(plan)}, on_error
        )
        self._admin = self._stage.new_process()
        self._finisher = Finisher(self._stage, _groups(plan.clients))

    @property
    def history(self) -> History:
        return self._stage.history

    # -- beginning and end

    def create_topics(self) -> asyncio.Task[None]:
        async def create() -> None:
            admin = Admin(self._admin.client)
            for name, partitions, factor, settings in _topics(self._plan):
                await admin.create_topic(NewTopic(name, partitions, factor, dict(settings)))

        return self._admin.spawn(create())

    def begin(self) -> None:
        stage, plan = self._stage, self._plan.clients
        topics = [each.name for each in self._plan.topics]
        for number, writer in enumerate(plan.writers):
            stage.start(f"w{number}", Writer(stage, writer, f"w{number}", topics).run)
        for number, transactional in enumerate(plan.transactional):
            TransactionalWriter(stage, transactional, f"t{number}").start()
        for number, late in enumerate(plan.late):
            LateWriter(stage, late, f"{LATE_NAMES}{number}").start()
        if plan.has_inputs:
            writer = WriterPlan(ACKS_ALL, True, 1, 0, plan.inputs_pause_ms)
            stage.start(INPUTS_WRITER, Writer(stage, writer, INPUTS_WRITER, [INPUTS]).run)
        if plan.gambles:
            writer = WriterPlan(ACKS_ALL, True, 1, 0, GAMBLE_PAUSE_MS)
            stage.start("b0", Writer(stage, writer, "b0", [GAMBLES]).run)
            stage.start("b1", self._watch_gambles)
        self._begin_groups()
        self._begin_others()
        for number in range(plan.committed_readers + plan.plain_readers):
            committed = number < plan.committed_readers
            stage.start(f"r{number}", Reader(stage, f"r{number}", committed=committed).run)
        for number, rack in enumerate(plan.rack_readers):
            reader = Reader(stage, f"k{number}", committed=False, rack=rack)
            stage.start(f"k{number}", reader.run)

    def _begin_others(self) -> None:
        """Those who are judged by nothing but that others do not suffer."""
        stage, plan, secured = self._stage, self._plan.clients, self._plan.cluster.secured
        for number, churn in enumerate(plan.churn):
            stage.start(f"c{number}", Churn(stage, f"c{number}", churn).run)
        for number, hostile in enumerate(plan.hostile):
            stage.start(f"h{number}", Hostile(stage, f"h{number}", hostile).run)
        for number, pause_ms in enumerate(plan.keepers_pause_ms):
            stage.start(f"k{number}", GroupKeeper(stage, f"k{number}", pause_ms).run)
        for number, pause_ms in enumerate(plan.access_pause_ms):
            churn_of_access = AccessChurn(stage, f"a{number}", pause_ms, secured=secured)
            stage.start(f"a{number}", churn_of_access.run)
        for number, pause_ms in enumerate(plan.outcasts_pause_ms if secured else ()):
            outcast = Outcast(stage, f"o{number}", self._plan.cluster, pause_ms)
            stage.start(f"o{number}", outcast.run)
        for number, pause_ms in enumerate(plan.inspectors_pause_ms):
            inspector = Inspector(stage, f"n{number}", self._plan.cluster, pause_ms)
            stage.start(f"n{number}", inspector.run)
        if plan.mistakes:
            mistakes = Mistakes(stage, "m0", self._plan.cluster, self._plan.seed)
            stage.start("m0", mistakes.run)

    def _begin_groups(self) -> None:
        stage, plan = self._stage, self._plan.clients
        for number, group in enumerate(plan.groups):
            log = stage.history.groups[f"g{number}"] = GroupLog(f"g{number}", exactly_once=False)
            for member in range(group.members):
                Member(stage, group, log, f"g{number}m{member}").start()
        for number, processor in enumerate(plan.processors):
            log = stage.history.groups[f"p{number}"] = GroupLog(f"p{number}", exactly_once=True)
            for instance in range(processor.instances):
                Processor(stage, processor, log, f"p{number}i{instance}").start()

    def stop(self) -> None:
        """Nothing new is written. Groups read what there is."""
        self._stage.stopped = True
        self._stage.start("finisher", self._finisher.run)

    def unfinished(self) -> str | None:
        """What clients still wait for, in words; None if nothing."""
        if not self._stage.stopped:
            return None
        return (
            open_transaction(self._cluster.servers.values())
            or self._finisher.missing
            or self._stage.still_running()
        )

    def read_back(self) -> asyncio.Task[None]:
        process = self._stage.new_process()

        async def read() -> None:
            await note_where_groups_ended(process.client, self._stage)
            await read_back(process, self._stage.partitions, self.history)

        return process.spawn(read())

    # -- what faults ask for

    def elect(self, unclean: bool) -> bool:
        """Preferred leaders, for every partition; or any, where a loss is allowed and nobody
        leads. False if there is no such partition."""
        if unclean and not self._plan.clients.gambles:
            return False
        self._admin.spawn(self._elect(unclean))
        return True

    async def _elect(self, unclean: bool) -> None:
        partitions = [
            where
            for where in everything(self._stage.partitions)
            if not unclean or where[0] == GAMBLES
        ]
        kind = UNCLEAN if unclean else PREFERRED
        try:
            await Admin(self._admin.client).elect_leaders(partitions, kind=kind)
        except FAILURES:
            return  # nobody could be asked; the next one tries again

    async def _watch_gambles(self, process: ClientProcess) -> None:
        """Asks where they end, which goes back when something is lost."""
        gambles = [where for where in everything(self._stage.partitions) if where[0] == GAMBLES]
        while not self._stage.stopped:
            with suppress(*FAILURES):
                await end_offsets(process.client, gambles)
            await asyncio.sleep(GAMBLE_PAUSE_MS / 1000)


def _topics(plan: NodePlan) -> list[TopicPlan]:
    """Those of the plan, which writers use, and those that other clients need."""
    clients, factor = plan.clients, plan.cluster.replication_factor
    topics = list(plan.topics)
    if clients.has_transfers:
        topics.append(TopicPlan(TRANSFERS, clients.transfers_partitions, factor))
    if clients.has_inputs:
        topics.append(TopicPlan(INPUTS, clients.inputs_partitions, factor))
    if clients.processors:
        topics.append(TopicPlan(OUTPUTS, clients.outputs_partitions, factor))
    for gamble in clients.gambles:
        settings = (
            ("min.insync.replicas", "1"),
            ("unclean.leader.election.enable", "true" if gamble.automatic else "false"),
        )
        topics.append(TopicPlan(GAMBLES, gamble.partitions, factor, settings))
    return topics


def _groups(plan: ClientPlan) -> dict[str, bool]:
    """Names of groups, and whether they have members."""
    groups = {f"g{number}": True for number in range(len(plan.groups))}
    for number, each in enumerate(plan.processors):
        groups[f"p{number}"] = each.protocol != OWN_ASSIGNMENT
    return groups
