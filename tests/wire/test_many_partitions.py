"""Thousands of new partitions: their logs and checkpoints are written beside the event loop."""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from support.batches import batch
from support.checkpoint_writings import writings_of
from support.fed_brokers import append
from support.lone_broker import BROKER_ID, LoneBroker, duties_of, lone_broker, until
from support.loopback import run
from tidelog.broker.control.metadata_changes import AT_ONCE as FOLLOW_AT_ONCE
from tidelog.broker.duties import (
    BETWEEN_SLICES_MS,
    CHECKED_AT_ONCE,
    RETAINED_AT_ONCE,
    STORE_EPOCHS_MS,
)
from tidelog.broker.handlers.delete_records import AT_ONCE as DELETED_AT_ONCE
from tidelog.broker.logs.epoch_storing import AT_ONCE
from tidelog.broker.logs.log_removing import AT_ONCE as REMOVED_AT_ONCE
from tidelog.broker.replication.hosted import Hosted
from tidelog.broker.replication.replicas import Replicas
from tidelog.core.metadata import records as r
from tidelog.core.types import PartitionId
from tidelog.host.disk import FileDisk
from tidelog.storage import checkpoints
from tidelog.storage.checkpoints import (
    CLEAN_POINTS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
)
from tidelog.storage.log import Log
from tidelog.storage.log_directory import LogDirectory
from tidelog.wire.protocol.schemas.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

TOPIC, TOPIC_ID = "many", b"many............"
SOME = 8
COUNT = 2 * AT_ONCE + SOME + 5
LEADER_EPOCH = 7
CHECKPOINT_EVERY_MS = 60_000
RETENTION_EVERY_MS = 300_000
CHECK_EVERY_MS = 15_000
DELETE_RECORDS = 21

Story = Callable[[LoneBroker], Awaitable[None]]


def told(data: Path, story: Story, *, apis: Iterable[int] = (), **settings: str) -> None:
    async def main() -> None:
        async with lone_broker(data, apis, **settings) as lone:
            failures: list[Exception] = []
            duties = duties_of(lone.broker, failures.append)
            duties.start()
            try:
                await story(lone)
            finally:
                duties.stop()
            assert not failures

    run(main)


def checkpoint_of(data: Path, hosted: Hosted) -> Path:
    return data / f"{TOPIC}-{hosted.index}" / "leader-epoch-checkpoint"


def directories_of(data: Path) -> list[str]:
    """Those that are on their way out too."""
    return [each.name for each in data.iterdir() if each.name.startswith(TOPIC)]


def created(count: int) -> list[r.MetadataRecord]:
    return [r.Topic(TOPIC, TOPIC_ID), *partitions(count)]


def partitions(count: int) -> list[r.Partition]:
    """Every other one is led by the broker of the story."""
    return [
        r.Partition(
            index,
            TOPIC_ID,
            (BROKER_ID, 2),
            (BROKER_ID, 2),
            leader=2 - (index % 2),
            leader_epoch=LEADER_EPOCH,
            partition_epoch=LEADER_EPOCH,
        )
        for index in range(count)
    ]


def test_logs_are_made_beside_the_loop_until_all_are_there(tmp_path):
    async def story(lone: LoneBroker) -> None:
        replicas = lone.broker.replicas
        lone.commit(*created(COUNT))
        assert len(replicas.hosted) == 0
        await until(lambda: len(replicas.hosted) == COUNT)
        assert len(replicas.directories.all[0].logs) == COUNT
        assert {hosted.leader is not None for hosted in replicas.hosted.values()} == {True, False}

    told(tmp_path, story)


def test_a_new_leader_knows_its_epoch_and_syncs_nothing_for_it(tmp_path):
    async def story(lone: LoneBroker) -> None:
        lone.commit(*created(SOME))
        await until(lambda: len(lone.broker.replicas.hosted) == SOME)
        for hosted in lone.broker.replicas.hosted.values():
            leads = hosted.leader is not None
            assert hosted.log.epochs.entries == ([(LEADER_EPOCH, 0)] if leads else [])
            assert not checkpoint_of(tmp_path, hosted).exists()

    told(tmp_path, story)


