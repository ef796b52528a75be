"""An answer is about the positions that its own request stood for."""

from tidelog.core.replication.inputs import FollowerFetch
from tidelog.core.replication.sent_positions import SentPositions
from tidelog.core.types import PartitionId

TIDES, WAVES = PartitionId(b"t" * 16, 0), PartitionId(b"w" * 16, 0)


def position(leader_epoch: int, fetch_offset: int = 0) -> FollowerFetch:
    return FollowerFetch(2, 102, leader_epoch, fetch_offset, -1, 0)


def test_an_answer_is_about_everything_the_session_knew_when_its_request_was_sent() -> None:
    session = SentPositions()
    session.put(TIDES, position(1))
    session.put(WAVES, position(1))
    session.send().answered()
    session.put(WAVES, position(1, 5))
    sent = session.send()  # names WAVES only
    assert sent.position(TIDES) == position(1)
    assert sent.position(WAVES) == position(1, 5)
    assert sent.position(PartitionId(b"o" * 16, 0)) is None


def test_a_later_request_does_not_change_what_an_earlier_one_asked() -> None:
    session = SentPositions()
    session.put(TIDES, position(1))
    first = session.send()
    session.put(TIDES, position(2))
    session.put(WAVES, position(1))
    second = session.send()
    session.put(TIDES, position(3))
    assert [first.position(TIDES), second.position(TIDES)] == [position(1), position(2)]
    assert [first.position(WAVES), second.position(WAVES)] == [None, position(1)]
    assert session.newest[TIDES] == position(3)


def test_a_partition_that_left_and_came_back_is_not_taken_for_what_it_was() -> None:
    session = SentPositions()
    session.put(TIDES, position(1))
    first = session.send()
    assert session.drop(TIDES)
    assert not session.drop(TIDES)
    second = session.send()
    session.put(TIDES, position(3))
    assert [first.position(TIDES), second.position(TIDES)] == [position(1), None]


def test_nothing_is_kept_for_a_request_that_was_answered() -> None:
    session = SentPositions()
    session.put(TIDES, position(1))
    sent = session.send()
    sent.answered()
    assert session.under_way == []
