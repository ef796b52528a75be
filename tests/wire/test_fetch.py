"""Fetch over real sockets: records, waiting, limits, sessions, errors."""

import asyncio
from pathlib import Path

import pytest

from support import loopback
from support.batches import batch, headers, marker, offsets
from support.fed_brokers import (
    WAIT_MS,
    FedCluster,
    broker_epoch,
    fed_brokers,
    partition_id,
    topic_id,
    topic_records,
)
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.wire.protocol.schemas.api_versions_request import ApiVersionsRequest
from tidelog.wire.protocol.schemas.api_versions_response import ApiVersionsResponse
from tidelog.wire.protocol.schemas.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse, PartitionData
from tidelog.wire.protocol.schemas.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.protocol.schemas.list_offsets_response import ListOffsetsResponse

NEWEST = 18
LONG_MS = 20_000
FOR_EVER_MS = 10 * loopback.GUARD_S * 1000
"""A story that waits so long has failed."""
MIB = 1 << 20


def wanted(offset: int, index: int = 0, *, epoch: int = -1, last: int = -1, size: int = MIB):
    return FetchPartition(
        partition=index,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last,
        partition_max_bytes=size,
    )


def request(*partitions: FetchPartition, topic: str = "tides", **scope) -> FetchRequest:
    """Of one topic, by name and by id: the version decides which is sent."""
    scope = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 10 * MIB, **scope}
    topics = [FetchTopic(topic=topic, topic_id=topic_id(topic), partitions=list(partitions))]
    return FetchRequest(topics=topics if partitions else [], **scope)


def follower(broker_id: int) -> ReplicaState:
    return ReplicaState(replica_id=broker_id, replica_epoch=broker_epoch(broker_id))


async def fetched(cluster: FedCluster, asked: FetchRequest, version: int = NEWEST) -> FetchResponse:
    answer = await cluster.members[1].ask(asked, version)
    assert isinstance(answer, FetchResponse)
    return answer


def only(answer: FetchResponse) -> PartitionData:
    (data,) = [each for topic in answer.responses for each in topic.partitions]
    return data


def by_index(answer: FetchResponse) -> dict[int, PartitionData]:
    return {each.partition_index: each for topic in answer.responses for each in topic.partitions}


def reelect(cluster: FedCluster) -> None:
    """Nobody leads, then the same broker does: two leader epochs later."""
    for leader in (-1, 1):
        cluster.commit(r.PartitionChange(0, topic_id("tides"), leader=leader))


def led(data: Path, story, **settings):
    """A broker that leads three partitions of `tides` alone."""

    async def told():
        async with fed_brokers(data, 1, **settings) as cluster:
            cluster.commit(*topic_records("tides", replicas=(1,), partitions=3))
            await story(cluster)

    loopback.run(told)


@pytest.mark.parametrize("version", range(4, NEWEST + 1))
def test_a_consumer_reads_what_was_appended_in_every_version(tmp_path: Path, version: int) -> None:
    async def story(cluster: FedCluster) -> None:
        cluster.append(1, "tides", b"one", b"two")
        cluster.append(1, "tides", b"three")
        answer = await fetched(cluster, request(wanted(1)), version)
        data = only(answer)
        assert (data.error_code, data.high_watermark) == (0, 3)
        assert data.last_stable_offset == 3
        assert data.aborted_transactions is None
        assert offsets([data.records]) == [(0, 1), (2, 2)]
        topic = answer.responses[0]
        assert (topic.topic_id == topic_id("tides")) == (version >= 13)
        assert (topic.topic == "tides") == (version < 13)

    led(tmp_path, story)


