"""Where a stream started, kept in the cluster until its first batch is done.

Spark's checkpoint holds where batches end, and not where the first one began. It asks again after
a crash, and `latest` is another offset by then: what came in between would be lost without a
word (spark.md §2.2). So the answer is committed as offsets of a group that nobody is in.
"""

import hashlib

from tidelog.client import Client, KafkaError
from tidelog.client.groups import GroupAdmin
from tidelog.core.errors import Error
from tidelog.spark.lookup import Lookup
from tidelog.spark.ranges import Offsets
from tidelog.spark.source_options import SourceOptions

_NOT_THERE = (Error.GROUP_ID_NOT_FOUND, Error.INVALID_GROUP_ID)


def fingerprint(options: SourceOptions) -> str:
    """Of what the start was resolved from: with other options it is not the same start."""
    text = repr((tuple(options.subscription), options.start.as_text()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def load(lookup: Lookup, group: str, mark: str) -> Offsets | None:
    """None if it was not kept or is not whole: another source wrote over it, or a topic was
    deleted, and what groups have committed for it went with it."""
    committed = lookup.ask(lambda client: GroupAdmin(client).committed(group))
    kept: Offsets = {}
    expected = 0
    for where, each in committed.items():
        its_mark, _, count = each.metadata.partition(":")
        if its_mark == mark:
            expected = int(count)
            kept[where] = each.offset
    return kept if kept and len(kept) == expected else None


def save(lookup: Lookup, group: str, mark: str, start: Offsets) -> None:
    notes = dict.fromkeys(start, f"{mark}:{len(start)}")
    lookup.ask(lambda client: GroupAdmin(client).move(group, start, notes))


def forget(lookup: Lookup, group: str) -> None:
    async def ask(client: Client) -> None:
        try:
            await GroupAdmin(client).delete(group)
        except KafkaError as error:
            if error.error not in _NOT_THERE:
                raise

    lookup.ask(ask)
