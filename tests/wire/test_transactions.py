"""Transactions over TCP: what is committed is read, what is aborted is not, the old are fenced."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.loopback import until
from support.transaction_story import (
    COORDINATOR,
    FIRST,
    FIRST_PRODUCER_ID,
    NEWEST,
    OLDEST,
    SECOND,
    HandMade,
    TransactionStory,
    Versions,
    begun,
    joined,
    move_leader,
    told,
)
from tidelog.broker.coordination.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidelog.broker.transactions import concurrent_requests
from tidelog.host.clock import SystemClock
from tidelog.wire.protocol.schemas.describe_transactions_request import (
    DescribeTransactionsRequest,
)
from tidelog.wire.protocol.schemas.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.protocol.schemas.list_transactions_request import ListTransactionsRequest
from tidelog.wire.protocol.schemas.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from tidelog.wire.records import Record, encode

ADD_PARTITIONS, WRITE_MARKERS = 24, 27

ALL = pytest.mark.parametrize(
    "versions", [OLDEST, FIRST, SECOND, NEWEST], ids=["oldest", "first", "second", "newest"]
)


@ALL
def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    tmp_path: Path, versions: Versions
) -> None:
    async def story(s: TransactionStory) -> None:
        producer = await begun(s, versions, "orders", "payments")
        assert (await producer.produce("orders", b"a", b"b")).error_code == 0
        assert (await producer.produce("payments", b"c")).error_code == 0
        assert (await producer.produce("payments", b"d")).error_code == 0
        for topic in ("orders", "payments"):
            before = await s.read(topic)
            assert (before.values, before.last_stable_offset) == ([], 0)
        assert (await s.read("orders", isolation=0)).values == [b"a", b"b"]
        assert await producer.end(commit=True) == 0
        assert (await s.until_read("orders", b"a", b"b")).last_stable_offset == 3
        assert (await s.until_read("payments", b"c", b"d")).last_stable_offset == 3
        await s.until_state("mine", "CompleteCommit")

        await joined(producer, "payments")
        assert (await producer.produce("payments", b"e")).error_code == 0
        assert await producer.end(commit=False) == 0
        await s.until_state("mine", "CompleteAbort")
        after = await s.read("payments")
        assert (after.values, after.last_stable_offset) == ([b"c", b"d"], 5)
        assert after.aborted == [(producer.producer_id, 3)]
        assert (await s.read("payments", isolation=0)).values == [b"c", b"d", b"e"]

    told(tmp_path, story)


@pytest.mark.parametrize("versions", [FIRST, SECOND], ids=["first", "second"])
def test_offsets_count_when_their_transaction_commits(tmp_path: Path, versions: Versions) -> None:
    async def story(s: TransactionStory) -> None:
        producer = HandMade(s, versions=versions)
        assert await producer.init() == 0
        for offset, commit in ((5, False), (7, True), (9, False)):
            if versions is FIRST:
                assert await producer.add_offsets("readers") == 0
            assert await producer.commit_offsets("readers", "orders", offset) == 0
            assert await producer.commit_offsets("readers", "orders", offset + 1) == 0
            assert await producer.end(commit=commit) == 0
            await s.until_state("mine", "CompleteCommit" if commit else "CompleteAbort")
            assert await committed(s, "readers", "orders") == (-1 if offset == 5 else 8)

    told(tmp_path, story)


async def committed(s: TransactionStory, group_id: str, topic: str) -> int:
    request = OffsetFetchRequest(
        group_id=group_id, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    )
    answer = await s.ask(2, request, 5)
    (found,) = [each for topic in answer.topics for each in topic.partitions]
    assert found.error_code == 0, found
    return int(found.committed_offset)


def test_the_oldest_clients_commit_offsets_too(tmp_path: Path) -> None:
    async def story(s: TransactionStory) -> None:
        producer = HandMade(s, versions=OLDEST)
        assert await producer.init() == 0
        assert await producer.add_offsets("readers") == 0
        assert await producer.commit_offsets("readers", "orders", 3) == 0
        assert await producer.commit_offsets("readers", "nowhere", 3) == 3
        assert await producer.end(commit=True) == 0
        await s.until_state("mine", "CompleteCommit")
        assert await committed(s, "readers", "orders") == 3

    told(tmp_path, story)


# ---- who may not


@pytest.mark.parametrize(("versions", "code"), [(OLDEST, 47), (FIRST, 90)], ids=["oldest", "first"])
def test_an_instance_that_was_replaced_is_fenced_everywhere(
    tmp_path: Path, versions: Versions, code: int
) -> None:
    async def story(s: TransactionStory) -> None:
        old = await begun(s, versions, "orders")
        assert (await old.produce("orders", b"lost")).error_code == 0
        new = HandMade(s, versions=versions)
        assert await new.init() == 0
        assert (new.producer_id, new.epoch > old.epoch) == (old.producer_id, True)
        assert await old.add("payments") == [code]
        assert await old.add_offsets("readers") == code
        assert await old.end(commit=True) == code
        assert (await old.send("orders", old.batch("orders", b"late"))).error_code == 47
        # Where it has not written yet, its coordinator tells.
        assert (await old.send("payments", old.batch("payments", b"late"))).error_code == 47
        assert await old.commit_offsets("readers", "orders", 1) == 47
        assert (await s.read("orders")).values == []

    told(tmp_path, story)


def test_what_nobody_registered_is_refused(tmp_path: Path) -> None:
    async def story(s: TransactionStory) -> None:
        stranger = HandMade(s)
        stranger.identify(FIRST_PRODUCER_ID + 500, 0)
        assert await stranger.add("orders") == [49]
        assert await stranger.end(commit=True) == 49
        assert (await stranger.send("payments", stranger.batch("payments", b"x"))).error_code == 49
        other = HandMade(s, transactional_id="")
        assert await other.init() == 42
        assert await HandMade(s, "other").init(timeout_ms=10**9) == 50

    told(tmp_path, story)


def test_of_several_partitions_all_are_added_or_none(tmp_path: Path) -> None:
    async def story(s: TransactionStory) -> None:
        producer = HandMade(s)
        assert await producer.init() == 0
        assert await producer.add("orders", "nowhere", "payments") == [55, 3, 55]
        assert await s.state("mine") == "Empty"
        assert await producer.add("orders", "payments") == [0, 0]

    told(tmp_path, story)


def test_nobody_but_its_coordinator_writes_to_an_internal_topic(tmp_path: Path) -> None:
    """What a coordinator cannot read when it takes over would keep it from working at all."""

    async def story(s: TransactionStory) -> None:
        stranger = HandMade(s)
        for topic in (TRANSACTION_STATE, CONSUMER_OFFSETS):
            assert (await stranger.send(topic, plain_batch(b"x"))).error_code == 17
        assert await stranger.init() == 0

    told(tmp_path, story)


@pytest.mark.parametrize(("version", "code"), [(10, 48), (11, 120)])
def test_a_batch_outside_of_a_transaction_opens_none(
    tmp_path: Path, version: int, code: int
) -> None:
    async def story(s: TransactionStory) -> None:
        producer = await begun(s, FIRST._replace(produce=version), "orders")
        for topic in ("orders", "payments"):
            late = producer.twin().batch(topic, b"late")
            if topic == "orders":
                assert await producer.end(commit=False) == 0
                await s.until_state("mine", "CompleteAbort")
            assert (await producer.send(topic, late)).error_code == code
            assert (await s.read(topic, isolation=0)).values == []
            assert (await s.read(topic)).last_stable_offset == (1 if topic == "orders" else 0)

    told(tmp_path, story)


def test_with_an_epoch_for_each_transaction_the_log_itself_refuses_late_batches(
    tmp_path: Path,
) -> None:
    async def story(s: TransactionStory) -> None:
        producer = await begun(s, SECOND)
        assert (await producer.produce("payments", b"a")).error_code == 0
        before = producer.twin()
        assert await producer.end(commit=True) == 0
        assert producer.epoch == before.epoch + 1
        assert (await s.until_read("payments", b"a")).last_stable_offset == 2
        late = before.batch("payments", b"late")
        assert (await before.send("payments", late)).error_code == 47
        assert await before.twin().end(commit=False) == 48  # it was committed
        assert (await producer.produce("payments", b"b")).error_code == 0
        assert await before.end(commit=True) == 90
        assert await producer.end(commit=True) == 0
        await s.until_read("payments", b"a", b"b")

    told(tmp_path, story)


def test_an_end_that_is_asked_for_twice_happens_once(tmp_path: Path) -> None:
    async def story(s: TransactionStory) -> None:
        producer = await begun(s, SECOND)
        assert (await producer.produce("orders", b"a")).error_code == 0
        again = producer.twin()
        assert await producer.end(commit=True) == 0
        assert await again.end(commit=True) == 0
        assert (again.producer_id, again.epoch) == (producer.producer_id, producer.epoch)

    told(tmp_path, story)


# ---- waiting for the coordinator


@pytest.mark.parametrize("versions", [FIRST, NEWEST], ids=["first", "newest"])
def test_batches_queue_in_order_behind_the_one_that_is_verified(
    tmp_path: Path, versions: Versions
) -> None:
    async def story(s: TransactionStory) -> None:
        producer = await begun(s, versions, "payments")
        s.gate.close(ADD_PARTITIONS)
        client = s.cluster.members[2].client()
        sent = []
        for value in (b"a", b"b", b"c"):
            request = producer.produce_request("payments", producer.batch("payments", value))
            sent.append(
                asyncio.ensure_future(client.ask(request, versions.produce, timeout_ms=60_000))
            )
        await until(lambda: s.gate.held)
        # Another producer does not wait behind them.
        plain = HandMade(s)
        plain.transactional_id = ""
        assert (await plain.send("payments", plain_batch(b"plain"))).error_code == 0
        assert len(s.gate.held) == 1, "one question for all of them"
        assert not any(each.done() for each in sent)
        s.gate.open()
        answers = await asyncio.gather(*sent)
        offsets = [each.responses[0].partition_responses[0].base_offset for each in answers]
        assert offsets == [1, 2, 3]
        assert await producer.end(commit=True) == 0
        await s.until_read("payments", b"plain", b"a", b"b", b"c")

    told(tmp_path, story)


def plain_batch(value: bytes) -> bytearray:
    return encode([Record(0, SystemClock().wall_ms(), None, value)])


def test_a_transaction_that_ends_while_it_is_verified_is_not_opened(tmp_path: Path) -> None:
    """Its coordinator said yes, and then the marker was quicker than the answer."""

    async def story(s: TransactionStory) -> None:
        producer = await begun(s, FIRST, "payments")
        s.gate.close(ADD_PARTITIONS)
        sent = asyncio.ensure_future(producer.send("payments", producer.batch("payments", b"late")))
        await until(lambda: s.gate.held)
        assert await s.write_marker("payments", producer, commit=False) == 0
        s.gate.open()
        assert (await sent).error_code == 120
        assert (await s.read("payments")).last_stable_offset == 1

    told(tmp_path, story)


def test_what_was_answered_before_the_coordinator_spoke_is_not_appended(tmp_path: Path) -> None:
    async def story(s: TransactionStory) -> None:
        producer = await begun(s, FIRST, "payments")
        s.gate.close(ADD_PARTITIONS)
        request = producer.produce_request("payments", producer.batch("payments", b"a"))
        request.timeout_ms = 20
        answer = await s.ask(2, request, 11)
        code = answer.responses[0].partition_responses[0].error_code
        assert code in (7, 19), "both say: try again"
        s.gate.open()
        assert await producer.end(commit=False) == 0  # behind the coordinator's answer
        await s.until_state("mine", "CompleteAbort")
        assert (await s.read("payments", isolation=0)).values == []
        assert s.cluster[2].verifications.open_count == 0

    told(tmp_path, story)


def test_a_late_batch_does_not_take_the_next_transaction_with_it(tmp_path: Path) -> None:
    """They share an epoch, and wait in one queue; but what is said of one is not true of both."""

    async def story(s: TransactionStory) -> None:
        producer = await begun(s, FIRST, "payments")
        late = producer.twin().batch("payments", b"late")
        s.gate.close(ADD_PARTITIONS)
        client = s.cluster.members[2].client()

        def send(records: bytearray) -> asyncio.Future[Any]:
            request = producer.produce_request("payments", records)
            return asyncio.ensure_future(client.ask(request, 11, timeout_ms=60_000))

        refused = send(late)
        await until(lambda: s.gate.held)
        assert await s.write_marker("payments", producer, commit=False) == 0
        taken = [send(producer.batch("payments", value)) for value in (b"a", b"b")]
        await s.state("mine")  # they are in the queue when the answer comes
        s.gate.open()
        codes = [
            (await each).responses[0].partition_responses[0].error_code
            for each in (refused, *taken)
        ]
        assert codes == [120, 0, 0]

    told(tmp_path, story)


def test_a_repeated_batch_is_recognised_without_its_coordinator(tmp_path: Path) -> None:
    async def story(s: TransactionStory) -> None:
        producer = await begun(s, FIRST, "payments")
        records = producer.batch("payments", b"a")
        assert (await producer.send("payments", bytearray(records))).base_offset == 0
        assert await producer.end(commit=True) == 0
        await s.until_read("payments", b"a")
        s.gate.close(ADD_PARTITIONS)
        again = await producer.send("payments", bytearray(records))
        assert (again.error_code, again.base_offset) == (0, 0)
        assert s.gate.held == []

    told(tmp_path, story)


@pytest.mark.parametrize(("version", "code"), [(11, 19), (12, 19)])
def test_while_there_is_no_coordinator_the_client_is_told_to_try_again(
    tmp_path: Path, version: int, code: int
) -> None:
    async def story(s: TransactionStory) -> None:
        producer = await begun(s, FIRST._replace(produce=version), "payments")
        move_leader(s, TRANSACTION_STATE, -1)
        records = producer.batch("payments", b"a")
        refused = await producer.send("payments", bytearray(records))
        assert refused.error_code == code
        assert refused.error_message is not None
        assert "COORDINATOR_NOT_AVAILABLE" in refused.error_message
        move_leader(s, TRANSACTION_STATE, 1)
        while (result := await producer.send("payments", bytearray(records))).error_code == code:
            await asyncio.sleep(0.002)
        assert result.error_code == 0

    told(tmp_path, story)


def test_no_follower_sleeps_over_what_a_coordinator_let_into_a_log(tmp_path: Path) -> None:
    """The fetch that commits the coordinator's record makes its answer leave, and the batch that
    waited for it is appended: also to a partition that this fetch has looked at already."""

    async def story(s: TransactionStory) -> None:
        producer = await begun(s, SECOND)
        for number in range(10):
            for topic in ("orders", "payments"):
                assert (await producer.produce(topic, b"%d" % number)).error_code == 0
            assert await producer.end(commit=True) == 0
        await s.until_read("orders", *(b"%d" % number for number in range(10)))

    told(tmp_path, story, replicated=True, replica_fetch_wait_max_ms="20000")


def test_the_next_transaction_waits_for_the_end_of_the_last_one(tmp_path: Path) -> None:
    async def story(s: TransactionStory) -> None:
        producer = await begun(s, SECOND)
        assert (await producer.produce("payments", b"a")).error_code == 0
        s.gate.close(WRITE_MARKERS)
        assert await producer.end(commit=True) == 0
        next_one = producer.batch("payments", b"b")
        # For a while it waits here, then the client is told to come again.
        assert (await producer.send("payments", bytearray(next_one))).error_code == 51
        s.gate.open()
        while (result := await producer.send("payments", bytearray(next_one))).error_code == 51:
            pass
        assert result.error_code == 0

    told(tmp_path, story)


@pytest.mark.parametrize("version", [3, 5])
def test_a_client_that_adds_partitions_waits_for_the_end_of_the_last_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Also with the versions that are meant for brokers: some clients send them."""
    monkeypatch.setattr(concurrent_requests, "PATIENCE_MS", 60_000)

    async def story(s: TransactionStory) -> None:
        producer = await begun(s, FIRST, "payments")
        assert (await producer.produce("payments", b"a")).error_code == 0
        s.gate.close(WRITE_MARKERS)
        assert await producer.end(commit=True) == 0
        adding = asyncio.ensure_future(producer.add_once("orders", version=version))
        waiting = s.cluster[COORDINATOR].concurrent_requests._open
        await until(lambda: waiting or adding.done())
        s.gate.open()
        assert await adding == [0]

    told(tmp_path, story)


