"""End markers whose commit takes longer than anybody waits: one in the log is enough.

A follower that needs seconds for each fetch, as on a machine with far too much to do, must not
keep a transaction from ending for ever.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from support.batches import batch
from support.lone_broker import LEADER_EPOCH, LoneBroker, lone_broker
from support.loopback import run, until
from tidelog.broker.replication.hosted import Hosted
from tidelog.broker.transactions.markers import COMMIT_TIMEOUT_MS
from tidelog.core.errors import NO_ERROR, Error
from tidelog.wire.protocol.schemas.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tidelog.wire.protocol.schemas.write_txn_markers_response import WriteTxnMarkersResponse

APIS = (27,)
TOPIC = "orders"
PRODUCER = 3000
FOLLOWER = 2

Story = Callable[[LoneBroker, Hosted], Awaitable[None]]


def told(data: Path, story: Story) -> None:
    """A leader with one follower in sync, and a transaction that is open in its log."""

    async def main() -> None:
        async with lone_broker(data, APIS) as lone:
            lone.create_topic(TOPIC, replicas=(1, FOLLOWER))
            hosted = lone.broker.replicas.named(TOPIC, 0)
            assert hosted is not None, TOPIC
            open_transaction(hosted, sequence=0)
            await story(lone, hosted)

    run(main)


def open_transaction(hosted: Hosted, sequence: int) -> None:
    records = batch(b"a", producer=PRODUCER, sequence=sequence, transactional=True)
    hosted.log.append_as_leader(records, LEADER_EPOCH)


def sent(lone: LoneBroker, *, commit: bool = True) -> asyncio.Task[Error]:
    """The marker is on its way, by the first version of transactions: epochs stay."""
    topic = WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])
    marker = WritableTxnMarker(
        producer_id=PRODUCER,
        producer_epoch=0,
        transaction_result=commit,
        topics=[topic],
        coordinator_epoch=0,
    )

    async def ask() -> Error:
        answer = await lone.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
        assert isinstance(answer, WriteTxnMarkersResponse), answer
        return Error(answer.markers[0].topics[0].partitions[0].error_code)

    return asyncio.create_task(ask())


def waits(hosted: Hosted) -> int:
    assert hosted.leader is not None, hosted
    return len(hosted.leader.parked)


async def told_to_come_again(lone: LoneBroker, hosted: Hosted) -> None:
    asked = sent(lone)
    await until(lambda: waits(hosted))
    lone.pass_time(COMMIT_TIMEOUT_MS)
    assert await asked is Error.REQUEST_TIMED_OUT


def test_a_marker_that_is_sent_again_waits_for_the_one_in_the_log(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, hosted: Hosted) -> None:
        for _ in range(3):
            await told_to_come_again(lone, hosted)
        assert hosted.log.log_end_offset == 2
        asked = sent(lone)
        await until(lambda: waits(hosted))
        lone.follower_fetches(TOPIC, FOLLOWER, 2)
        assert await asked is NO_ERROR
        assert hosted.log.log_end_offset == 2

    told(tmp_path, story)


def test_a_marker_that_was_committed_meanwhile_is_acknowledged_at_once(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, hosted: Hosted) -> None:
        await told_to_come_again(lone, hosted)
        lone.follower_fetches(TOPIC, FOLLOWER, 2)
        assert await sent(lone) is NO_ERROR
        assert hosted.log.log_end_offset == 2

    told(tmp_path, story)


def test_the_same_marker_ends_the_next_transaction_too(tmp_path: Path) -> None:
    """With the first version of transactions the two are equal."""

    async def story(lone: LoneBroker, hosted: Hosted) -> None:
        await told_to_come_again(lone, hosted)
        open_transaction(hosted, sequence=1)
        asked = sent(lone)
        await until(lambda: waits(hosted))
        assert hosted.log.log_end_offset == 4
        lone.follower_fetches(TOPIC, FOLLOWER, 4)
        assert await asked is NO_ERROR

    told(tmp_path, story)


def test_another_decision_is_written(tmp_path: Path) -> None:
    async def story(lone: LoneBroker, hosted: Hosted) -> None:
        await told_to_come_again(lone, hosted)
        asked = sent(lone, commit=False)
        await until(lambda: waits(hosted))
        assert hosted.log.log_end_offset == 3
        lone.follower_fetches(TOPIC, FOLLOWER, 3)
        assert await asked is NO_ERROR

    told(tmp_path, story)
