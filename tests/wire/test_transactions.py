"""Transactions over TCP: what is committed is read, what is aborted is not, the old are fenced."""

from pathlib import Path

import pytest

from support.transaction_story import (
    FIRST,
    NEWEST,
    OLDEST,
    SECOND,
    HandMade,
    TransactionStory,
    Versions,
    told,
)

ALL = pytest.mark.parametrize(
    "versions", [OLDEST, FIRST, SECOND, NEWEST], ids=["oldest", "first", "second", "newest"]
)


async def begun(story: TransactionStory, versions: Versions, *topics: str) -> HandMade:
    """A producer whose transaction may write to these topics."""
    producer = HandMade(story, versions=versions)
    assert await producer.init() == 0
    await joined(producer, *topics)
    return producer


async def joined(producer: HandMade, *topics: str) -> None:
    if producer.versions.produce < 12:
        assert set(await producer.add(*topics)) == {0}


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
