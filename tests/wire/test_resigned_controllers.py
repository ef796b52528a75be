"""Who asked for a change hears what became of it, also from a controller that lost its office."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from support.controller_node import ControllerNode, controller_node
from support.live_controllers import ControllerMember, LiveControllers
from support.live_quorum import until as until_so
from support.loopback import until
from tidelog.core.errors import Error
from tidelog.host import event_loop
from tidelog.wire.protocol.schemas.create_topics_request import CreatableTopic, CreateTopicsRequest
from tidelog.wire.protocol.schemas.create_topics_response import CreateTopicsResponse

GUARD_S = 30
TIMEOUT_MS = 20_000


def told(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(story(), GUARD_S)

    event_loop.run(main())


def wish(*names: str) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)


async def create(node: ControllerMember | ControllerNode, *names: str) -> list[int]:
    answer = await node.ask(wish(*names), 7, CreateTopicsResponse)
    return [each.error_code for each in answer.topics]


async def lost_office(node: ControllerMember | ControllerNode, held: int) -> None:
    core = node.controller.core
    await until_so(lambda: not core.active and core.held_answers == held)


# ---- on a real quorum


def test_a_topic_that_waits_for_a_majority_is_created_though_its_controller_resigned(
    tmp_path: Path,
) -> None:
    """The next leader is the one that resigned: nobody else has its record."""

    async def story() -> None:
        async with LiveControllers(tmp_path, voters=3) as cluster:
            active = await cluster.active()
            await active.take_in(9)
            others = [each for each in cluster.nodes.values() if each is not active]
            for other in others:
                await other.crash()
            asked = asyncio.ensure_future(create(active, "t"))
            await lost_office(active, held=1)
            assert await create(active, "t") == [Error.NOT_CONTROLLER], "nothing was written"
            assert not asked.done()
            await others[0].start()
            assert await asked == [Error.NONE]
            assert "t" in active.controller.core.committed.topic_ids
            assert active.controller.core.held_answers == 0

    told(story)


def test_a_topic_that_another_leader_does_not_know_may_be_asked_for_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveControllers(tmp_path, voters=3) as cluster:
            old = await cluster.active()
            await old.take_in(9)
            await cluster.all_applied(old.member.log_end_offset)
            others = [each for each in cluster.nodes.values() if each is not old]
            old.cut_off(*others)
            for other in others:
                other.cut_off(old)
            asked = asyncio.ensure_future(create(old, "t"))
            await lost_office(old, held=1)
            await until_so(lambda: any(each.controller.active for each in others))
            (new,) = [each for each in others if each.controller.active]
            assert not asked.done()
            for node in cluster.nodes.values():
                node.heal()
            assert await asked == [Error.NOT_CONTROLLER]
            assert old.controller.core.held_answers == 0
            assert await create(new, "t") == [Error.NONE]

    told(story)


# ---- with a clock of our own


async def waiting(node: ControllerNode, *names: str) -> "asyncio.Future[list[int]]":
    """Topics that were asked for and written, of a controller that has resigned since."""
    await node.start_brokers(1)
    node.quorum.held = True
    asked = asyncio.ensure_future(create(node, *names))
    await until(lambda: node.controller.core.pending_answers == len(names))
    node.quorum.resign()
    assert node.controller.core.held_answers == len(names)
    return asked


def test_what_nobody_learns_in_time_is_told_so(tell) -> None:
    async def story():
        async with controller_node() as node:
            asked = await waiting(node, "t", "u")
            node.pass_time(TIMEOUT_MS - 1000)
            await asyncio.sleep(0)
            assert not asked.done()
            node.pass_time(2000)
            assert await asked == [Error.REQUEST_TIMED_OUT] * 2
            assert node.controller.core.held_answers == 0

    tell(story)


def test_an_answer_to_nobody_is_not_kept(tell) -> None:
    async def story():
        async with controller_node() as node:
            await node.start_brokers(1)
            deadlines, closed = len(node.network.wheel), node.closed
            node.quorum.held = True
            peer = node.peer()
            peer.send(wish("t"), 7, lambda _: None, timeout_ms=TIMEOUT_MS)
            await until(lambda: node.controller.core.pending_answers)
            node.quorum.resign()
            assert node.controller.core.held_answers == 1
            peer.close()
            await until(lambda: node.closed > closed)
            assert node.controller.core.held_answers == 0
            assert len(node.network.wheel) <= deadlines
            node.quorum.elect()
            assert "t" in node.image.topic_ids, "it was created all the same"

    tell(story)


def test_a_controller_that_stops_lets_nobody_wait(tell) -> None:
    async def story():
        async with controller_node() as node:
            asked = await waiting(node, "t")
            node.controller.stop()
            assert await asked == [Error.NOT_CONTROLLER]
            assert node.controller.core.held_answers == 0

    tell(story)


def test_every_topic_of_a_request_is_told_of_when_the_last_one_is_known(tell) -> None:
    async def story():
        async with controller_node() as node:
            asked = await waiting(node, "t", "u")
            node.quorum.log.pop()
            node.quorum.elect()
            assert await asked == [Error.NONE, Error.NOT_CONTROLLER]

    tell(story)
