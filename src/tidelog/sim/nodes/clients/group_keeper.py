"""An administrator who sets, looks up and deletes what a group without members has committed."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Final

from tidelog.client import Client
from tidelog.client.coordinator import OF_GROUP, Coordinator
from tidelog.client.errors import check
from tidelog.client.groups import GroupAdmin
from tidelog.sim.nodes.clients.history import TopicPartition
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.stage import FAILURES, Stage, pause_s
from tidelog.wire.protocol.schemas.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.wire.protocol.schemas.offset_delete_response import OffsetDeleteResponse

MOVE_OFFSETS, LOOK_UP, DELETE_OFFSETS, DELETE_GROUP = "move", "look_up", "forget", "delete_group"
TASKS: Final = (MOVE_OFFSETS, MOVE_OFFSETS, LOOK_UP, LOOK_UP, DELETE_OFFSETS, DELETE_GROUP)


class GroupKeeper:
    """Rule G2 judges what it is told: nothing that was deleted comes back, nothing else goes."""

    __slots__ = ("_entropy", "_name", "_offset", "_pause_ms", "_stage", "_where")

    def __init__(self, stage: Stage, name: str, pause_ms: int) -> None:
        self._stage = stage
        self._name = name
        self._pause_ms = pause_ms
        self._entropy: Random = stage.stream(name)
        self._where: TopicPartition = (next(iter(stage.partitions)), 0)
        self._offset = 0

    async def run(self, process: ClientProcess) -> None:
        while not self._stage.stopped:
            task = self._entropy.choice(TASKS)
            with suppress(*FAILURES):  # there is no such group, or nobody answers
                await self._do(process.client, task)
                self._stage.history.done[task] += 1
            await asyncio.sleep(pause_s(self._entropy, self._pause_ms))

    async def _do(self, client: Client, task: str) -> None:
        groups = GroupAdmin(client)
        if task == MOVE_OFFSETS:
            self._offset += 1
            await groups.move(self._name, {self._where: self._offset})
        elif task == LOOK_UP:
            await groups.committed(self._name, [self._where])
        elif task == DELETE_OFFSETS:
            await self._delete_offsets(client)
        else:
            assert task == DELETE_GROUP, task
            await groups.delete(self._name)

    async def _delete_offsets(self, client: Client) -> None:
        topic, index = self._where
        part = OffsetDeleteRequestPartition(partition_index=index)
        request = OffsetDeleteRequest(
            group_id=self._name,
            topics=[OffsetDeleteRequestTopic(name=topic, partitions=[part])],
        )

        def verdict(answer: OffsetDeleteResponse) -> None:
            check(answer.error_code, f"group {self._name}")
            check(answer.topics[0].partitions[0].error_code, f"{topic}-{index}")

        coordinator = Coordinator(client, OF_GROUP, self._name)
        await coordinator.ask(request, OffsetDeleteResponse, verdict)