def test_a_fetch_at_the_end_waits_until_something_is_appended(tmp_path: Path) -> None:
    async def story(cluster: FedCluster) -> None:
        asked = request(wanted(0), wanted(0, 1), max_wait_ms=LONG_MS)
        answered = asyncio.ensure_future(fetched(cluster, asked))
        await loopback.until(lambda: cluster[1].fetches.parked_count)
        assert not answered.done()
        cluster.append(1, "tides", b"one", index=1)
        answer = by_index(await answered)
        assert offsets([answer[1].records]) == [(0, 0)]
        assert len(answer[0].records) == 0
        assert cluster[1].fetches.parked_count == 0
        assert cluster[1].fetches.watched_count == 0

    led(tmp_path, story)


def test_a_parked_fetch_gives_way_to_an_answer_behind_it(tmp_path: Path) -> None:
    """A Java consumer asks for offsets on the connection of its fetches, and answers keep the
    order of requests. The fetch waits because it may, the question waits because it must."""

    async def story(cluster: FedCluster) -> None:
        cluster.append(1, "tides", b"one")
        peer = cluster.members[1].client()
        asked = request(wanted(1), max_wait_ms=FOR_EVER_MS)
        empty = asyncio.ensure_future(peer.ask(asked, NEWEST, timeout_ms=FOR_EVER_MS))
        await loopback.until(lambda: cluster[1].fetches.parked_count)
        question = ListOffsetsTopic(
            name="tides", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
        )
        told = await peer.ask(ListOffsetsRequest(topics=[question]), 8, timeout_ms=WAIT_MS)
        assert isinstance(told, ListOffsetsResponse)
        assert told.topics[0].partitions[0].offset == 1
        answer = await empty
        assert isinstance(answer, FetchResponse)
        assert len(only(answer).records) == 0
        assert (cluster[1].fetches.parked_count, cluster[1].fetches.watched_count) == (0, 0)

    led(tmp_path, story)


def test_parked_fetches_give_way_one_after_the_other(tmp_path: Path) -> None:

    async def story(cluster: FedCluster) -> None:
        peer = cluster.members[1].client()
        asked = request(wanted(0), max_wait_ms=FOR_EVER_MS)
        empty = [
            asyncio.ensure_future(peer.ask(asked, NEWEST, timeout_ms=FOR_EVER_MS)) for _ in range(2)
        ]
        await loopback.until(lambda: cluster[1].fetches.parked_count == 2)
        told = await peer.ask(ApiVersionsRequest(), 0, timeout_ms=WAIT_MS)
        assert isinstance(told, ApiVersionsResponse)
        for answer in await asyncio.gather(*empty):
            assert isinstance(answer, FetchResponse)
            assert len(only(answer).records) == 0
        assert cluster[1].fetches.parked_count == 0

    led(tmp_path, story)


def test_appends_of_one_moment_are_answered_together(tmp_path: Path) -> None:
    async def story(cluster: FedCluster) -> None:
        asked = request(wanted(0), wanted(0, 1), wanted(0, 2), max_wait_ms=LONG_MS)
        answered = asyncio.ensure_future(fetched(cluster, asked))
        await loopback.until(lambda: cluster[1].fetches.parked_count)
        for index in range(3):
            cluster.append(1, "tides", b"one", index=index)
        answer = by_index(await answered)
        assert [offsets([answer[index].records]) for index in range(3)] == [[(0, 0)]] * 3

    led(tmp_path, story)


def test_a_fetch_that_wants_many_bytes_waits_for_them_or_for_its_time(tmp_path: Path) -> None:
    async def story(cluster: FedCluster) -> None:
        cluster.append(1, "tides", b"x" * 100)
        asked = request(wanted(0), max_wait_ms=LONG_MS, min_bytes=1000)
        answered = asyncio.ensure_future(fetched(cluster, asked))
        await loopback.until(lambda: cluster[1].fetches.parked_count)
        cluster.append(1, "tides", b"y" * 100)
        cluster.append(1, "tides", b"z" * 1000)
        assert len(offsets([only(await answered).records])) == 3
        late = await fetched(cluster, request(wanted(1), max_wait_ms=30, min_bytes=MIB))
        assert len(offsets([only(late).records])) == 2

    led(tmp_path, story)


