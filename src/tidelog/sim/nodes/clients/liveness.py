"""What clients may expect of a healed cluster: groups that have read everything, and no
transaction that nobody ends."""

import asyncio
from collections.abc import Iterable
from typing import Final

from tidelog.client import Client
from tidelog.client.groups import GroupAdmin
from tidelog.client.offsets import end_offsets
from tidelog.sim.nodes.clients.history import GroupLog
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.readers import everything
from tidelog.sim.nodes.clients.stage import FAILURES, INPUTS, Stage
from tidelog.sim.nodes.server import Server

LOOK_EVERY_S: Final = 0.2
STABLE: Final = "Stable"


class Finisher:
    """Looks at all groups until each has committed the end of `inputs`; then members may go."""

    __slots__ = ("_groups", "_stage", "missing")

    def __init__(self, stage: Stage, groups: dict[str, bool]) -> None:
        """Groups by name, and whether anybody is a member of them."""
        self._stage = stage
        self._groups = groups
        self.missing: str | None = "nobody has looked at the groups yet"

    async def run(self, process: ClientProcess) -> None:
        while True:
            try:
                self.missing = self._stage.still_writes_inputs() or await self._look(process.client)
            except FAILURES as error:
                self.missing = f"groups cannot be asked about: {error}"
            if self.missing is None:
                self._stage.drained = True
                return
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self, client: Client) -> str | None:
        if not self._groups:
            return None
        wheres = everything({INPUTS: self._stage.partitions[INPUTS]})
        ends = await end_offsets(client, wheres)
        for name, has_members in self._groups.items():
            log = self._stage.history.groups[name]
            missing = await self._look_at(client, log, ends, has_members=has_members)
            if missing is not None:
                return missing
        return None

    async def _look_at(
        self, client: Client, log: GroupLog, ends: dict[tuple[str, int], int], *, has_members: bool
    ) -> str | None:
        admin = GroupAdmin(client)
        if has_members:
            state = (await admin.describe(log.name)).state
            if state != STABLE:
                return f"group {log.name} is {state}"
        committed = await admin.committed(log.name, ends, stable=True)
        for where, end in ends.items():
            offset = committed[where].offset if where in committed else 0
            if offset < end:
                return f"group {log.name} has committed {offset} of {end} in {where[0]}-{where[1]}"
        return None


async def note_where_groups_ended(client: Client, stage: Stage) -> None:
    """What each group has committed, asked when everything is at rest. Asked any earlier, a
    record that is committed late could still be read and committed after the question."""
    wheres = everything({INPUTS: stage.partitions.get(INPUTS, 0)})
    for log in stage.history.groups.values():
        committed = await GroupAdmin(client).committed(log.name, wheres, stable=True)
        log.ended_at = {where: each.offset for where, each in committed.items()}


def open_transaction(servers: Iterable[Server]) -> str | None:
    """A partition in which a transaction is still open, in words."""
    for server in servers:
        if server.node is None or server.node.broker is None:
            continue
        for hosted in server.node.broker.replicas.hosted.values():
            leader = hosted.leader
            if leader is None:
                continue
            stable, high_watermark = leader.state.last_stable_offset, leader.state.high_watermark
            if stable != high_watermark:
                return (
                    f"a transaction is open in {hosted.topic}-{hosted.index}: last stable offset "
                    f"{stable} of {high_watermark}"
                )
    return None
