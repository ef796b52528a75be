"""Events for machines and for people: as a dict with the event's own field names, as a line."""

from collections.abc import Callable
from datetime import UTC, datetime

from tidelog.core.events import Event
from tidelog.core.types import PartitionId
from tidelog.observe.sentences import sentence
from tidelog.observe.stream import NumberedEvent

TopicName = Callable[[bytes], str | None]
"""From a topic's id to its name, if the node knows it."""

Rendered = dict[str, object]


class Renderer:
    """Names topics by asking the node, which may learn or forget them at any time."""

    __slots__ = ("_topic_name",)

    def __init__(self, topic_name: TopicName) -> None:
        self._topic_name = topic_name

    def partition(self, partition: PartitionId) -> str:
        return f"{self.topic(partition.topic_id)}-{partition.partition}"

    def topic(self, topic_id: bytes) -> str:
        return self._topic_name(topic_id) or topic_id.hex()[:6]

    def line(self, event: Event) -> str:
        """One plain sentence."""
        return sentence(event, self.partition)

    def fields(self, event: Event) -> Rendered:
        """The event's name and its own fields; a partition becomes `orders-0` with its parts
        beside it, because names of topics may contain any dash."""
        rendered: Rendered = {"event": type(event).__name__}
        for field, value in zip(event._fields, event, strict=True):
            if isinstance(value, PartitionId):
                rendered[field] = self.partition(value)
                rendered["topic"] = self.topic(value.topic_id)
                rendered["topic_id"] = value.topic_id.hex()
                rendered["index"] = value.partition
            else:
                rendered[field] = list(value) if isinstance(value, tuple) else value
        return rendered

    def numbered(self, node_id: int, numbered: NumberedEvent) -> Rendered:
        """With who, which and when: what leaves the node."""
        return {
            "node": node_id,
            "number": numbered.number,
            "time": iso(numbered.wall_ms),
            "time_ms": numbered.wall_ms,
            **self.fields(numbered.event),
            "text": self.line(numbered.event),
        }


def iso(wall_ms: int) -> str:
    """`2026-11-16T00:12:03.123Z`"""
    moment = datetime.fromtimestamp(wall_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{wall_ms % 1000:03d}Z"