def test_epochs_with_records_reach_their_checkpoints_by_themselves(tmp_path):
    """More of them than are stored in one round."""

    async def story(lone: LoneBroker) -> None:
        replicas = lone.broker.replicas
        lone.commit(*created(COUNT))
        await until(lambda: len(replicas.hosted) == COUNT)
        led = [hosted for hosted in replicas.hosted.values() if hosted.leader is not None]
        for hosted in led:
            hosted.log.append_as_leader(batch(b"first"), LEADER_EPOCH)
        unstored = replicas.directories.all[0].unstored
        assert len(unstored) == len(led) > AT_ONCE
        lone.pass_time(STORE_EPOCHS_MS)
        await until(lambda: len(unstored) == 0)
        for hosted in led:
            assert checkpoint_of(tmp_path, hosted).read_text() == f"0\n1\n{LEADER_EPOCH} 0\n"
            assert hosted.log.epochs_are_stored

    told(tmp_path, story)


def test_a_partition_that_changes_while_it_waits_is_hosted_as_it_is_then(tmp_path):
    async def story(lone: LoneBroker) -> None:
        last = PartitionId(TOPIC_ID, COUNT - 1)
        lone.commit(*created(COUNT))
        assert last not in lone.broker.replicas.hosted
        lone.commit(r.PartitionChange(last.partition, TOPIC_ID, leader=BROKER_ID))
        await until(lambda: len(lone.broker.replicas.hosted) == COUNT)
        assert lone.broker.replicas.hosted[last].leader is not None

    told(tmp_path, story)


def test_a_topic_that_comes_back_while_its_logs_are_made_has_the_new_ones(tmp_path):
    async def story(lone: LoneBroker) -> None:
        directory = lone.broker.replicas.directories.all[0]
        lone.commit(*created(COUNT))
        await until(lambda: lone.broker.replicas.directories.is_making((TOPIC, COUNT - 1)))
        lone.commit(r.RemoveTopic(TOPIC_ID))
        again = b"many, again....."
        lone.commit(r.Topic(TOPIC, again), *(p._replace(topic_id=again) for p in partitions(COUNT)))
        await until(lambda: len(lone.broker.replicas.hosted) == COUNT)
        assert {partition.topic_id for partition in lone.broker.replicas.hosted} == {again}
        assert set(directory.topic_ids.values()) == {again}

    told(tmp_path, story)


def test_a_topic_that_a_snapshot_does_not_know_any_more_is_not_made(tmp_path):
    async def story(lone: LoneBroker) -> None:
        lone.commit(*created(COUNT))
        directories = lone.broker.replicas.directories
        await until(lambda: directories.is_making((TOPIC, 0)))
        lone.broker.committed.on_snapshot((), 1)
        await until(lambda: not directories.is_making((TOPIC, 0)))
        assert not lone.broker.replicas.hosted
        for broker_id in (BROKER_ID, 2):
            lone.register(broker_id, port=broker_id)
        lone.commit(r.Topic("next", b"next............"))
        lone.commit(*(p._replace(topic_id=b"next............") for p in partitions(COUNT)))
        await until(lambda: len(lone.broker.replicas.hosted) == COUNT)
        assert len(directories.all[0].logs) == COUNT

    told(tmp_path, story)


def test_a_log_that_cannot_be_made_takes_the_directory_offline(tmp_path):
    async def story(lone: LoneBroker) -> None:
        replicas = lone.broker.replicas
        (tmp_path / f"{TOPIC}-{COUNT - 1}").write_bytes(b"in the way of a directory")
        lone.commit(*created(COUNT))
        await until(lambda: lone.offline)
        assert PartitionId(TOPIC_ID, COUNT - 1) not in replicas.hosted

    told(tmp_path, story)


def test_a_topic_that_is_deleted_while_its_logs_are_made_leaves_nothing(tmp_path):
    async def story(lone: LoneBroker) -> None:
        lone.commit(*created(COUNT))
        await until(lambda: lone.broker.replicas.directories.is_making((TOPIC, COUNT - 1)))
        lone.commit(r.RemoveTopic(TOPIC_ID))
        await until(lambda: not lone.broker.replicas.directories.is_making((TOPIC, COUNT - 1)))
        await until(lambda: not directories_of(tmp_path))
        assert not lone.broker.replicas.hosted

    told(tmp_path, story)


