"""What clients are told of a leader that may have died a moment ago."""

import asyncio
import socket
from pathlib import Path

from support import loopback
from support.admin_story import AdminStory, admin_story
from support.broker_config import CLIENTS, INSIDE
from tidelog.broker.api_table import handlers
from tidelog.broker.control.recently_fenced import LISTED_FOR_TRANSACTIONS_MS, LISTED_MS
from tidelog.broker.coordination.internal_topics import TRANSACTION_STATE
from tidelog.broker.replication.suspected_brokers import SUSPECTED_MS
from tidelog.core.metadata import records as r
from tidelog.rpc import ApiTable, serve
from tidelog.wire.protocol import Listener
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest, MetadataRequestTopic
from tidelog.wire.protocol.schemas.metadata_response import MetadataResponse

NEWEST = 13


def free_port() -> int:
    """Where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def register_at(story: AdminStory, broker_id: int, port: int, *, fenced: bool = False) -> None:
    """A new incarnation of it."""
    endpoints = tuple(r.Endpoint(name, "127.0.0.1", port) for name in (CLIENTS, INSIDE))
    story.commit(
        r.RegisterBroker(broker_id, b"incarnation".ljust(16), 50, endpoints, fenced=fenced)
    )


def fence(story: AdminStory, broker_id: int) -> None:
    epoch = story.broker.image.brokers[broker_id].broker_epoch
    story.commit(r.BrokerRegistrationChange(broker_id, epoch, fenced=1))


async def metadata(story: AdminStory, listener: str = CLIENTS) -> MetadataResponse:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    answer = await story.ask(request, NEWEST, listener)
    assert isinstance(answer, MetadataResponse), answer
    return answer


def leader_in(answer: MetadataResponse) -> int:
    return answer.topics[0].partitions[0].leader_id


def test_a_leader_that_refuses_connections_is_not_told_of_before_the_controller_decides(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            register_at(s, 4, free_port())
            topic_id = s.create_topic("t", replicas=(4, 3))
            asked = asyncio.ensure_future(metadata(s))
            await loopback.until(s.broker.suspected.remain)
            await s.other_traffic()
            assert not asked.done()
            s.commit(r.PartitionChange(0, topic_id, isr=(3,), leader=3))
            fence(s, 4)
            assert leader_in(await asked) == 3

    loopback.run(story)


def test_a_leader_that_only_we_cannot_reach_delays_one_answer_and_no_more(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            register_at(s, 4, free_port())
            s.create_topic("t", replicas=(4, 3))
            asked = asyncio.ensure_future(metadata(s))
            await loopback.until(s.broker.suspected.remain)
            s.pass_time(SUSPECTED_MS)
            assert leader_in(await asked) == 4
            assert leader_in(await metadata(s)) == 4

    loopback.run(story)


def test_a_leader_that_gives_a_sign_of_life_is_told_of_without_delay(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            register_at(s, 4, s.clients[INSIDE].address[1])
            s.create_topic("t", replicas=(4, 3))
            assert leader_in(await metadata(s)) == 4

    loopback.run(story)


def test_a_leader_that_was_started_anew_is_not_doubted_for_the_end_of_the_process_before(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            network = s.broker.host.network
            table = ApiTable(Listener.CLIENT, handlers(s.broker))
            process = await network.listen("127.0.0.1", 0, serve(table, CLIENTS))
            port = process.port
            register_at(s, 4, port)
            s.create_topic("t", replicas=(4, 3))
            assert leader_in(await metadata(s)) == 4
            await process.stop(timeout_ms=0)
            await s.other_traffic()
            process = await network.listen("127.0.0.1", port, serve(table, CLIENTS))
            try:
                assert leader_in(await metadata(s)) == 4
                assert not s.broker.suspected.remain()
            finally:
                s.broker.suspected.close()
                await process.stop(timeout_ms=0)

    loopback.run(story)


def test_who_asks_late_waits_only_as_long_as_the_doubt_lasts(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            register_at(s, 4, free_port())
            s.create_topic("t", replicas=(4, 3))
            early = asyncio.ensure_future(metadata(s))
            await loopback.until(s.broker.suspected.remain)
            s.pass_time(SUSPECTED_MS - 1)
            request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            late = asyncio.ensure_future(s.ask_raw(request, NEWEST))
            await s.other_traffic()
            assert not late.done()
            s.pass_time(1)
            assert leader_in(await early) == 4
            assert await late

    loopback.run(story)


def test_a_fenced_broker_is_listed_once_more_but_not_as_a_replica_that_is_there(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.create_topic("t", replicas=(1, 2))
            fence(s, 2)
            answer = await metadata(s)
            assert [each.node_id for each in answer.brokers] == [1, 2, 3]
            assert list(answer.topics[0].partitions[0].offline_replicas) == [2]
            answer = await metadata(s)
            assert [each.node_id for each in answer.brokers] == [1, 3]
            assert [each.node_id for each in (await metadata(s, INSIDE)).brokers] == [1, 2, 3]

    loopback.run(story)


def test_who_asks_later_does_not_hear_of_a_fenced_broker(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.create_topic("t", replicas=(1, 2))
            fence(s, 2)
            s.pass_time(LISTED_MS)
            assert [each.node_id for each in (await metadata(s)).brokers] == [1, 3]

    loopback.run(story)


def test_where_transactions_are_used_everybody_hears_of_a_fenced_broker_for_longer(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.create_topic("t")
            s.create_topic(TRANSACTION_STATE, replicas=(1, 2))
            fence(s, 2)
            for _ in range(3):
                assert [each.node_id for each in (await metadata(s)).brokers] == [1, 2, 3]
            s.pass_time(LISTED_FOR_TRANSACTIONS_MS - 1)
            assert [each.node_id for each in (await metadata(s)).brokers] == [1, 2, 3]
            s.pass_time(1)
            assert [each.node_id for each in (await metadata(s)).brokers] == [1, 3]

    loopback.run(story)


def test_a_broker_that_comes_back_is_listed_when_it_is_unfenced_and_not_before(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.create_topic("t")
            fence(s, 2)
            register_at(s, 2, free_port(), fenced=True)
            answer = await metadata(s)
            assert [each.node_id for each in answer.brokers] == [1, 3]
            epoch = s.broker.image.brokers[2].broker_epoch
            s.commit(r.BrokerRegistrationChange(2, epoch, fenced=-1))
            answer = await metadata(s)
            assert [each.node_id for each in answer.brokers] == [1, 2, 3]

    loopback.run(story)
