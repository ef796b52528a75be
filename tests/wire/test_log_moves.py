"""Replicas that move between the log directories of one broker, asked for over sockets."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.admin_story import AdminStory, admin_story, open_directory, topic_id_of
from support.batches import batch
from support.broker_config import node_config
from support.loopback import run
from tidelog.broker.logs import moves
from tidelog.broker.logs.directories import Directories
from tidelog.broker.replication.hosted import Hosted
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.host import tasks
from tidelog.host.disk import FileDisk, OpenFile
from tidelog.host.findings import Finding
from tidelog.host.workers import ThreadWorkers
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.log import Log
from tidelog.storage.log_directory import LogDirectory
from tidelog.wire.protocol.schemas.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tidelog.wire.protocol.schemas.alter_replica_log_dirs_response import (
    AlterReplicaLogDirsResponse,
)
from tidelog.wire.protocol.schemas.describe_log_dirs_request import DescribeLogDirsRequest
from tidelog.wire.protocol.schemas.describe_log_dirs_response import DescribeLogDirsResponse
from tidelog.wire.records import decode, iter_batches

TOPIC = "orders"
END = 1 << 60

Story = Callable[[AdminStory], Awaitable[None]]


def told(data: Path, story: Story, **settings: str) -> None:
    async def main() -> None:
        async with admin_story(data, directories=2, **settings) as s:
            try:
                await story(s)
            finally:
                await s.broker.moves.stop()

    run(main)


async def wish(s: AdminStory, path: str, *indexes: int, topic: str = TOPIC) -> list[int]:
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=list(indexes))]
            )
        ]
    )
    answer = await s.ask(request, 2)
    assert isinstance(answer, AlterReplicaLogDirsResponse)
    ((result,),) = (answer.results,)
    assert [each.partition_index for each in result.partitions] == list(indexes)
    return [each.error_code for each in result.partitions]


def hosted_of(s: AdminStory, index: int = 0) -> Hosted:
    hosted = s.broker.replicas.named(TOPIC, index)
    assert hosted is not None
    return hosted


def places(s: AdminStory) -> tuple[LogDirectory, LogDirectory]:
    first, second = s.broker.replicas.directories.all
    return first, second


def other_place(s: AdminStory, hosted: Hosted) -> tuple[str, LogDirectory]:
    number = 1 - places(s).index(hosted.directory)
    return s.broker.config.log_dirs[number], places(s)[number]


def append(s: AdminStory, hosted: Hosted, *values: bytes, **about: int) -> None:
    role = hosted.leader
    assert role is not None
    epoch = hosted.replica.leader_epoch
    hosted.log.append_as_leader(batch(*values, **about), epoch)  # type: ignore[arg-type]
    s.broker.replicas.perform(hosted, role.on_appended(s.broker.now_ms()))


def offsets(hosted: Hosted) -> list[int]:
    found = []
    position = hosted.log.log_start_offset
    while runs := hosted.log.read(position, END, 1 << 20):
        for each in runs:
            for _, header in iter_batches(each):
                found.append(header.base_offset)
                position = header.next_offset
    return found


async def settled(s: AdminStory) -> None:
    while s.broker.moves.under_way:
        s.pass_time(10)
        await asyncio.sleep(0.001)


def test_a_log_moves_with_all_it_has_and_goes_on_where_it_was(tmp_path: Path) -> None:
    async def story(s: AdminStory) -> None:
        s.create_topic(TOPIC)
        hosted = hosted_of(s)
        former = hosted.directory
        path, destination = other_place(s, hosted)
        for sequence in range(50):
            append(s, hosted, b"x" * 1000, producer=7, sequence=sequence)
        hosted.log.raise_log_start(3)
        epochs, producers = list(hosted.log.epochs.entries), hosted.log.producers
        watermark, role = hosted.replica.high_watermark, hosted.leader
        assert await wish(s, path, 0) == [Error.NONE]
        await settled(s)
        assert (hosted.directory, hosted_of(s)) == (destination, hosted)
        assert offsets(hosted) == list(range(3, 50))
        assert hosted.log.epochs.entries == epochs
        assert hosted.log.producers is producers
        assert (hosted.replica.high_watermark, hosted.leader) == (watermark, role)
        assert list(former.logs) == []
        assert list(destination.logs) == [(TOPIC, 0)]
        names = [each.name for each in Path(s.broker.config.log_dirs[0]).parent.rglob("orders-0*")]
        assert names == ["orders-0"]
        append(s, hosted, b"y", producer=7, sequence=50)
        assert offsets(hosted)[-1] == 50

    told(tmp_path, story)


def test_files_that_rolled_on_the_way_are_synced_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change over syncs on the loop. With a file every few records that was dozens of syncs."""
    unsynced = []
    original = LogDirectory.take_future

    def take_future(
        directory: LogDirectory, name: PartitionName, topic_id: bytes, future: Log, mark: int
    ) -> Log:
        unsynced.append((len(future.segments), future.has_unsynced_files))
        return original(directory, name, topic_id, future, mark)

    async def story(s: AdminStory) -> None:
        s.create_topic(TOPIC)
        hosted = hosted_of(s)
        for number in range(30):
            append(s, hosted, b"x", time_ms=number * 2_000)
        path, _ = other_place(s, hosted)
        assert await wish(s, path, 0) == [Error.NONE]
        await settled(s)
        assert offsets(hosted) == list(range(30))
        ((segments, has_unsynced_files),) = unsynced
        assert segments > 2
        assert not has_unsynced_files

    monkeypatch.setattr(LogDirectory, "take_future", take_future)
    told(tmp_path, story, log_roll_ms="1000")


