"""Where a stream started, kept in the cluster until its first batch is done.

Spark's checkpoint holds where batches end, and not where the first one began. It asks again after
a crash, and `latest` is another offset by then: what came in between would be lost without a
word (spark.md §2.2). So the answer is committed as offsets of a group that nobody is in.
"""

import hashlib
from typing import NamedTuple

from tidelog.client import Client, KafkaError
from tidelog.client.groups import GroupAdmin
from tidelog.core.errors import Error
from tidelog.spark.lookup import Lookup
from tidelog.spark.ranges import Offsets
from tidelog.spark.source_options import SourceOptions

_NOT_THERE = (Error.GROUP_ID_NOT_FOUND, Error.INVALID_GROUP_ID)


class KeptStart(NamedTuple):
    offsets: Offsets
    topic_ids: dict[str, bytes]


def fingerprint(options: SourceOptions) -> str:
    """Of what the start was resolved from: with other options it is not the same start."""
    text = repr((tuple(options.subscription), options.start.as_text()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def load(lookup: Lookup, group: str, mark: str) -> KeptStart | None:
    async def ask(client: Client) -> KeptStart:
        kept = KeptStart({}, {})
        for (topic, index), each in (await GroupAdmin(client).committed(group)).items():
            its_mark, _, topic_id = each.metadata.partition(":")
            if its_mark == mark:
                kept.offsets[topic, index] = each.offset
                kept.topic_ids[topic] = bytes.fromhex(topic_id)
        return kept

    kept = lookup.ask(ask)
    return kept if kept.offsets else None


def save(lookup: Lookup, group: str, mark: str, start: KeptStart) -> None:
    notes = {where: f"{mark}:{start.topic_ids[where[0]].hex()}" for where in start.offsets}
    lookup.ask(lambda client: GroupAdmin(client).move(group, start.offsets, notes))


def forget(lookup: Lookup, group: str) -> None:
    async def ask(client: Client) -> None:
        try:
            await GroupAdmin(client).delete(group)
        except KafkaError as error:
            if error.error not in _NOT_THERE:
                raise

    lookup.ask(ask)