def test_a_fetch_is_answered_within_what_the_node_has_left_when_it_is_answered(
    tmp_path: Path,
) -> None:
    """Not within what it had when the fetch came, which any number of others may have heard too."""

    async def story(cluster: FedCluster) -> None:
        answers = cluster.members[1].network.context.answers
        asked = request(wanted(0), max_wait_ms=LONG_MS, min_bytes=150_000)
        answered = asyncio.ensure_future(fetched(cluster, asked))
        await loopback.until(lambda: cluster[1].fetches.parked_count)
        answers.charge(answers.small_from_bytes)
        cluster.append(1, "tides", b"x" * 200_000)
        cluster.append(1, "tides", b"y" * 200_000)
        assert offsets([only(await answered).records]) == [(0, 0)], "one whole batch, though large"
        answers.charge(answers.limit_bytes - answers.small_from_bytes)
        data = only(await fetched(cluster, request(wanted(0), max_wait_ms=20)))
        assert (data.error_code, len(data.records)) == (0, 0)
        answers.release(answers.limit_bytes)
        answer = await fetched(cluster, request(wanted(0)))
        assert offsets([only(answer).records]) == [(0, 0), (1, 1)]

    led(tmp_path, story)


def test_an_idle_fetch_is_answered_when_its_time_is_over(tmp_path: Path) -> None:
    async def story(cluster: FedCluster) -> None:
        data = only(await fetched(cluster, request(wanted(0), max_wait_ms=20)))
        assert (data.error_code, len(data.records)) == (0, 0)
        assert cluster[1].fetches.watched_count == 0

    led(tmp_path, story)


def test_the_first_batch_comes_whole_and_later_ones_only_if_they_fit(tmp_path: Path) -> None:
    async def story(cluster: FedCluster) -> None:
        for index in range(3):
            cluster.append(1, "tides", b"x" * 1000, index=index)
            cluster.append(1, "tides", b"x" * 1000, index=index)
        asked = request(wanted(0, size=10), wanted(0, 1), wanted(0, 2), max_bytes=1500)
        answer = by_index(await fetched(cluster, asked))
        assert offsets([answer[0].records]) == [(0, 0)]
        assert len(answer[1].records) == 0
        assert len(answer[2].records) == 0
        asked = request(wanted(0), wanted(0, 1), wanted(0, 2), max_bytes=5000)
        answer = by_index(await fetched(cluster, asked))
        assert [len(headers([answer[index].records])) for index in range(3)] == [2, 2, 0]

    led(tmp_path, story)


def test_a_reader_of_committed_records_hears_of_aborted_transactions(tmp_path: Path) -> None:
    async def story(cluster: FedCluster) -> None:
        hosted = cluster.hosted(1, "tides")
        sent = batch(b"gone", producer=7, sequence=0, transactional=True)
        hosted.log.append_as_leader(sent, 0)
        cluster.append(1, "tides", b"plain")
        data = only(await fetched(cluster, request(wanted(0), isolation_level=1)))
        assert (data.high_watermark, data.last_stable_offset) == (2, 0)
        assert data.aborted_transactions == []
        assert len(data.records) == 0
        hosted.log.append_as_leader(marker(7, commit=False), 0)
        cluster.append(1, "tides", b"more")
        data = only(await fetched(cluster, request(wanted(0), isolation_level=1)))
        assert data.last_stable_offset == 4
        assert [(a.producer_id, a.first_offset) for a in data.aborted_transactions] == [(7, 0)]
        data = only(await fetched(cluster, request(wanted(3), isolation_level=1)))
        assert data.aborted_transactions == []

    led(tmp_path, story)


