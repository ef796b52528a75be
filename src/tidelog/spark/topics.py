"""Which partitions a subscription means, as the cluster is now."""

import re
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import re2

from tidelog.client import Client, KafkaError, TopicView
from tidelog.client.errors import check
from tidelog.core.errors import Error
from tidelog.spark.failure import InvalidOption, TidelogError
from tidelog.spark.ranges import TopicPartition, told
from tidelog.spark.source_options import Subscription

HIDDEN = "__"
"""What a cluster keeps for itself begins so; a pattern never means it."""


class Seen(NamedTuple):
    """The partitions that there are, and who their topics are: a topic that is deleted and made
    again has another id."""

    partitions: frozenset[TopicPartition]
    topic_ids: dict[str, bytes]


class _Pattern(Protocol):
    def fullmatch(self, text: str) -> object: ...


def compiled(pattern: str) -> _Pattern:
    """Patterns are Java's. RE2 and Python's own cover what is common among them."""
    if "&&" in pattern:
        raise InvalidOption(
            f"the option subscribePattern is {pattern!r}, and && is not supported",
            "say it without the intersection of classes",
        )
    quiet = re2.Options()
    quiet.log_errors = False
    try:
        compiled_by_re2: _Pattern = re2.compile(pattern, quiet)
    except re2.error:
        pass  # looking ahead and behind, and references back: Python's own has them
    else:
        return compiled_by_re2
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidOption(
            f"the option subscribePattern is {pattern!r}: {error}", "give a regular expression"
        ) from None


async def look(client: Client, subscription: Subscription) -> Seen:
    """What of the subscription is there; what is missing is left out."""
    if subscription.pattern is not None:
        return _seen(await matching(client, subscription.pattern))
    names = subscription.topics or sorted({topic for topic, _ in subscription.partitions})
    found: dict[str, TopicView] = {}

    async def ask() -> None:
        found.update(await client.topics(names))
        for topic in found.values():
            check(topic.error, f"the topic {topic.name}")

    try:
        await client.retrying(ask)  # it may just have been made, or one broker lag behind
    except KafkaError as error:
        if error.error != Error.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    seen = _seen(found.values())
    if subscription.partitions:
        return seen._replace(partitions=seen.partitions & set(subscription.partitions))
    return seen


async def matching(client: Client, pattern: str) -> list[TopicView]:
    """The topics that a pattern means now, by their names."""
    matches = compiled(pattern).fullmatch
    view = await client.view()
    return [
        topic
        for _, topic in sorted(view.topics.items())
        if not topic.is_internal and not topic.name.startswith(HIDDEN) and matches(topic.name)
    ]


def _seen(topics: Iterable[TopicView]) -> Seen:
    partitions: set[TopicPartition] = set()
    ids: dict[str, bytes] = {}
    for topic in topics:
        if topic.partitions and not topic.error:
            ids[topic.name] = topic.topic_id
            partitions.update((topic.name, each.partition) for each in topic.partitions)
    return Seen(frozenset(partitions), ids)


def check_all_there(subscription: Subscription, seen: Seen) -> None:
    """At the start everything that was named must be there. A pattern names nothing: topics that
    match it may come later."""
    for topic in subscription.topics:
        if topic not in seen.topic_ids:
            raise TidelogError(
                f"there is no topic {topic}", "create it first, or see `tidelog topic list`"
            )
    missing = set(subscription.partitions) - seen.partitions
    if missing:
        raise TidelogError(
            f"the option assign names {told(missing)}, which is not there",
            "see `tidelog topic describe`",
        )
