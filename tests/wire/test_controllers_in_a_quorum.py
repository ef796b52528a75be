"""Controllers on a real quorum: what is answered survives, and who is gone is found out."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from support.live_controllers import ControllerMember, LiveControllers
from support.live_quorum import HOST, until
from tidelog.core.errors import Error
from tidelog.host import event_loop
from tidelog.host.clock import SystemClock
from tidelog.host.network import TcpNetwork
from tidelog.rpc import ApiTable, serve
from tidelog.wire.protocol import Listener
from tidelog.wire.protocol.schemas.create_topics_request import CreatableTopic, CreateTopicsRequest
from tidelog.wire.protocol.schemas.create_topics_response import CreateTopicsResponse

GUARD_S = 30


def told(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(story(), GUARD_S)

    event_loop.run(main())


async def create(node: ControllerMember, name: str) -> int:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    answer = await node.ask(CreateTopicsRequest(topics=[topic]), 7, CreateTopicsResponse)
    return answer.topics[0].error_code


def test_what_one_voter_has_answered_is_there_after_a_crash(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveControllers(tmp_path, voters=1) as cluster:
            node = await cluster.active()
            await node.take_in(9)
            assert await create(node, "t") == Error.NONE
            await node.crash()
            await node.start()
            again = await cluster.active()
            assert list(again.controller.image.topic_ids) == ["t"]
            assert await create(again, "t") == Error.TOPIC_ALREADY_EXISTS

    told(story)


def test_only_the_active_controller_decides_and_the_others_know_what_it_decided(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with LiveControllers(tmp_path, voters=3) as cluster:
            active = await cluster.active()
            others = [each for each in cluster.nodes.values() if each is not active]
            await active.take_in(9)
            for other in others:
                assert await create(other, "t") == Error.NOT_CONTROLLER
            assert await create(active, "t") == Error.NONE
            for other in others:
                await until(lambda: "t" in other.controller.image.topic_ids)  # noqa: B023

    told(story)


def test_a_new_active_controller_replaces_a_broker_that_died_with_the_old_one(
    tmp_path: Path,
) -> None:
    """One process was active controller and broker; nobody's connection to it reached us."""

    async def story() -> None:
        network = TcpNetwork(SystemClock())
        accept = serve(ApiTable(Listener.CLIENT, {}), "PLAINTEXT")
        dying, living = [await network.listen(HOST, 0, accept) for _ in range(2)]
        async with LiveControllers(tmp_path, voters=3) as cluster:
            old = await cluster.active()
            await old.take_in(11, dying.port)
            await old.take_in(12, living.port)
            await dying.stop(timeout_ms=1000)
            await old.crash()
            new = await cluster.active()
            assert new is not old
            brokers = new.controller.core.committed.brokers
            await until(lambda: brokers[11].fenced)
            await until(lambda: not new.controller.liveness.probing)
            assert not brokers[12].fenced
        await living.stop(timeout_ms=1000)
        network.close()

    told(story)
