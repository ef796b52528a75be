"""Settings of a topic reach its log: when it is made, when they change, after a restart."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from support.batches import batch
from support.fed_brokers import append, fed_brokers, hosted_on, topic_records
from support.lone_broker import LoneBroker, duties_of, lone_broker, until
from support.loopback import run
from tidelog.broker.coordination.internal_topics import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    creation_of,
)
from tidelog.core.metadata import records as r
from tidelog.storage.errors import NoSpace
from tidelog.storage.log import Log
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import ProduceResponse

TOPIC = "orders"
MIB = 1 << 20
VALUE = b"x" * 250_000
"""Four of them fill a segment of 1 MiB, the smallest that Kafka allows."""
RETENTION_CHECK_MS = 300_000


def told(
    data: Path,
    story: Callable[[LoneBroker], Awaitable[None]],
    *,
    serving: bool = True,
    **settings: str,
) -> None:
    async def main() -> None:
        apis = (0,)
        async with lone_broker(data, apis, serving=serving, **settings) as lone:
            await story(lone)

    run(main)


async def write(lone: LoneBroker, count: int, *, time_ms: int = 1000) -> None:
    for _ in range(count):
        data = PartitionProduceData(index=0, records=batch(VALUE, time_ms=time_ms))
        topic = TopicProduceData(name=TOPIC, partition_data=[data])
        request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[topic])
        answer = await lone.ask(request, 11)
        assert isinstance(answer, ProduceResponse), answer
        assert answer.responses[0].partition_responses[0].error_code == 0, answer


def log_of(lone: LoneBroker, topic: str = TOPIC) -> Log:
    return hosted_on(lone.broker, topic).log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_a_topic_with_small_segments_rolls_and_retention_deletes_the_old_ones(
    tmp_path: Path,
) -> None:
    """The story of the field trial, scaled down: it was one large segment."""

    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, segment_bytes=str(MIB), retention_bytes=str(2 * MIB))
        duties_of(lone.broker, lone.offline.append).start()
        await write(lone, 24)
        assert bases(log_of(lone)) == [0, 4, 8, 12, 16, 20]
        await lone.until(lambda: log_of(lone).log_start_offset > 0, step_ms=RETENTION_CHECK_MS)
        assert bases(log_of(lone)) == [12, 16, 20]
        assert log_of(lone).log_start_offset == 12
        assert lone.offline == []

    told(tmp_path, story)


def test_retention_goes_on_after_a_pass_that_found_no_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass that failed was taken for one under way, and no other began."""
    failures: list[str] = []
    apply_retention = Log.apply_retention

    def without_space(log: Log, now_ms: int, high_watermark: int, **limits: int) -> int:
        if not failures:
            failures.append(log.directory)
            raise NoSpace(log.directory)
        return apply_retention(log, now_ms, high_watermark, **limits)

    monkeypatch.setattr(Log, "apply_retention", without_space)

    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, segment_bytes=str(MIB), retention_bytes=str(2 * MIB))
        duties_of(lone.broker, lone.offline.append).start()
        await write(lone, 24)
        await lone.until(lambda: log_of(lone).log_start_offset > 0, step_ms=RETENTION_CHECK_MS)
        assert len(failures) == 1
        assert bases(log_of(lone)) == [12, 16, 20]

    told(tmp_path, story)


def test_altered_settings_count_at_the_next_append(tmp_path: Path) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        await write(lone, 6)
        assert bases(log_of(lone)) == [0]
        lone.commit(r.Config(r.RESOURCE_TOPIC, TOPIC, "segment.bytes", str(MIB)))
        await write(lone, 6)
        assert bases(log_of(lone)) == [0, 6, 10]
        lone.commit(r.Config(r.RESOURCE_TOPIC, TOPIC, "segment.bytes", None))
        await write(lone, 6)
        assert bases(log_of(lone)) == [0, 6, 10]
        lone.commit(r.Config(r.RESOURCE_TOPIC, TOPIC, "segment.ms", "1000"))
        await write(lone, 2, time_ms=3000)
        assert bases(log_of(lone)) == [0, 6, 10, 18]

    told(tmp_path, story)


def test_an_altered_default_of_the_cluster_reaches_topics_without_their_own(
    tmp_path: Path,
) -> None:
    async def story(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC)
        await write(lone, 1)
        lone.commit(r.Config(r.RESOURCE_BROKER, "", "log.segment.bytes", str(MIB)))
        await write(lone, 8)
        assert bases(log_of(lone)) == [0, 4, 8]

    told(tmp_path, story)


def test_a_log_that_is_opened_again_has_its_settings_before_the_first_append(
    tmp_path: Path,
) -> None:
    async def first_life(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, segment_bytes=str(MIB))
        await write(lone, 3)

    async def second_life(lone: LoneBroker) -> None:
        lone.create_topic(TOPIC, segment_bytes=str(MIB))
        lone.broker.committed.begin_serving()
        assert log_of(lone).log_end_offset == 3
        await write(lone, 5)
        assert bases(log_of(lone)) == [0, 4]

    told(tmp_path, first_life)
    told(tmp_path, second_life, serving=False)


@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS, TRANSACTION_STATE])
def test_internal_topics_roll_by_the_size_that_is_set_for_them(tmp_path: Path, topic: str) -> None:
    async def story(lone: LoneBroker) -> None:
        creation = creation_of(
            topic, lone.broker.config.coordinating, len(lone.broker.image.brokers), 1000
        ).topics[0]
        configs = {each.name: each.value or "" for each in creation.configs}
        lone.create_topic(topic, **configs)
        log = log_of(lone, topic)
        for _ in range(8):
            log.append_as_leader(batch(VALUE), 5)
        assert bases(log) == [0, 4]
        assert log.config.compacts
        lone.commit(r.Config(r.RESOURCE_TOPIC, topic, "max.compaction.lag.ms", "1000"))
        log.append_as_leader(batch(VALUE, time_ms=3000), 5)
        assert bases(log) == [0, 4, 8]

    sizes = {
        "offsets.topic.segment.bytes": str(MIB),
        "transaction.state.log.segment.bytes": str(MIB),
    }
    told(tmp_path, story, **sizes)


def test_followers_roll_by_the_settings_too(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2) as cluster:
            cluster.commit(
                *topic_records(TOPIC, replicas=(1, 2)),
                r.Config(r.RESOURCE_TOPIC, TOPIC, "segment.bytes", str(MIB)),
            )
            for _ in range(12):
                append(cluster[1], TOPIC, VALUE)
            await until(lambda: cluster.log_end(2, TOPIC) == 12)
            for broker_id in (1, 2):
                sizes = [each.size for each in cluster.hosted(broker_id, TOPIC).log.segments]
                assert len(sizes) == 3, sizes
                assert max(sizes) <= MIB

    run(story)
