"""What replicas of a partition said to each other, as far as events tell it."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

Message = dict[str, Any]

FETCH, ANSWER, TRUNCATE, DIVERGING = "fetch", "answer", "truncate", "diverging"


class Known(Protocol):
    """`model.Partition`."""

    @property
    def leader(self) -> int: ...
    @property
    def is_overheard(self) -> bool: ...


def add_message(messages: deque[Message], message: Message) -> None:
    """By the leader's clock: what it says it has heard comes up to 100 ms after its events."""
    place = len(messages)
    while place and messages[place - 1]["wall_ms"] > message["wall_ms"]:
        place -= 1
    if messages and len(messages) == messages.maxlen:
        if place == 0:
            return
        messages.popleft()
        place -= 1
    messages.insert(place, message)


def overheard(leader: int, told: Mapping[str, Any]) -> Message:
    """What a leader has heard from a follower, or answered."""
    answers = told["high_watermark"] is not None
    told_by, told_to = (leader, told["replica"]) if answers else (told["replica"], leader)
    text, explain = (_answered if answers else _asked)(leader, told)
    return {
        "from": told_by,
        "to": told_to,
        "kind": ANSWER if answers else FETCH,
        "text": text,
        "offset": told["offset"],
        "epoch": None if told["last_epoch"] < 0 else told["last_epoch"],
        "wall_ms": told["wall_ms"],
        "explain": explain,
    }


def _asked(leader: int, told: Mapping[str, Any]) -> tuple[str, str]:
    follower, offset, epoch = told["replica"], told["offset"], told["last_epoch"]
    last = "none" if epoch < 0 else str(epoch)
    says = "has no records yet" if epoch < 0 else f"says that its last record is of epoch {epoch}"
    explain = (
        f"Broker {follower} asks for records from offset {offset} on, which tells broker {leader} "
        f"that it has everything before. It {says}."
    )
    return f"Fetch offset {offset}, last epoch {last}", explain


def _answered(leader: int, told: Mapping[str, Any]) -> tuple[str, str]:
    follower, first, end = told["replica"], told["offset"], told["end_offset"]
    high_watermark = told["high_watermark"]
    records = f"records from {first} on" if end < 0 else span(first, end)
    explain = (
        f"Broker {leader} gives broker {follower} {records}, and says that everything below offset "
        f"{high_watermark} is committed."
    )
    return f"{records}, HW {high_watermark}", explain


def span(first: int, end: int) -> str:
    """Records in words; `end` is the offset after the last."""
    if first == end:
        return "no records"
    return f"record {first}" if first == end - 1 else f"records {first}–{end - 1}"


def messages_of(partition: Known, event: Mapping[str, Any]) -> Iterator[Message]:
    """What a follower has appended is the answer that it got. Leaders tell more of their answers,
    but only while somebody watches."""
    match event["kind"]:
        case "RecordsAppended" if event["broker"] != partition.leader:
            if not partition.is_overheard:
                yield _answer(partition, event)
        case "FetchDiverged":
            yield from _diverged(event)
        case "LogTruncated":
            yield _truncation(event)


def _answer(partition: Known, event: Mapping[str, Any]) -> Message:
    first = event["base_offset"]
    records = span(first, event["next_offset"])
    return {
        "from": partition.leader,
        "to": event["broker"],
        "kind": ANSWER,
        "text": records,
        "offset": first,
        "epoch": event["leader_epoch"],
        "wall_ms": event["wall_ms"],
        "explain": f"Broker {event['broker']} has appended {records} of leader epoch "
        f"{event['leader_epoch']}, which it fetched from its leader.",
    }


def _diverged(event: Mapping[str, Any]) -> Iterator[Message]:
    follower, leader = event["replica"], event["broker"]
    offset, epoch = event["fetch_offset"], event["last_fetched_epoch"]
    yield {
        "from": follower,
        "to": leader,
        "kind": FETCH,
        "text": f"Fetch offset {offset}, last epoch {epoch}",
        "offset": offset,
        "epoch": epoch,
        "wall_ms": event["wall_ms"],
        "explain": f"Broker {follower} asks from offset {offset} on and says that its last record "
        f"is of leader epoch {epoch}.",
    }
    end_epoch, end = event["end_epoch"], event["end_offset"]
    yield {
        "from": leader,
        "to": follower,
        "kind": DIVERGING,
        "text": f"epoch {end_epoch} ends at {end}",
        "offset": end,
        "epoch": end_epoch,
        "wall_ms": event["wall_ms"],
        "explain": f"In the log of the leader, epoch {end_epoch} ends at offset {end}: what broker "
        f"{follower} has after that differs and has to go.",
    }


def _truncation(event: Mapping[str, Any]) -> Message:
    broker, before, end = event["broker"], event["previous_end"], event["log_end_offset"]
    return {
        "from": broker,
        "to": broker,
        "kind": TRUNCATE,
        "text": f"truncated {before} → {end}",
        "offset": end,
        "epoch": None,
        "wall_ms": event["wall_ms"],
        "explain": f"Broker {broker} has cut its log from {before} back to {end}, where it agrees "
        f"with its leader.",
    }