def test_every_log_changes_over_in_a_turn_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change over takes some twenty syncs. Short logs did so one after the other in one turn."""
    turn, turns = 0, []
    original = LogDirectory.take_future

    def take_future(directory: LogDirectory, *about: Any) -> Log:
        turns.append(turn)
        return original(directory, *about)

    async def story(s: AdminStory) -> None:
        def count_turns() -> None:
            nonlocal turn
            turn += 1
            ticking.append(asyncio.get_running_loop().call_soon(count_turns))

        ticking: list[asyncio.Handle] = []
        s.create_topic(TOPIC, partitions=4)
        elsewhere = {index: other_place(s, hosted_of(s, index))[0] for index in range(4)}
        count_turns()
        for path in sorted(set(elsewhere.values())):
            indexes = [index for index in elsewhere if elsewhere[index] == path]
            assert await wish(s, path, *indexes) == [Error.NONE] * len(indexes)
        await settled(s)
        ticking[-1].cancel()
        assert len(turns) == 4
        assert len(set(turns)) == 4, turns

    monkeypatch.setattr(LogDirectory, "take_future", take_future)
    told(tmp_path, story)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few records are a long way then."""
    monkeypatch.setattr(moves, "SLICE_BYTES", 2500)
    monkeypatch.setattr(moves, "UNSYNCED_BYTES_MAX", 10_000)
    monkeypatch.setattr(moves, "CHANGE_OVER_BYTES_MAX", 2500)


@pytest.mark.usefixtures("small_steps")
def test_what_is_written_meanwhile_moves_too(tmp_path: Path) -> None:
    async def story(s: AdminStory) -> None:
        s.create_topic(TOPIC)
        hosted = hosted_of(s)
        for _ in range(40):
            append(s, hosted, b"x" * 1000)
        path, destination = other_place(s, hosted)
        assert await wish(s, path, 0) == [Error.NONE]
        written = 40
        while s.broker.moves.under_way:
            if written < 60:
                append(s, hosted, b"y" * 500)
                written += 1
            s.pass_time(10)
            await asyncio.sleep(0)
        assert hosted.directory is destination
        assert offsets(hosted) == list(range(written))
        assert written > 41

    told(tmp_path, story)


@pytest.mark.usefixtures("small_steps")
def test_a_future_replica_is_shown_until_it_is_the_present_one(tmp_path: Path) -> None:
    async def story(s: AdminStory) -> None:
        s.create_topic(TOPIC)
        hosted = hosted_of(s)
        for _ in range(5):
            append(s, hosted, b"x" * 1000)
        path, _ = other_place(s, hosted)

        async def shown() -> list[tuple[str, bool]]:
            answer = await s.ask(DescribeLogDirsRequest(topics=None), 4)
            assert isinstance(answer, DescribeLogDirsResponse)
            return [
                (each.log_dir, partition.is_future_key)
                for each in answer.results
                for topic in each.topics
                for partition in topic.partitions
            ]

        assert await wish(s, path, 0) == [Error.NONE]
        assert (path, True) in await shown()
        s.commit(r.Config(r.RESOURCE_BROKER, "1", moves.RATE, "1000000"))
        s.pass_time(10_000_000)
        await settled(s)
        assert await shown() == [(path, False)]

    told(tmp_path, story, replica_alter_log_dirs_io_max_bytes_per_second="1")