def test_what_cannot_be_fetched_is_refused_with_kafkas_error(tmp_path: Path) -> None:
    async def story(cluster: FedCluster) -> None:
        cluster.append(1, "tides", b"one")

        async def error_of(asked: FetchRequest, version: int = NEWEST) -> int:
            return only(await fetched(cluster, asked, version)).error_code

        waits = {"max_wait_ms": LONG_MS}
        assert await error_of(request(wanted(0), topic="no", **waits)) == Error.UNKNOWN_TOPIC_ID
        unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
        assert await error_of(request(wanted(0), topic="no", **waits), 12) == unknown
        assert await error_of(request(wanted(0, 9), **waits)) == unknown
        assert await error_of(request(wanted(5), **waits)) == Error.OFFSET_OUT_OF_RANGE
        newer = Error.UNKNOWN_LEADER_EPOCH
        assert await error_of(request(wanted(0, epoch=4), **waits)) == newer
        reelect(cluster)
        older = Error.FENCED_LEADER_EPOCH
        assert await error_of(request(wanted(0, epoch=0), **waits)) == older

    led(tmp_path, story)


def test_a_reader_with_another_history_is_told_where_it_parts(tmp_path: Path) -> None:
    async def story(cluster: FedCluster) -> None:
        cluster.append(1, "tides", b"one")
        reelect(cluster)
        cluster.append(1, "tides", b"two")
        data = only(await fetched(cluster, request(wanted(2, last=0), max_wait_ms=LONG_MS)))
        assert data.error_code == 0
        assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 1)
        assert len(data.records) == 0
        assert only(await fetched(cluster, request(wanted(2, last=2)))).diverging_epoch is None

    led(tmp_path, story)


def test_a_broker_that_leads_no_more_says_who_does(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2) as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2)))
            asked = request(wanted(0, epoch=0), max_wait_ms=LONG_MS)
            parked = asyncio.ensure_future(fetched(cluster, asked))
            await loopback.until(lambda: cluster[1].fetches.parked_count)
            cluster.commit(r.PartitionChange(0, topic_id("tides"), leader=2))
            for answer in (await parked, await fetched(cluster, asked)):
                data = only(answer)
                assert data.error_code == Error.FENCED_LEADER_EPOCH
                assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 1)
                (node,) = answer.node_endpoints
                assert (node.node_id, node.port) == (2, cluster.members[2].port)
            old = await fetched(cluster, asked, 15)
            assert only(old).current_leader is None

    loopback.run(story)


def test_old_consumers_read_only_from_the_leader_and_new_ones_from_any_replica(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2) as cluster:
            cluster.commit(*topic_records("tides", replicas=(2, 1)))
            data = only(await fetched(cluster, request(wanted(0)), 10))
            assert data.error_code == Error.NOT_LEADER_OR_FOLLOWER
            cluster.append(2, "tides", b"one")
            await loopback.until(lambda: cluster.hosted(1, "tides").replica.high_watermark == 1)
            data = only(await fetched(cluster, request(wanted(0)), 11))
            assert offsets([data.records]) == [(0, 0)]

    loopback.run(story)


def test_a_consumer_is_sent_to_the_replica_in_its_rack(tmp_path: Path) -> None:
    async def story() -> None:
        selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        settings = {"replica_selector_class": selector}
        async with fed_brokers(tmp_path, 1, 2, racks=True, **settings) as cluster:
            cluster.commit(*topic_records("tides", replicas=(1, 2)))
            cluster.append(1, "tides", b"one")
            await loopback.until(lambda: cluster.hosted(1, "tides").replica.high_watermark == 1)
            asked = request(wanted(0), rack_id="rack-2", max_wait_ms=LONG_MS)
            data = only(await fetched(cluster, asked))
            assert (data.preferred_read_replica, len(data.records)) == (2, 0)
            data = only(await fetched(cluster, request(wanted(0), rack_id="rack-1")))
            assert (data.preferred_read_replica, len(data.records) > 0) == (-1, True)

    loopback.run(story)


