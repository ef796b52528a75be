"""End markers over TCP: sent until every leader has them, by nobody but their coordinator."""

import asyncio
from pathlib import Path

from support.fed_brokers import topic_id
from support.loopback import until
from support.transaction_story import (
    FIRST,
    TransactionStory,
    begun,
    move_leader,
    told,
)
from tidelog.broker.coordination.internal_topics import TRANSACTION_STATE
from tidelog.core.metadata import records as r

WRITE_MARKERS = 27


def test_markers_reach_a_leader_that_could_not_be_reached(tmp_path: Path) -> None:
    async def story(s: TransactionStory) -> None:
        producer = await begun(s, FIRST, "orders", "payments")
        for topic in ("orders", "payments"):
            assert (await producer.produce(topic, b"a")).error_code == 0
        await s.cluster.members[2].hang_up()
        assert await producer.end(commit=True) == 0
        await s.until_read("orders", b"a")
        assert await s.state("mine") == "PrepareCommit"
        assert s.cluster[1].markers.open_count == 1
        await s.cluster.members[2].listen()
        await s.until_read("payments", b"a")
        await s.until_state("mine", "CompleteCommit")
        assert s.cluster[1].markers.open_count == 0

    told(tmp_path, story)


def test_markers_do_not_wait_for_a_leader_of_before(tmp_path: Path) -> None:
    """It hangs with the request in its hands, and another one took over."""

    async def story(s: TransactionStory) -> None:
        producer = await begun(s, FIRST, "payments")
        assert (await producer.produce("payments", b"a")).error_code == 0
        s.gate.close(WRITE_MARKERS)
        assert await producer.end(commit=True) == 0
        await until(lambda: s.gate.held)
        move_leader(s, "payments", 1)
        await s.until_state("mine", "CompleteCommit")
        s.gate.open()
        assert (await producer.add("orders"), s.cluster[1].markers.open_count) == ([0], 0)

    told(tmp_path, story, replicated=True)


def test_the_next_coordinator_carries_out_what_was_decided(tmp_path: Path) -> None:
    async def story(s: TransactionStory) -> None:
        producer = await begun(s, FIRST, "payments")
        assert (await producer.produce("payments", b"a")).error_code == 0
        s.gate.close(WRITE_MARKERS)
        assert await producer.end(commit=True) == 0
        await until(lambda: s.gate.held)
        move_leader(s, TRANSACTION_STATE, -1)
        move_leader(s, TRANSACTION_STATE, 1)
        s.gate.open()
        await s.until_read("payments", b"a")
        await s.until_state("mine", "CompleteCommit")
        assert s.cluster[1].markers.open_count == 0
        # The one before it is not heard any more.
        assert await s.write_marker("payments", producer, commit=False, coordinator_epoch=0) == 52

    told(tmp_path, story)


def test_what_is_ordered_twice_is_under_way_once(tmp_path: Path) -> None:
    """A copy that came after the first one was reported could end the next transaction."""

    async def story(s: TransactionStory) -> None:
        coordinator = s.cluster[1]
        orders = []

        def noted(index: int, order: object) -> None:
            orders.append((index, order))
            coordinator.markers.on_order(index, order)

        coordinator.coordination.on_order = noted
        producer = await begun(s, FIRST, "payments")
        assert (await producer.produce("payments", b"a")).error_code == 0
        s.gate.close(WRITE_MARKERS)
        assert await producer.end(commit=True) == 0
        await until(lambda: s.gate.held)
        coordinator.markers.on_order(*orders[0])
        assert await s.state("mine") == "PrepareCommit"
        s.gate.open()
        await s.until_state("mine", "CompleteCommit")
        assert (await s.until_read("payments", b"a")).high_watermark == 2

    told(tmp_path, story)


def test_a_coordinator_that_left_office_sends_nothing_any_more(tmp_path: Path) -> None:
    async def story(s: TransactionStory) -> None:
        producer = await begun(s, FIRST, "payments")
        assert (await producer.produce("payments", b"a")).error_code == 0
        await s.cluster.members[2].hang_up()
        assert await producer.end(commit=True) == 0
        await until(lambda: s.cluster[1].markers.open_count)
        move_leader(s, TRANSACTION_STATE, -1)
        await until(lambda: s.cluster[1].markers.open_count == 0)
        await s.cluster.members[2].listen()
        assert (await s.read("payments")).last_stable_offset == 0

    told(tmp_path, story)


def test_a_topic_that_is_deleted_does_not_hold_its_transaction_up(tmp_path: Path) -> None:
    async def story(s: TransactionStory) -> None:
        producer = await begun(s, FIRST, "orders", "payments")
        for topic in ("orders", "payments"):
            assert (await producer.produce(topic, b"a")).error_code == 0
        s.cluster.commit(r.RemoveTopic(topic_id("payments")))
        assert await producer.end(commit=True) == 0
        await s.until_state("mine", "CompleteCommit")
        await s.until_read("orders", b"a")

    told(tmp_path, story)


def test_markers_that_may_not_be_are_refused(tmp_path: Path) -> None:
    async def story(s: TransactionStory) -> None:
        producer = await begun(s, FIRST, "orders")
        assert (await producer.produce("orders", b"a")).error_code == 0
        older = producer.twin()
        older.epoch -= 1
        assert await s.write_marker("orders", older, commit=True) == 47
        assert await s.write_marker("nowhere", producer, commit=True) == 3
        move_leader(s, "orders", -1)
        assert await s.write_marker("orders", producer, commit=True) == 6

    told(tmp_path, story)


def test_an_administrator_ends_a_transaction_that_hangs(tmp_path: Path) -> None:
    async def story(s: TransactionStory) -> None:
        producer = await begun(s, FIRST, "orders")
        assert (await producer.produce("orders", b"a")).error_code == 0
        waiting = asyncio.ensure_future(s.read("orders", max_wait_ms=60_000))
        await until(lambda: s.cluster[1].fetches.parked_count)
        found = await s.producers("orders")
        assert [(each.producer_id, each.current_txn_start_offset) for each in found] == [
            (producer.producer_id, 0)
        ]
        assert await s.write_marker("orders", producer, commit=False) == 0
        assert [each.current_txn_start_offset for each in await s.producers("orders")] == [-1]
        # A reader that waited is told at once.
        assert await waiting == ([], 2, 2, [(producer.producer_id, 0)])

    told(tmp_path, story)
