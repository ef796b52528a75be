"""Messages of a partition stand in the order in which they were sent."""

from collections import deque

from tidelog.console.messages import ANSWER, FETCH, Message, add_message


def fetch(follower: int, offset: int) -> Message:
    return {"kind": FETCH, "from": follower, "to": 1, "offset": offset}


def answer(follower: int, offset: int) -> Message:
    return {"kind": ANSWER, "from": 1, "to": follower, "offset": offset}


def in_order(*told: Message, most: int = 12) -> list[Message]:
    messages: deque[Message] = deque(maxlen=most)
    for message in told:
        add_message(messages, message)
    return list(messages)


def test_records_come_before_the_fetch_that_says_they_have_arrived() -> None:
    told = fetch(2, 5), fetch(2, 8), answer(2, 5)
    assert in_order(*told) == [fetch(2, 5), answer(2, 5), fetch(2, 8)]


def test_what_others_say_meanwhile_does_not_matter() -> None:
    told = fetch(2, 8), fetch(3, 8), answer(2, 5), answer(3, 5)
    assert in_order(*told) == [answer(2, 5), fetch(2, 8), answer(3, 5), fetch(3, 8)]


def test_a_fetch_from_before_the_records_stays_where_it_is() -> None:
    told = fetch(2, 5), answer(2, 5), fetch(2, 8), answer(2, 8)
    assert in_order(*told) == list(told)


def test_only_the_last_are_kept() -> None:
    told = fetch(3, 1), fetch(3, 2), fetch(2, 8), answer(2, 5)
    assert in_order(*told, most=3) == [fetch(3, 2), answer(2, 5), fetch(2, 8)]