def test_wishes_that_cannot_be_are_refused_and_those_for_later_remembered(tmp_path: Path) -> None:
    """`kafka-reassign-partitions.sh` asks before the replica is there."""

    async def story(s: AdminStory) -> None:
        s.create_topic(TOPIC)
        path, _ = other_place(s, hosted_of(s))
        assert await wish(s, "/nowhere", 0) == [Error.LOG_DIR_NOT_FOUND]
        assert await wish(s, path, 7) == [Error.REPLICA_NOT_AVAILABLE]
        topic_id = s.create_topic("payments", replicas=(2, 3))
        directories = s.broker.replicas.directories
        for number in (1, 0):
            chosen = s.broker.config.log_dirs[number]
            answer = await wish(s, chosen, 0, topic="payments")
            assert answer == [Error.REPLICA_NOT_AVAILABLE]
            assert directories.place_for(("payments", 0)) is directories.all[number]
        assert topic_id in s.broker.image.topics
        assert s.broker.moves.under_way == {}

    told(tmp_path, story)


@pytest.mark.usefixtures("small_steps")
def test_asking_for_the_present_place_ends_a_move(tmp_path: Path) -> None:
    async def story(s: AdminStory) -> None:
        s.create_topic(TOPIC)
        hosted = hosted_of(s)
        for _ in range(10):
            append(s, hosted, b"x" * 1000)
        here = hosted.directory
        present = s.broker.config.log_dirs[places(s).index(here)]
        path, there = other_place(s, hosted)
        assert await wish(s, path, 0) == [Error.NONE]
        move = s.broker.moves.under_way[hosted.partition]
        while move.future is None:
            await asyncio.sleep(0)
        assert await wish(s, present, 0) == [Error.NONE]
        assert s.broker.moves.under_way == {}
        assert hosted.directory is here
        assert list(there.logs) == []
        assert not list(Path(path).glob("orders*"))

    told(tmp_path, story, replica_alter_log_dirs_io_max_bytes_per_second="1")


@pytest.mark.usefixtures("small_steps")
def test_a_broker_that_stops_in_the_turn_in_which_a_copy_goes_on_fails_no_timer(
    tmp_path: Path,
) -> None:
    """The timer of the pause fires before the cancelled task runs again."""

    async def story(s: AdminStory) -> None:
        s.create_topic(TOPIC)
        hosted = hosted_of(s)
        for _ in range(10):
            append(s, hosted, b"x" * 1000)
        path, _ = other_place(s, hosted)
        assert await wish(s, path, 0) == [Error.NONE]
        move = s.broker.moves.under_way[hosted.partition]
        while move.future is None:
            await asyncio.sleep(0)
        stopping = asyncio.create_task(s.broker.moves.stop())
        tasks.soon(s.pass_time, 10_000_000)
        await stopping
        assert not list(Path(path).glob("orders*"))

    told(tmp_path, story, replica_alter_log_dirs_io_max_bytes_per_second="1")


@pytest.mark.usefixtures("small_steps")
def test_a_deleted_topic_does_not_move(tmp_path: Path) -> None:
    async def story(s: AdminStory) -> None:
        topic_id = s.create_topic(TOPIC)
        hosted = hosted_of(s)
        for _ in range(10):
            append(s, hosted, b"x" * 1000)
        path, _ = other_place(s, hosted)
        assert await wish(s, path, 0) == [Error.NONE]
        assert list(Path(path).glob("orders-0.*-future"))
        s.commit(r.RemoveTopic(topic_id))
        assert s.broker.moves.under_way == {}
        await asyncio.sleep(0)
        assert not list(Path(path).glob("orders*"))

    told(tmp_path, story, replica_alter_log_dirs_io_max_bytes_per_second="1")


def test_without_room_there_is_a_finding_and_another_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = [True]
    write = FileDisk.make_dir

    def make_dir_with_luck(disk: FileDisk, path: str) -> None:
        if full[0] and path.endswith("-future"):
            raise OSError(errno.ENOSPC, "no space left")
        write(disk, path)

    monkeypatch.setattr(FileDisk, "make_dir", make_dir_with_luck)

    async def story(s: AdminStory) -> None:
        s.create_topic(TOPIC)
        hosted = hosted_of(s)
        append(s, hosted, b"x" * 1000)
        path, destination = other_place(s, hosted)

        def told_of() -> list[Finding]:
            found = s.broker.host.findings.all()
            return [each for each in found if each.kind == "log-move-fails"]

        assert await wish(s, path, 0) == [Error.NONE]
        while not told_of():
            s.pass_time(1)
            await asyncio.sleep(0)
        (finding,) = told_of()
        assert finding.subject == "orders-0"
        assert finding.advice
        full[0] = False
        s.pass_time(moves.TRY_AGAIN_MS)
        await settled(s)
        assert hosted.directory is destination
        assert told_of() == []

    told(tmp_path, story)


