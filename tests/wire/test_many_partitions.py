"""Thousands of new partitions: their logs are made a few at a time, and others get their turn."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from support.lone_broker import BROKER_ID, LoneBroker, lone_broker
from support.loopback import run
from tidelog.broker.duties import Duties
from tidelog.broker.replicas import NEW_AT_ONCE
from tidelog.core.metadata import records as r
from tidelog.core.types import PartitionId

TOPIC, TOPIC_ID = "many", b"many............"
COUNT = 3 * NEW_AT_ONCE + 5
LEADER_EPOCH = 7

Story = Callable[[LoneBroker], Awaitable[None]]


def told(data: Path, story: Story, **settings: str) -> None:
    async def main() -> None:
        async with lone_broker(data, {}, **settings) as lone:
            failures: list[Exception] = []
            duties = Duties(lone.broker, failures.append)
            duties.start()
            try:
                await story(lone)
            finally:
                duties.stop()
            assert not failures

    run(main)


def created(count: int) -> list[r.MetadataRecord]:
    """Every other partition is led by the broker of the story."""
    partitions = [
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
    return [r.Topic(TOPIC, TOPIC_ID), *partitions]


def test_logs_are_made_a_few_at_a_time_until_all_are_there(tmp_path):
    async def story(lone: LoneBroker) -> None:
        replicas = lone.broker.replicas
        lone.commit(*created(COUNT))
        assert len(replicas.hosted) == NEW_AT_ONCE
        for expected in (2 * NEW_AT_ONCE, 3 * NEW_AT_ONCE, COUNT, COUNT):
            lone.pass_time(10)
            assert len(replicas.hosted) == expected
        assert len(replicas.directories.all[0].logs) == COUNT
        assert {hosted.leader is not None for hosted in replicas.hosted.values()} == {True, False}

    told(tmp_path, story)


def test_the_epoch_of_a_new_leader_is_on_disk_when_it_leads(tmp_path):
    async def story(lone: LoneBroker) -> None:
        lone.commit(*created(NEW_AT_ONCE))
        for hosted in lone.broker.replicas.hosted.values():
            checkpoint = tmp_path / f"{TOPIC}-{hosted.index}" / "leader-epoch-checkpoint"
            leads = hosted.leader is not None
            assert checkpoint.exists() == leads
            assert hosted.log.epochs.entries == ([(LEADER_EPOCH, 0)] if leads else [])

    told(tmp_path, story)


def test_a_partition_that_changes_while_it_waits_is_hosted_as_it_is_then(tmp_path):
    async def story(lone: LoneBroker) -> None:
        last = PartitionId(TOPIC_ID, COUNT - 1)
        lone.commit(*created(COUNT))
        assert last not in lone.broker.replicas.hosted
        lone.commit(r.PartitionChange(last.partition, TOPIC_ID, leader=BROKER_ID))
        assert lone.broker.replicas.hosted[last].leader is not None
        lone.pass_time(10)
        lone.pass_time(10)
        lone.pass_time(10)
        assert len(lone.broker.replicas.hosted) == COUNT

    told(tmp_path, story)


def test_a_topic_that_is_deleted_while_its_logs_are_made_leaves_nothing(tmp_path):
    async def story(lone: LoneBroker) -> None:
        lone.commit(*created(COUNT))
        lone.commit(r.RemoveTopic(TOPIC_ID))
        for _ in range(5):
            lone.pass_time(10)
        assert not lone.broker.replicas.hosted
        assert not [each for each in tmp_path.iterdir() if each.name.startswith(TOPIC)]

    told(tmp_path, story)
