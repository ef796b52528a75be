"""Producer ids and deleted records, asked for over TCP."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from support.batches import batch
from support.lone_broker import LoneBroker, lone_broker
from support.loopback import run
from support.scripted_controller import ALLOCATE, ScriptedController, scripted_controller
from tidelog.core.metadata import records as r
from tidelog.wire.protocol.schemas.allocate_producer_ids_response import (
    AllocateProducerIdsResponse,
)
from tidelog.wire.protocol.schemas.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.protocol.schemas.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
)
from tidelog.wire.protocol.schemas.init_producer_id_request import InitProducerIdRequest
from tidelog.wire.protocol.schemas.init_producer_id_response import InitProducerIdResponse

APIS = (21, 22)
TOPIC = "orders"

Story = Callable[[LoneBroker, ScriptedController], Awaitable[None]]


def told(data: Path, story: Story) -> None:
    async def main() -> None:
        async with (
            scripted_controller() as controller,
            lone_broker(data, APIS, voters=f"9@127.0.0.1:{controller.port}") as lone,
        ):
            await story(lone, controller)

    run(main)


# ---- InitProducerId


async def new_id(lone: LoneBroker, version: int, **given: str) -> InitProducerIdResponse:
    asked = asyncio.ensure_future(
        lone.ask(InitProducerIdRequest(transactional_id=given.get("transactional_id")), version)
    )
    await lone.until(asked.done, step_ms=100)
    answer = asked.result()
    assert isinstance(answer, InitProducerIdResponse)
    return answer


def test_every_idempotent_producer_gets_an_id_of_its_own(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        controller.usual[ALLOCATE] = AllocateProducerIdsResponse(
            producer_id_start=3000, producer_id_len=1000
        )
        answers = [await new_id(lone, version) for version in range(6)]
        assert [each.producer_id for each in answers] == list(range(3000, 3006))
        assert {(each.error_code, each.producer_epoch) for each in answers} == {(0, 0)}
        assert len(controller.asked(ALLOCATE)) == 1

    told(tmp_path, story)


def test_a_transactional_id_has_a_coordinator_only_when_its_topic_exists(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        answer = await new_id(lone, 5, transactional_id="mine")
        assert (answer.error_code, answer.producer_id) == (15, -1)
        assert controller.asked(ALLOCATE) == []

    told(tmp_path, story)


def test_without_a_block_of_ids_the_client_is_told_to_try_again(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController) -> None:
        controller.usual[ALLOCATE] = AllocateProducerIdsResponse(error_code=77)
        assert (await new_id(lone, 4)).error_code == 14

    told(tmp_path, story)


# ---- DeleteRecords


def append(lone: LoneBroker, count: int, topic: str = TOPIC) -> None:
    hosted = lone.broker.replicas.named(topic, 0)
    assert hosted is not None
    role = hosted.leader
    assert role is not None
    for _ in range(count):
        hosted.log.append_as_leader(batch(b"x"), hosted.replica.leader_epoch)
    lone.broker.replicas.perform(hosted, role.on_appended(lone.broker.now_ms()))


def log_start(lone: LoneBroker, topic: str = TOPIC) -> int:
    hosted = lone.broker.replicas.named(topic, 0)
    assert hosted is not None
    return hosted.log.log_start_offset


async def deleted(
    lone: LoneBroker, offset: int, *, topic: str = TOPIC, index: int = 0, timeout_ms: int = 1000
) -> DeleteRecordsPartitionResult:
    partition = DeleteRecordsPartition(partition_index=index, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=timeout_ms
    )
    answer = await lone.ask(request, 2)
    assert isinstance(answer, DeleteRecordsResponse)
    ((result,),) = (each.partitions for each in answer.topics)
    return result


def test_records_are_deleted_up_to_an_offset_or_all_that_are_committed(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, _: ScriptedController) -> None:
        lone.create_topic(TOPIC)
        append(lone, 10)
        result = await deleted(lone, 4)
        assert (result.error_code, result.low_watermark, log_start(lone)) == (0, 4, 4)
        result = await deleted(lone, -1)
        assert (result.error_code, result.low_watermark, log_start(lone)) == (0, 10, 10)
        assert (await deleted(lone, 3)).low_watermark == 10

    told(tmp_path, story)


def test_a_deletion_is_answered_when_the_live_followers_have_followed(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, _: ScriptedController) -> None:
        lone.create_topic(TOPIC, replicas=(1, 2))
        append(lone, 5)
        lone.follower_fetches(TOPIC, 2, 5)
        asked = asyncio.ensure_future(deleted(lone, 3))
        await lone.until(lambda: log_start(lone) == 3, step_ms=0)
        assert not asked.done()
        lone.follower_fetches(TOPIC, 2, 5, start=3)
        await lone.until(asked.done)
        assert (asked.result().error_code, asked.result().low_watermark) == (0, 3)

    told(tmp_path, story)


def test_a_follower_that_does_not_follow_makes_the_deletion_time_out(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, _: ScriptedController) -> None:
        lone.create_topic(TOPIC, replicas=(1, 2))
        append(lone, 5)
        lone.follower_fetches(TOPIC, 2, 5)
        asked = asyncio.ensure_future(deleted(lone, 3))
        await lone.until(asked.done)
        assert (asked.result().error_code, log_start(lone)) == (7, 3)

    told(tmp_path, story)


def test_a_leader_that_is_replaced_meanwhile_says_so(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, _: ScriptedController) -> None:
        topic_id = lone.create_topic(TOPIC, replicas=(1, 2))
        append(lone, 5)
        lone.follower_fetches(TOPIC, 2, 5)
        asked = asyncio.ensure_future(deleted(lone, 3))
        await lone.until(lambda: log_start(lone) == 3, step_ms=0)
        lone.commit(r.PartitionChange(0, topic_id, leader=2))
        await lone.until(asked.done)
        assert asked.result().error_code == 6

    told(tmp_path, story)


def test_deletions_that_may_not_be_are_refused(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, _: ScriptedController) -> None:
        lone.create_topic(TOPIC)
        lone.create_topic("kept", cleanup_policy="compact")
        lone.create_topic("elsewhere", replicas=(2,), leader=2)
        append(lone, 3)
        append(lone, 3, "kept")
        assert (await deleted(lone, 4)).error_code == 1
        assert (await deleted(lone, -2)).error_code == 1
        assert (await deleted(lone, 1, topic="kept")).error_code == 44
        assert (await deleted(lone, 1, topic="elsewhere")).error_code == 6
        assert (await deleted(lone, 1, topic="nowhere")).error_code == 3
        assert (await deleted(lone, 1, index=9)).error_code == 3
        assert log_start(lone) == 0

    told(tmp_path, story)
