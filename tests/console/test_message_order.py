"""Messages of a partition stand in the order in which they were sent."""

from collections import deque
from typing import Any

from tidelog.console.messages import Message, add_message
from tidelog.console.model import Model

KEY = ("orders", 0)


def at(wall_ms: int, text: str = "") -> Message:
    return {"wall_ms": wall_ms, "text": text}


def in_order(*told: Message, most: int = 12) -> list[Message]:
    messages: deque[Message] = deque(maxlen=most)
    for message in told:
        add_message(messages, message)
    return list(messages)


def test_what_is_told_late_stands_where_it_happened() -> None:
    assert in_order(at(5), at(9), at(7)) == [at(5), at(7), at(9)]


def test_of_two_in_one_millisecond_the_first_told_stands_first() -> None:
    told = at(5, "Fetch"), at(5, "answer"), at(5, "Fetch again")
    assert in_order(*told) == list(told)


def test_only_the_last_are_kept() -> None:
    assert in_order(at(1), at(3), at(4), at(2), most=3) == [at(2), at(3), at(4)]
    assert in_order(at(2), at(3), at(4), at(1), most=3) == [at(2), at(3), at(4)]


def looked_at(*overheard: dict[str, Any]) -> dict[str, Any]:
    return {
        "topic": KEY[0],
        "partition": KEY[1],
        "role": "leader",
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "replicas": (1, 2),
        "isr": (1, 2),
        "min_isr": 1,
        "under_replicated_since_ms": None,
        "log_start_offset": 0,
        "high_watermark": 0,
        "log_end_offset": 0,
        "parked_produces": 0,
        "followers": (),
        "overheard": overheard,
    }


def heard(number: int, offset: int, **more: Any) -> dict[str, Any]:
    told = {"last_epoch": -1, "end_offset": -1, "high_watermark": None, **more}
    return {"number": number, "wall_ms": number, "replica": 2, "offset": offset, **told}


def texts(model: Model) -> list[str]:
    return [each["text"] for each in model.of(KEY).messages]


def test_a_message_that_a_leader_tells_twice_is_one_message() -> None:
    model = Model()
    first = heard(7, 0), heard(8, 0, end_offset=3, high_watermark=0)
    model.look(1, looked_at(*first), 0)
    model.look(1, looked_at(*first, heard(9, 3, last_epoch=0)), 0)
    said = ["Fetch offset 0, last epoch none", "records 0–2, HW 0", "Fetch offset 3, last epoch 0"]
    assert texts(model) == said


def test_a_leader_that_was_started_anew_counts_from_one_again() -> None:
    model = Model()
    model.look(1, looked_at(heard(40, 5, last_epoch=0)), 0)
    model.look(1, looked_at(heard(1, 6, last_epoch=0)), 0)
    assert sorted(texts(model)) == ["Fetch offset 5, last epoch 0", "Fetch offset 6, last epoch 0"]


def test_an_answer_is_told_by_the_leader_or_by_what_the_follower_appended_but_not_by_both() -> None:
    appended = {
        "kind": "RecordsAppended",
        "topic": KEY[0],
        "index": KEY[1],
        "broker": 2,
        "base_offset": 0,
        "next_offset": 3,
        "leader_epoch": 0,
        "wall_ms": 5,
    }
    model = Model()
    model.look(1, looked_at(), 0)
    model.apply(appended)
    assert texts(model) == ["records 0–2"], "nobody watched"
    model.of(KEY).is_overheard = True
    model.apply({**appended, "base_offset": 3, "next_offset": 4})
    model.look(1, looked_at(heard(1, 3, end_offset=4, high_watermark=3)), 0)
    assert sorted(texts(model)) == ["record 3, HW 3", "records 0–2"]