def test_a_session_tells_only_what_changed(tmp_path: Path) -> None:
    async def story(cluster: FedCluster) -> None:
        peer = cluster.members[1].client()

        async def ask(asked: FetchRequest) -> FetchResponse:
            answer = await peer.ask(asked, NEWEST, timeout_ms=WAIT_MS)
            assert isinstance(answer, FetchResponse)
            return answer

        first = await ask(request(wanted(0), wanted(0, 1), wanted(0, 2), session_epoch=0))
        assert first.session_id != 0
        assert sorted(by_index(first)) == [0, 1, 2]
        said = {"session_id": first.session_id, "max_wait_ms": LONG_MS}
        answered = asyncio.ensure_future(ask(request(session_epoch=1, **said)))
        await loopback.until(lambda: cluster[1].fetches.parked_count)
        cluster.append(1, "tides", b"one", index=1)
        answer = by_index(await answered)
        assert list(answer) == [1]
        assert offsets([answer[1].records]) == [(0, 0)]
        # Not mentioned, so its position is the same, and so is the answer.
        answer = by_index(await ask(request(session_epoch=2, **said)))
        assert offsets([answer[1].records]) == [(0, 0)]
        gone = [ForgottenTopic(topic_id=topic_id("tides"), partitions=[1])]
        asked = request(session_epoch=3, forgotten_topics_data=gone, session_id=first.session_id)
        assert by_index(await ask(asked)) == {}
        assert (await ask(request(session_epoch=9, **said))).error_code == 71
        assert (await ask(request(session_epoch=1, session_id=5))).error_code == 70
        closing = request(wanted(0), session_epoch=-1, session_id=first.session_id)
        assert (await ask(closing)).session_id == 0
        assert (await ask(request(session_epoch=4, **said))).error_code == 70
        assert cluster[1].fetches.watched_count == 0

    led(tmp_path, story)


def test_a_second_request_of_a_session_sets_the_first_one_free(tmp_path: Path) -> None:
    async def story(cluster: FedCluster) -> None:
        peer = cluster.members[1].client()
        first = await peer.ask(request(wanted(0), session_epoch=0), NEWEST, timeout_ms=WAIT_MS)
        assert isinstance(first, FetchResponse)
        said = {"session_id": first.session_id, "max_wait_ms": LONG_MS}
        waiting = peer.ask(request(session_epoch=1, **said), NEWEST, timeout_ms=WAIT_MS)
        cluster.append(1, "tides", b"one", index=2)
        more = peer.ask(request(wanted(0, 2), session_epoch=2, **said), NEWEST, timeout_ms=WAIT_MS)
        empty, filled = await asyncio.gather(waiting, more)
        assert by_index(empty) == {}
        assert offsets([by_index(filled)[2].records]) == [(0, 0)]

    led(tmp_path, story)


def test_a_topic_that_comes_back_under_its_name_is_fetched_by_the_same_session(
    tmp_path: Path,
) -> None:
    async def story(cluster: FedCluster) -> None:
        cluster.append(1, "tides", b"one")
        named = 12
        first = await fetched(cluster, request(wanted(1), session_epoch=0), named)
        said = {"session_id": first.session_id}
        cluster.commit(r.RemoveTopic(topic_id("tides")))
        answer = await fetched(cluster, request(session_epoch=1, **said), named)
        assert only(answer).error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        again = [
            each._replace(topic_id=b"2" * 16) for each in topic_records("tides", replicas=(1,))
        ]
        cluster.commit(*again)
        answer = await fetched(cluster, request(session_epoch=2, **said), named)
        assert only(answer).error_code == Error.OFFSET_OUT_OF_RANGE
        answer = await fetched(cluster, request(wanted(0), session_epoch=3, **said), named)
        assert only(answer).error_code == 0
        asked = request(session_epoch=4, max_wait_ms=LONG_MS, **said)
        answered = asyncio.ensure_future(fetched(cluster, asked, named))
        await loopback.until(lambda: cluster[1].fetches.parked_count)
        cluster.append(1, "tides", b"new")
        assert offsets([only(await answered).records]) == [(0, 0)]
        mixed = await fetched(cluster, request(session_epoch=5, **said), NEWEST)
        assert mixed.error_code == Error.FETCH_SESSION_TOPIC_ID_ERROR

    led(tmp_path, story)