def test_a_log_that_cannot_be_closed_for_its_change_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when its last file, the snapshot of its producers, is written."""
    full = [True]
    open_file = FileDisk.open

    def open_with_luck(disk: FileDisk, path: str, *, create: bool = False) -> OpenFile:
        if full[0] and create and "-future" in path and ".snapshot" in path:
            raise OSError(errno.ENOSPC, "no space left")
        return open_file(disk, path, create=create)

    monkeypatch.setattr(FileDisk, "open", open_with_luck)

    async def story(s: AdminStory) -> None:
        s.create_topic(TOPIC)
        hosted = hosted_of(s)
        append(s, hosted, b"x" * 1000)
        path, destination = other_place(s, hosted)
        assert await wish(s, path, 0) == [Error.NONE]
        findings = s.broker.host.findings
        while not any(each.kind == "log-move-fails" for each in findings.all()):
            s.pass_time(1)
            await asyncio.sleep(0)
        assert offsets(hosted) == [0]
        assert not list(Path(path).glob("orders*"))
        full[0] = False
        append(s, hosted, b"y")
        s.pass_time(moves.TRY_AGAIN_MS)
        await settled(s)
        assert (hosted.directory, offsets(hosted)) == (destination, [0, 1])

    told(tmp_path, story)


@pytest.mark.usefixtures("small_steps")
def test_a_log_that_is_cut_on_its_way_moves_as_it_is_then(tmp_path: Path) -> None:
    async def story(s: AdminStory) -> None:
        s.create_topic(TOPIC)
        hosted = hosted_of(s)
        for _ in range(20):
            append(s, hosted, b"x" * 1000)
        path, destination = other_place(s, hosted)
        assert await wish(s, path, 0) == [Error.NONE]
        move = s.broker.moves.under_way[hosted.partition]
        while move.future is None or move.future.log_end_offset < 10:
            s.pass_time(10)
            await asyncio.sleep(0)
        hosted.log.truncate_to(5)
        s.broker.moves.start_over(hosted)
        append(s, hosted, b"another story")
        await settled(s)
        assert hosted.directory is destination
        assert offsets(hosted) == list(range(6))
        (last,) = hosted.log.read(5, END, 1 << 20)
        assert decode(last)[0].value == b"another story"

    told(tmp_path, story)


def test_a_compacted_log_is_known_to_have_gaps_after_its_move(tmp_path: Path) -> None:
    async def story(s: AdminStory) -> None:
        topic_id = topic_id_of(TOPIC)
        s.commit(
            r.Topic(TOPIC, topic_id),
            r.Config(r.RESOURCE_TOPIC, TOPIC, "cleanup.policy", "compact"),
            r.Partition(0, topic_id, (1,), (1,), leader=1),
        )
        hosted = hosted_of(s)
        append(s, hosted, b"x")
        path, destination = other_place(s, hosted)
        assert await wish(s, path, 0) == [Error.NONE]
        await settled(s)
        assert hosted.directory is destination
        assert hosted.log.may_have_gaps
        assert (Path(path) / "cleaner-offset-checkpoint").read_text().endswith("orders 0 0\n")

    told(tmp_path, story)


def test_a_process_that_dies_between_two_names_keeps_the_longer_log(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    config = node_config(paths)
    directories = [open_directory(path, config) for path in paths]
    topic_id = b"t" * 16
    for directory, count in zip(directories, (2, 3), strict=True):
        log = directory.create_log((TOPIC, 0), topic_id)
        for _ in range(count):
            log.append_as_leader(batch(b"x"), 0)
    kept = Directories(directories, ThreadWorkers)
    assert kept.holding((TOPIC, 0)) is directories[1]
    assert list(directories[0].logs) == []
    (note,) = directories[0].repairs
    assert "another log directory" in str(note)
    assert len(list((tmp_path / "a").glob("orders-0.*-stray"))) == 1
