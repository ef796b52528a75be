"""The cluster's topics as a group coordinator sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.broker.coordination.internal_topics import INTERNAL_TOPICS
from tidelog.core.groups.settings import InvalidRegex, KnownTopic

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata


class ImageTopics:
    """A `TopicsView` over the broker's metadata."""

    __slots__ = ("_metadata",)

    def __init__(self, metadata: LocalMetadata) -> None:
        self._metadata = metadata

    def find(self, topic: str) -> KnownTopic | None:
        image = self._metadata.image
        topic_id = image.topic_ids.get(topic)
        if topic_id is None:
            return None
        return KnownTopic(topic_id, len(image.topics[topic_id].partitions))

    def name_of(self, topic_id: bytes) -> str | None:
        topic = self._metadata.image.topics.get(topic_id)
        return None if topic is None else topic.name

    def matching(self, regex: str) -> tuple[str, ...]:
        matches = compile_regex(regex)
        names = sorted(self._metadata.image.topic_ids)
        return tuple(name for name in names if name not in INTERNAL_TOPICS and matches(name))


def compile_regex(regex: str) -> Callable[[str], bool]:
    """By RE2, as in Kafka: an expression of a stranger must not be able to keep us busy. Raises
    InvalidRegex."""
    import re2  # noqa: PLC0415 - a few MiB that most brokers never need

    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(regex, options)
    except re2.error as reason:
        raise InvalidRegex(f"{regex!r} is not a regular expression: {reason}") from reason
    return lambda text: pattern.fullmatch(text) is not None