class CountingDisk(FileDisk):
    """Counts the files that are replaced whole, by name, and who syncs on the event loop."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.written: Counter[str] = Counter()
        self.loop_thread = threading.get_ident()
        self.on_the_loop: list[str] = []

    def rename(self, source: str, target: str) -> None:
        self._note(source)
        super().rename(source, target)
        self.written[target] += 1

    def make_dir(self, path: str) -> None:
        self._note(path)
        super().make_dir(path)

    def sync_dir(self, path: str) -> None:
        self._note(path)
        super().sync_dir(path)

    def _note(self, path: str) -> None:
        if threading.get_ident() == self.loop_thread:
            self.on_the_loop.append(path)


def on_counting_disk(
    data: Path, story: Callable[[LoneBroker, CountingDisk], Awaitable[None]]
) -> None:
    async def main() -> None:
        disk = CountingDisk(data)
        async with lone_broker(data, (), disk=disk) as lone:
            duties = duties_of(lone.broker, lone.offline.append)
            duties.start()
            try:
                await story(lone, disk)
            finally:
                duties.stop()
            assert not lone.offline

    run(main)


def test_deleting_many_logs_syncs_nothing_on_the_loop_and_writes_checkpoints_by_the_round(tmp_path):
    """Each deletion used to sync its directory and to rewrite up to four checkpoints."""

    async def story(lone: LoneBroker, disk: CountingDisk) -> None:
        replicas = lone.broker.replicas
        lone.commit(*created(COUNT))
        await until(lambda: len(replicas.hosted) == COUNT)
        directory = replicas.directories.all[0]
        directory.checkpoint_recovery_points()
        directory.checkpoint_high_watermarks(replicas.high_watermarks())
        disk.written.clear()
        disk.on_the_loop.clear()
        lone.commit(r.RemoveTopic(TOPIC_ID))
        await until(lambda: not directory.logs)
        assert not replicas.hosted
        await until(lambda: not directories_of(tmp_path))
        rounds = -(-COUNT // REMOVED_AT_ONCE)
        assert disk.written[RECOVERY_POINTS] <= rounds
        assert disk.written[HIGH_WATERMARKS] <= rounds
        assert disk.on_the_loop == []
        assert TOPIC not in (tmp_path / RECOVERY_POINTS).read_text("utf-8")

    on_counting_disk(tmp_path, story)


def test_a_change_of_policy_writes_nothing_and_the_first_gap_is_noted_for_all_logs(tmp_path):
    """The note that a log may have gaps used to be written once for each log."""

    async def story(lone: LoneBroker, disk: CountingDisk) -> None:
        replicas = lone.broker.replicas
        compacted = r.Config(r.RESOURCE_TOPIC, TOPIC, "cleanup.policy", "compact")
        topic, *its_partitions = created(COUNT)
        lone.commit(topic, compacted, *its_partitions)
        await until(lambda: len(replicas.hosted) == COUNT)
        disk.on_the_loop.clear()
        disk.written.clear()
        other = b"other..........."
        lone.commit(
            r.Topic("other", other), *(p._replace(topic_id=other) for p in partitions(SOME))
        )
        await until(lambda: len(replicas.hosted) == COUNT + SOME)
        lone.commit(compacted._replace(resource_name="other"))
        last = replicas.named("other", SOME - 1)
        assert last is not None
        await until(lambda: last.log.may_have_gaps)
        assert disk.on_the_loop == []
        disk.written.clear()
        for hosted in replicas.hosted.values():
            hosted.log.allow_gaps()
        assert disk.written[CLEAN_POINTS] <= 1
        noted = (tmp_path / CLEAN_POINTS).read_text("utf-8").splitlines()
        assert len(noted) == 2 + COUNT + SOME

    on_counting_disk(tmp_path, story)


def test_a_topic_that_comes_back_while_its_logs_are_removed_has_new_ones(tmp_path):
    async def story(lone: LoneBroker, disk: CountingDisk) -> None:
        replicas = lone.broker.replicas
        lone.commit(*created(COUNT))
        await until(lambda: len(replicas.hosted) == COUNT)
        replicas.named(TOPIC, 1).log.append_as_leader(batch(b"old"), LEADER_EPOCH)
        lone.commit(r.RemoveTopic(TOPIC_ID))
        again = b"many, again....."
        lone.commit(r.Topic(TOPIC, again), *(p._replace(topic_id=again) for p in partitions(COUNT)))
        await until(lambda: {each.topic_id for each in replicas.hosted} == {again})
        await until(lambda: len(replicas.hosted) == COUNT)
        assert replicas.named(TOPIC, 1).log.log_end_offset == 0
        await until(lambda: len(directories_of(tmp_path)) == COUNT)

    on_counting_disk(tmp_path, story)


def test_names_are_free_when_the_directories_have_stopped(tmp_path):
    async def story(lone: LoneBroker, disk: CountingDisk) -> None:
        replicas = lone.broker.replicas
        lone.commit(*created(COUNT))
        await until(lambda: len(replicas.hosted) == COUNT)
        lone.commit(r.RemoveTopic(TOPIC_ID))
        await until(lambda: not replicas.hosted)
        await replicas.directories.stop()
        assert not replicas.directories.all[0].leaving
        assert not [name for name in directories_of(tmp_path) if not name.endswith("-delete")]

    on_counting_disk(tmp_path, story)


def test_no_turn_of_the_loop_makes_more_than_a_slice_of_partitions_follow(tmp_path, monkeypatch):
    """All that one batch of metadata touched used to follow in one piece."""
    slices: list[int] = []
    publish = Replicas.publish

    def counted(self: Replicas, touched: Iterable[PartitionId]) -> None:
        partitions = list(touched)
        slices.append(len(partitions))
        publish(self, partitions)

    monkeypatch.setattr(Replicas, "publish", counted)

    async def story(lone: LoneBroker) -> None:
        replicas = lone.broker.replicas
        lone.commit(*created(COUNT))
        await until(lambda: len(replicas.hosted) == COUNT)
        lone.commit(r.Config(r.RESOURCE_BROKER, str(BROKER_ID), "log.cleanup.policy", "compact"))
        compacts = (hosted.log for hosted in list(replicas.hosted.values()))
        await until(lambda: not lone.broker.metadata.unfollowed)
        assert all(log.config.compacts for log in compacts)
        lone.commit(r.RemoveTopic(TOPIC_ID))
        await until(lambda: not replicas.hosted)
        assert max(slices) <= FOLLOW_AT_ONCE

    told(tmp_path, story)


def test_metadata_counts_as_applied_when_the_replicas_have_followed_it(tmp_path):
    async def story(lone: LoneBroker) -> None:
        broker, applied = lone.broker, 1_000
        heard: list[int] = []
        lone.commit(*created(COUNT))
        broker.committed.on_applied(applied)
        broker.metadata.when_followed(
            applied, lambda: heard.append(len(broker.metadata.unfollowed))
        )
        assert broker.metadata.offset < applied
        assert len(broker.metadata.unfollowed) == COUNT
        await until(lambda: broker.metadata.offset == applied)
        assert heard == [0]

    told(tmp_path, story)


def test_what_cannot_be_followed_is_told_to_the_node(tmp_path, monkeypatch):
    failures: list[Exception] = []

    def broken(self: Replicas, touched: Iterable[PartitionId]) -> None:
        raise OSError("no more")

    async def story(lone: LoneBroker) -> None:
        lone.broker.changes.on_failure = failures.append
        monkeypatch.setattr(Replicas, "publish", broken)
        lone.commit(*created(1))
        await until(lambda: failures)
        monkeypatch.undo()
        assert str(failures[0]) == "no more"

    told(tmp_path, story)


def test_checkpoints_are_written_once_for_all_logs_and_beside_the_loop(tmp_path):
    async def story(lone: LoneBroker, disk: CountingDisk) -> None:
        replicas = lone.broker.replicas
        lone.commit(*created(COUNT))
        await until(lambda: len(replicas.hosted) == COUNT)
        disk.written.clear()
        disk.on_the_loop.clear()
        lone.pass_time(CHECKPOINT_EVERY_MS)
        files = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS)
        await until(lambda: all(disk.written[each] for each in files))
        assert {each: disk.written[each] for each in files} == dict.fromkeys(files, 1)
        assert disk.on_the_loop == []
        assert len((tmp_path / HIGH_WATERMARKS).read_text("utf-8").splitlines()) == 2 + COUNT

    on_counting_disk(tmp_path, story)


def test_retention_looks_at_some_logs_in_a_turn_and_at_every_one_in_a_pass(tmp_path, monkeypatch):
    seen: list[list[tuple[str, int]]] = []
    apply = LogDirectory.apply_retention

    def noted(self: LogDirectory, **given: Any) -> int:
        seen.append(list(given["names"]))
        return apply(self, **given)

    monkeypatch.setattr(LogDirectory, "apply_retention", noted)

    async def story(lone: LoneBroker) -> None:
        replicas = lone.broker.replicas
        lone.commit(*created(COUNT))
        await until(lambda: len(replicas.hosted) == COUNT)
        lone.pass_time(RETENTION_EVERY_MS)
        while sum(map(len, seen)) < COUNT:
            lone.pass_time(BETWEEN_SLICES_MS)
        assert max(map(len, seen)) == RETAINED_AT_ONCE
        assert sorted(name for names in seen for name in names) == sorted(
            hosted.name for hosted in replicas.hosted.values()
        )

    told(tmp_path, story)


def test_followers_of_some_partitions_are_checked_in_a_turn_and_of_every_one_in_a_pass(
    tmp_path, monkeypatch
):
    seen: list[list[Hosted]] = []
    check = Replicas.check_isr

    def noted(self: Replicas, some: Iterable[Hosted]) -> None:
        seen.append(list(some))
        check(self, seen[-1])

    monkeypatch.setattr(Replicas, "check_isr", noted)
    count = CHECKED_AT_ONCE + SOME

    async def story(lone: LoneBroker) -> None:
        replicas = lone.broker.replicas
        lone.commit(*created(count))
        await until(lambda: len(replicas.hosted) == count)
        for every_partition in (1, 2):
            lone.pass_time(CHECK_EVERY_MS)
            assert len(seen) == 2 * every_partition - 1
            lone.pass_time(BETWEEN_SLICES_MS)
            assert len(seen) == 2 * every_partition
            assert [len(some) for some in seen[-2:]] == [CHECKED_AT_ONCE, SOME]
            assert {*seen[-2], *seen[-1]} == set(replicas.hosted.values())

    told(tmp_path, story)


def test_records_of_many_partitions_are_deleted_in_a_few_turns_with_one_writing_each(
    tmp_path, monkeypatch
):
    raised: list[str] = []
    raise_log_start = Log.raise_log_start
    count = DELETED_AT_ONCE + SOME

    def noted(self: Log, offset: int) -> None:
        raised.append(self.directory)
        raise_log_start(self, offset)

    monkeypatch.setattr(Log, "raise_log_start", noted)

    async def story(lone: LoneBroker) -> None:
        alone = [
            each._replace(replicas=(BROKER_ID,), isr=(BROKER_ID,), leader=BROKER_ID)
            for each in partitions(count)
        ]
        lone.commit(r.Topic(TOPIC, TOPIC_ID), *alone)
        await until(lambda: len(lone.broker.replicas.hosted) == count)
        for index in range(count):
            append(lone.broker, TOPIC, b"first", index=index)
        written = writings_of(LOG_STARTS, monkeypatch)
        asked = [DeleteRecordsPartition(partition_index=index, offset=1) for index in range(count)]
        topic = DeleteRecordsTopic(name=TOPIC, partitions=asked)
        answer = asyncio.ensure_future(
            lone.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=30_000), 2)
        )
        while not raised:
            await asyncio.sleep(0)
        assert len(raised) == DELETED_AT_ONCE
        results = (await answer).topics[0].partitions  # type: ignore[attr-defined]
        assert [(each.error_code, each.low_watermark) for each in results] == [(0, 1)] * count
        assert len(raised) == count
        assert len(written) == 2
        stored = checkpoints.read_offsets(FileDisk(tmp_path), LOG_STARTS)
        assert stored == {(TOPIC, index): 1 for index in range(count)}

    told(tmp_path, story, apis=(DELETE_RECORDS,))