def test_a_follower_acknowledges_by_asking_for_more(tmp_path: Path) -> None:
    async def story(cluster: FedCluster) -> None:
        cluster.commit(*topic_records("pair", replicas=(1, 2)))
        cluster.append(1, "pair", b"one")
        replica = cluster.hosted(1, "pair").replica
        asked = request(
            wanted(0, epoch=0), topic="pair", replica_state=follower(2), max_wait_ms=LONG_MS
        )
        data = only(await fetched(cluster, asked))
        assert offsets([data.records]) == [(0, 0)]
        assert (data.high_watermark, replica.high_watermark) == (0, 0)
        asked = request(wanted(1, epoch=0), topic="pair", replica_state=follower(2))
        data = only(await fetched(cluster, asked))
        assert (data.high_watermark, replica.high_watermark) == (1, 1)
        stranger = request(
            wanted(1, epoch=0), topic="pair", replica_state=follower(3), max_wait_ms=20
        )
        assert only(await fetched(cluster, stranger)).error_code == Error.UNKNOWN_LEADER_EPOCH

    led(tmp_path, story)


def test_a_follower_ahead_of_our_metadata_waits_for_it(tmp_path: Path) -> None:
    """Told that we do not lead, it would pause; we are about to hear that we do."""

    async def story(cluster: FedCluster) -> None:
        asked = request(
            wanted(0, epoch=0), topic="soon", replica_state=follower(2), max_wait_ms=LONG_MS
        )
        answered = asyncio.ensure_future(fetched(cluster, asked))
        await loopback.until(lambda: cluster[1].fetches.parked_count)
        cluster.commit(*topic_records("soon", replicas=(1, 2)))
        cluster.append(1, "soon", b"one")
        cluster[1].committed.on_applied(cluster[1].metadata.offset + 1)
        data = only(await answered)
        assert (data.error_code, offsets([data.records])) == (0, [(0, 0)])

    led(tmp_path, story)


def test_a_throttled_leader_sends_no_records_to_a_replica_that_is_not_in_sync(
    tmp_path: Path,
) -> None:
    async def story(cluster: FedCluster) -> None:
        rate = r.Config(r.RESOURCE_BROKER, "1", "leader.replication.throttled.rate", "1")
        listed = r.Config(r.RESOURCE_TOPIC, "pair", "leader.replication.throttled.replicas", "0:1")
        cluster.commit(*topic_records("pair", replicas=(1, 2, 3), isr=(1, 3)), rate, listed)
        cluster.append(1, "pair", b"x" * 1000)
        cluster.append(1, "pair", b"y" * 1000)

        async def records_for(broker_id: int, offset: int) -> int:
            sender = follower(broker_id)
            asked = request(wanted(offset, epoch=0), topic="pair", replica_state=sender)
            return len(only(await fetched(cluster, asked)).records)

        assert await records_for(2, 0) > 0
        assert await records_for(2, 0) == 0
        assert await records_for(3, 0) > 0

    led(tmp_path, story)


def test_records_that_rotted_are_refused_and_the_rest_is_served(tmp_path: Path) -> None:
    async def story(cluster: FedCluster) -> None:
        cluster.append(1, "tides", b"one" * 100)
        cluster.append(1, "tides", b"fine", index=1)
        (path,) = (tmp_path / "broker-1").glob("tides-0/*.log")
        rotten = bytearray(path.read_bytes())
        rotten[100] ^= 1
        path.write_bytes(rotten)
        asked = request(wanted(0), wanted(0, 1), max_wait_ms=LONG_MS)
        answer = by_index(await fetched(cluster, asked))
        assert answer[0].error_code == Error.KAFKA_STORAGE_ERROR
        assert offsets([answer[1].records]) == [(0, 0)]
        assert partition_id("tides") in cluster[1].replicas.problems

    led(tmp_path, story)
