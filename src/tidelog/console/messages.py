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


def message_of(follower: int, leader: int, offset: int, now_ms: int) -> Message:
    """A follower's fetch, as its leader has seen it."""
    return {
        "from": follower,
        "to": leader,
        "kind": FETCH,
        "text": f"Fetch offset {offset}",
        "offset": offset,
        "epoch": None,
        "wall_ms": now_ms,
        "explain": f"Broker {follower} asks for records from offset {offset} on, which tells the "
        f"leader that it has everything before.",
    }


def add_message(messages: deque[Message], message: Message) -> None:
    """An append is told up to 50 ms late, so the leader may have seen the follower's next fetch
    before. That fetch names an offset behind the records, so the answer belongs before it."""
    place = len(messages)
    if message["kind"] == ANSWER:
        follower = message["to"]
        for index in range(len(messages) - 1, -1, -1):
            other = messages[index]
            if follower not in (other["from"], other["to"]):
                continue
            if other["kind"] != FETCH or other["offset"] <= message["offset"]:
                break
            place = index
    if messages and len(messages) == messages.maxlen:
        messages.popleft()
        place = max(0, place - 1)
    messages.insert(place, message)


def messages_of(partition: Known, event: Mapping[str, Any]) -> Iterator[Message]:
    match event["kind"]:
        case "RecordsAppended" if event["broker"] != partition.leader:
            yield _answer(partition, event)
        case "FetchDiverged":
            yield from _diverged(event)
        case "LogTruncated":
            yield _truncation(event)


def _answer(partition: Known, event: Mapping[str, Any]) -> Message:
    first, last = event["base_offset"], event["next_offset"] - 1
    span = f"record {first}" if first == last else f"records {first}–{last}"
    return {
        "from": partition.leader,
        "to": event["broker"],
        "kind": ANSWER,
        "text": span,
        "offset": first,
        "epoch": event["leader_epoch"],
        "wall_ms": event["wall_ms"],
        "explain": f"Broker {event['broker']} has appended {span} of leader epoch "
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
