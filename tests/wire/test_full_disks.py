"""A broker whose disk is full: it says so, stands aside, and comes back by itself (ADR 0035)."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path

from support.batches import batch
from support.lone_broker import LEADER_EPOCH, LoneBroker, lone_broker
from support.loopback import run
from support.scripted_controller import (
    ALTER_PARTITION,
    ScriptedController,
    scripted_controller,
    silence,
)
from tidelog.broker.logs.disk_rooms import (
    ADVICE,
    KIND,
    LOOK_EVERY_MS,
    PLENTY_BYTES,
    is_short,
    wants_file,
)
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.host.disk_space import default_reserve_bytes
from tidelog.host.ports import Disk, DiskSpace
from tidelog.sim.disk import SimDisk
from tidelog.storage import reserve_file
from tidelog.wire.protocol.schemas.alter_partition_request import AlterPartitionRequest
from tidelog.wire.protocol.schemas.alter_partition_response import AlterPartitionResponse
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import ProduceResponse

TOPIC = "orders"
DISK_BYTES = 100_000_000
EMPTY = DiskSpace(DISK_BYTES, DISK_BYTES)
RESERVE_BYTES = 1_000_000
SHORT = DiskSpace(DISK_BYTES, RESERVE_BYTES - 1)

Story = Callable[[LoneBroker, ScriptedController, "SeenDisk"], Awaitable[None]]


class SeenDisk:
    """The free bytes that the broker is shown."""

    def __init__(self) -> None:
        self.space: DiskSpace | None = EMPTY
        self.looks = 0

    def __call__(self, _path: str) -> DiskSpace | None:
        self.looks += 1
        return self.space


def told(data: Path, story: Story, *, disk: Disk | None = None, **settings: str) -> None:
    async def main() -> None:
        async with (
            scripted_controller() as controller,
            lone_broker(
                data,
                (0,),
                voters=f"9@127.0.0.1:{controller.port}",
                disk=disk,
                **settings,
            ) as lone,
        ):
            controller.usual[ALTER_PARTITION] = AlterPartitionResponse()
            seen = SeenDisk()
            lone.broker.host.disk_space = seen
            await story(lone, controller, seen)

    run(main)


async def look_until(lone: LoneBroker, condition: Callable[[], bool]) -> None:
    """The broker looks again and again, as its duty does: a look under way may be too early."""

    def seen() -> bool:
        lone.broker.rooms.look()
        return condition()

    await lone.until(seen)


async def see(lone: LoneBroker, disk: SeenDisk, space: DiskSpace | None) -> None:
    """The broker looks at its disk, which is like this now."""
    disk.space = space
    before = bool(lone.broker.rooms.full)
    is_full = space is not None and space.usable_bytes < RESERVE_BYTES
    assert before is not is_full, "nothing would change"
    await look_until(lone, lambda: bool(lone.broker.rooms.full) is is_full)
    lone.pass_time(1)


async def write(lone: LoneBroker) -> tuple[int, str | None]:
    data = PartitionProduceData(index=0, records=batch(b"a"))
    request = ProduceRequest(
        acks=1, timeout_ms=10_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
    )
    answer = await lone.ask(request, 11)
    assert isinstance(answer, ProduceResponse), answer
    ((result,),) = (topic.partition_responses for topic in answer.responses)
    return result.error_code, result.error_message


def asked_to_leave(controller: ScriptedController) -> list[tuple[int, int, list[int]]]:
    """Leader epoch, partition epoch and the rest of the ISR, of every request."""
    return [
        (
            each.leader_epoch,
            each.partition_epoch,
            [member.broker_id for member in each.new_isr_with_epochs],
        )
        for request in controller.asked(ALTER_PARTITION)
        if isinstance(request, AlterPartitionRequest)
        for topic in request.topics
        for each in topic.partitions
    ]


def test_the_reserve_is_one_percent_of_a_disk_and_not_more_than_256_mib() -> None:
    assert default_reserve_bytes(48 * 2**20) == 503_316
    assert default_reserve_bytes(10 * 2**40) == 256 * 2**20


def test_a_disk_is_full_below_its_reserve_and_has_room_only_well_above_it() -> None:
    assert not is_short(None, 100, was_full=False)
    assert not is_short(DiskSpace(10**9, 10**7), 10**7, was_full=False)
    assert is_short(DiskSpace(10**9, 10**7 - 1), 10**7, was_full=False)
    assert is_short(DiskSpace(10**9, 10**7), 10**7, was_full=True), "it would be full at once"
    assert not is_short(DiskSpace(10**9, 10**7 + 10**7 // 4), 10**7, was_full=True)
    assert not is_short(DiskSpace(10**9, 0), 0, was_full=False), "0 keeps no reserve"


def test_a_part_of_the_reserve_is_a_file_until_its_space_is_needed() -> None:
    def wanted(usable_bytes: int, *, is_full: bool, is_refused: bool = False) -> bool | None:
        space = DiskSpace(10**9, usable_bytes)
        return wants_file(space, 10**7, is_full=is_full, is_refused=is_refused)

    assert wanted(10**8, is_full=False) is True
    assert wanted(10**7 + 10**6, is_full=False) is None, "it would make the disk full"
    assert wanted(9 * 10**6, is_full=True) is None, "there is still some"
    assert wanted(10**6, is_full=True) is False
    assert wanted(10**6, is_full=True, is_refused=True) is False
    assert wants_file(DiskSpace(10**9, 10**8), 0, is_full=False, is_refused=False) is None


def test_the_file_of_the_reserve_goes_with_the_last_bytes_and_comes_back(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, _controller: ScriptedController, disk: SeenDisk) -> None:
        file = tmp_path / reserve_file.FILE_NAME
        await look_until(lone, lambda: file.exists() and file.stat().st_size == RESERVE_BYTES // 2)
        await see(lone, disk, DiskSpace(DISK_BYTES, 0))
        await look_until(lone, lambda: not file.exists())
        await see(lone, disk, EMPTY)
        await look_until(lone, file.exists)

    told(tmp_path, story)


def test_a_leader_without_room_refuses_writes_hands_over_and_names_disk_and_bytes(
    tmp_path: Path,
) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController, disk: SeenDisk) -> None:
        lone.create_topic(TOPIC, replicas=(1, 2, 3))
        assert await write(lone) == (Error.NONE, None)
        await see(lone, disk, SHORT)
        code, message = await write(lone)
        assert code == Error.KAFKA_STORAGE_ERROR
        assert message is not None
        assert f"the disk of {tmp_path} has 999,999 of 100,000,000 bytes free" in message
        await lone.until(lambda: asked_to_leave(controller))
        assert asked_to_leave(controller)[0] == (LEADER_EPOCH, LEADER_EPOCH, [2, 3])
        (finding,) = lone.broker.host.findings.all()
        assert (finding.kind, finding.subject, finding.advice) == (KIND, str(tmp_path), ADVICE)
        assert "999,999 of 100,000,000 bytes free, and keeps 1,000,000 in reserve" in finding.text

    told(tmp_path, story)


def test_the_request_to_leave_is_repeated_until_metadata_says_that_we_are_out(
    tmp_path: Path,
) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController, disk: SeenDisk) -> None:
        controller.says(ALTER_PARTITION, silence, AlterPartitionResponse(error_code=41))
        topic_id = lone.create_topic(TOPIC, replicas=(1, 2, 3))
        await see(lone, disk, SHORT)
        await lone.until(lambda: len(asked_to_leave(controller)) == 3, step_ms=100)
        lone.commit(r.PartitionChange(0, topic_id, isr=(2,), leader=2))
        asked = len(asked_to_leave(controller))
        for _ in range(50):
            lone.pass_time(100)
            await asyncio.sleep(0)
        assert len(asked_to_leave(controller)) == asked, "it is out"

    told(tmp_path, story)


def test_who_is_alone_in_sync_stays_leader_until_somebody_else_has_caught_up(
    tmp_path: Path,
) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController, disk: SeenDisk) -> None:
        topic_id = lone.create_topic(TOPIC, replicas=(1, 2), isr=(1,))
        await see(lone, disk, SHORT)
        assert (await write(lone))[0] == Error.KAFKA_STORAGE_ERROR
        lone.pass_time(5_000)
        assert asked_to_leave(controller) == []
        lone.commit(r.PartitionChange(0, topic_id, isr=(1, 2)))
        await lone.until(lambda: asked_to_leave(controller))
        assert asked_to_leave(controller)[0] == (LEADER_EPOCH, LEADER_EPOCH + 1, [2])

    told(tmp_path, story)


def test_a_follower_without_room_leaves_the_isr_and_fetches_only_when_it_has_room(
    tmp_path: Path,
) -> None:
    async def story(lone: LoneBroker, controller: ScriptedController, disk: SeenDisk) -> None:
        topic_id = lone.create_topic(TOPIC, replicas=(1, 2, 3), leader=2)
        hosted = lone.broker.replicas.named(TOPIC, 0)
        assert hosted is not None
        assert lone.broker.fetchers.is_fetched(hosted.partition)
        await see(lone, disk, SHORT)
        await lone.until(lambda: asked_to_leave(controller))
        assert asked_to_leave(controller)[0][2] == [2, 3]
        assert not lone.broker.fetchers.is_fetched(hosted.partition)
        lone.commit(r.PartitionChange(0, topic_id, isr=(3,), leader=3))
        assert not lone.broker.fetchers.is_fetched(hosted.partition), (
            "also not from the next leader"
        )
        await see(lone, disk, EMPTY)
        await lone.until(lambda: lone.broker.fetchers.is_fetched(hosted.partition))
        assert lone.broker.host.findings.all() == ()

    told(tmp_path, story)


def test_writes_come_back_by_themselves_when_there_is_room(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, _controller: ScriptedController, disk: SeenDisk) -> None:
        lone.create_topic(TOPIC)
        await see(lone, disk, SHORT)
        assert (await write(lone))[0] == Error.KAFKA_STORAGE_ERROR
        await see(lone, disk, EMPTY)
        assert await write(lone) == (Error.NONE, None)
        assert lone.broker.host.findings.all() == ()

    told(tmp_path, story)


def test_a_disk_with_plenty_of_room_is_looked_at_less_often(tmp_path: Path) -> None:
    plenty = DiskSpace(4 * PLENTY_BYTES, 2 * PLENTY_BYTES)

    async def story(lone: LoneBroker, _controller: ScriptedController, disk: SeenDisk) -> None:
        async def looks_in(seconds: int) -> int:
            before = disk.looks
            for _ in range(seconds):
                lone.pass_time(LOOK_EVERY_MS)
                lone.broker.rooms.look_if_due()
                await lone.until(lambda: not lone.broker.rooms.is_looking)
            return disk.looks - before

        disk.space = plenty
        await looks_in(1)
        assert await looks_in(10) == 2
        disk.space = EMPTY  # the next look sees that it became less
        await looks_in(5)
        assert await looks_in(10) == 10
        disk.space = None  # nobody can tell
        await looks_in(1)
        assert await looks_in(10) == 10

    told(tmp_path, story)


def test_without_a_reserve_a_write_that_finds_no_space_makes_the_disk_full_for_a_while(
    tmp_path: Path,
) -> None:
    disk = SimDisk()

    async def story(lone: LoneBroker, controller: ScriptedController, seen: SeenDisk) -> None:
        seen.space = None  # nobody can tell
        lone.create_topic(TOPIC, replicas=(1, 2))
        disk.inject("write", error=errno.ENOSPC)
        assert (await write(lone))[0] == Error.KAFKA_STORAGE_ERROR
        (finding,) = lone.broker.host.findings.all()
        assert finding.text.startswith(f"no space is left on the disk of {tmp_path}")
        assert (await write(lone))[0] == Error.KAFKA_STORAGE_ERROR, "not tried again at once"
        await lone.until(lambda: asked_to_leave(controller))
        lone.pass_time(5_000)
        lone.broker.rooms.look()
        await lone.until(lambda: not lone.broker.rooms.full)
        assert await write(lone) == (Error.NONE, None)

    told(tmp_path, story, disk=disk, tidelog_disk_reserve_bytes="0")