# ---- looking at transactions


def test_the_end_of_a_log_is_another_one_for_who_reads_what_is_committed(tmp_path: Path) -> None:
    async def story(s: TransactionStory) -> None:
        producer = await begun(s, FIRST, "orders")
        assert (await producer.produce("orders", b"a", b"b")).error_code == 0
        for isolation, end in ((0, 2), (1, 0)):
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation,
                topics=[
                    ListOffsetsTopic(
                        name="orders",
                        partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)],
                    )
                ],
            )
            answer = await s.ask(1, request, 7)
            assert answer.topics[0].partitions[0].offset == end

    told(tmp_path, story)


def test_transactions_are_listed_and_described(tmp_path: Path) -> None:
    async def story(s: TransactionStory) -> None:
        idle, busy = HandMade(s, "idle"), HandMade(s, "busy")
        assert (await idle.init(), await busy.init(timeout_ms=5000)) == (0, 0)
        assert await busy.add("payments", "orders") == [0, 0]
        request = DescribeTransactionsRequest(transactional_ids=["busy", "nobody", "idle"])
        answer = await s.ask(1, request, 0)
        states = answer.transaction_states
        assert [each.transactional_id for each in states] == ["busy", "nobody", "idle"]
        assert [each.error_code for each in states] == [0, 105, 0]
        assert [each.transaction_state for each in states] == ["Ongoing", "", "Empty"]
        assert (states[0].producer_id, states[0].transaction_timeout_ms) == (busy.producer_id, 5000)
        assert [(each.topic, list(each.partitions)) for each in states[0].topics] == [
            ("orders", [0]),
            ("payments", [0]),
        ]
        assert await listed(s) == ["busy", "idle"]
        assert await listed(s, state_filters=["Ongoing", "Curious"]) == ["busy", "?Curious"]
        assert await listed(s, state_filters=["Curious"]) == ["?Curious"]
        assert await listed(s, producer_id_filters=[idle.producer_id]) == ["idle"]
        assert await listed(s, duration_filter=60_000) == []
        assert await listed(s, transactional_id_pattern="b.*") == ["busy"]
        assert await listed(s, transactional_id_pattern="b") == []
        refused = await s.ask(1, ListTransactionsRequest(transactional_id_pattern="("), 2)
        assert refused.error_code == 128
        elsewhere = await s.ask(2, ListTransactionsRequest(), 0)
        assert list(elsewhere.transaction_states) == []

    told(tmp_path, story)


async def listed(s: TransactionStory, **filters: object) -> list[str]:
    answer = await s.ask(1, ListTransactionsRequest(**filters), 2)  # type: ignore[arg-type]  # by name
    assert answer.error_code == 0
    found = [each.transactional_id for each in answer.transaction_states]
    return found + [f"?{each}" for each in answer.unknown_state_filters]
