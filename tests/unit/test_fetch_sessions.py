"""Which sessions a broker remembers, and which it gives up for others."""

import itertools

from tidelog.broker.fetch.fetch_sessions import (
    EPOCH_MAX,
    EVICTABLE_AFTER_MS,
    FetchSession,
    FetchSessions,
    Opened,
)
from tidelog.core.errors import Error
from tidelog.wire.protocol.schemas.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

TOPIC = b"t" * 16
VERSION = 17


class Desk:
    """A cache of sessions whose ids are 1, 2, 3, …"""

    def __init__(self, slots: int) -> None:
        drawn = itertools.count()
        self.closed: list[int] = []
        self.sessions = FetchSessions(slots, lambda _: next(drawn), self._on_closed)

    def _on_closed(self, session: FetchSession) -> None:
        self.closed.append(session.id)

    def ask(
        self, session_id: int, epoch: int, *indexes: int, follower: bool = False, now_ms: int = 0
    ) -> Opened | Error:
        return self.sessions.open(
            request(session_id, epoch, *indexes), VERSION, privileged=follower, now_ms=now_ms
        )

    def begin(self, *, follower: bool = False, now_ms: int = 0) -> int:
        opened = self.ask(0, 0, 0, follower=follower, now_ms=now_ms)
        assert isinstance(opened, Opened)
        return opened.session.id


def request(session_id: int, epoch: int, *indexes: int, gone: tuple[int, ...] = ()) -> FetchRequest:
    partitions = [FetchPartition(partition=index, fetch_offset=7) for index in indexes]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic_id=TOPIC, partitions=partitions)] if indexes else [],
        forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC, partitions=gone)] if gone else [],
    )


def test_a_request_without_a_session_leaves_nothing_behind() -> None:
    desk = Desk(10)
    opened = desk.ask(0, -1, 0, 1)
    assert isinstance(opened, Opened)
    assert (opened.session.id, opened.full, len(opened.session.partitions)) == (0, True, 2)
    assert len(desk.sessions) == 0


def test_a_session_goes_on_by_its_epochs() -> None:
    desk = Desk(10)
    session_id = desk.begin()
    for epoch in (1, 2, 3):
        opened = desk.ask(session_id, epoch)
        assert isinstance(opened, Opened)
        assert not opened.full
    assert desk.ask(session_id, 3) is Error.INVALID_FETCH_SESSION_EPOCH
    assert desk.ask(session_id + 1, 4) is Error.FETCH_SESSION_ID_NOT_FOUND


def test_after_the_last_epoch_comes_the_first() -> None:
    desk = Desk(10)
    session_id = desk.begin()
    opened = desk.ask(session_id, 1)
    assert isinstance(opened, Opened)
    opened.session.epoch = EPOCH_MAX
    assert isinstance(desk.ask(session_id, EPOCH_MAX), Opened)
    assert isinstance(desk.ask(session_id, 1), Opened)


def test_only_mentioned_partitions_are_looked_at_and_forgotten_ones_are_gone() -> None:
    desk = Desk(10)
    opened = desk.ask(0, 0, 0, 1, 2)
    assert isinstance(opened, Opened)
    session = opened.session
    session.active.clear()
    desk.ask(session.id, 1, 1)
    assert [fetch.index for fetch in session.active] == [1]
    opened = desk.sessions.open(
        request(session.id, 2, gone=(1, 9)), VERSION, privileged=False, now_ms=0
    )
    assert isinstance(opened, Opened)
    assert [fetch.index for fetch in opened.forgotten] == [1]
    assert not session.active
    assert len(session.partitions) == 2


def test_beginning_anew_ends_the_session_that_is_named() -> None:
    desk = Desk(10)
    session_id = desk.begin()
    opened = desk.ask(session_id, 0, 0)
    assert isinstance(opened, Opened)
    assert desk.closed == [session_id]
    assert opened.session.id not in (0, session_id)


def test_without_a_free_slot_a_consumer_goes_without_a_session() -> None:
    desk = Desk(2)
    assert [desk.begin() for _ in range(3)] == [1, 2, 0]
    assert desk.closed == []


def test_a_session_that_was_not_used_for_long_makes_room() -> None:
    desk = Desk(2)
    first, second = desk.begin(), desk.begin()
    desk.ask(first, 1, now_ms=EVICTABLE_AFTER_MS - 1)
    assert desk.begin(now_ms=EVICTABLE_AFTER_MS) != 0
    assert desk.closed == [second]
    assert desk.begin(now_ms=EVICTABLE_AFTER_MS) == 0


def test_followers_take_the_slots_of_consumers_and_never_the_other_way_round() -> None:
    desk = Desk(2)
    consumer, _ = desk.begin(), desk.begin()
    assert desk.begin(follower=True) != 0
    assert desk.closed == [consumer]
    assert desk.begin(follower=True) != 0
    assert desk.begin(follower=True) == 0
    assert desk.begin(now_ms=10 * EVICTABLE_AFTER_MS) == 0
    assert desk.begin(follower=True, now_ms=10 * EVICTABLE_AFTER_MS) != 0


def test_no_slots_mean_no_sessions() -> None:
    assert Desk(0).begin(follower=True) == 0
