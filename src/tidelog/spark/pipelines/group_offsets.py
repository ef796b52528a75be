"""Consumer groups of a mirrored cluster: where each would go on in the copy.

What a group has committed here is translated by the offset map and committed over there, with a
note that says so. A group that somebody is a member of over there, or that has committed offsets
without our note, lives over there: it is left alone.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tidelog.client import Client, ClientError, KafkaError
from tidelog.client.groups import DEAD, EMPTY, Committed, GroupAdmin
from tidelog.client.offsets import EARLIEST, find_offsets
from tidelog.core.errors import Error
from tidelog.spark.client_settings import client_settings
from tidelog.spark.connection import Connection, connect
from tidelog.spark.offset_map import MapKey, OffsetMapLog, translated
from tidelog.spark.ranges import Offsets, TopicPartition
from tidelog.spark.security_options import Access

NOTE: Final = "tidelog-mirror"
TRY_MS: Final = 10_000

TRANSLATED, ACTIVE, ITS_OWN = "translated", "active over there", "own offsets over there"
JOINED: Final = frozenset(
    (
        Error.UNKNOWN_MEMBER_ID,
        Error.ILLEGAL_GENERATION,
        Error.REBALANCE_IN_PROGRESS,
        Error.NON_EMPTY_GROUP,
        Error.STALE_MEMBER_EPOCH,
    )
)
"""What a commit without a member is answered while somebody is one."""


class Mirrored(NamedTuple):
    """Which groups, and what of them."""

    source: Access
    target: Access
    cluster_id: str
    """Of the source."""
    prefix: str
    wanted: Callable[[str], bool]
    """Judges the name of a group."""


class GroupState(NamedTuple):
    state: str
    partitions: int = 0
    """How many of its partitions are translated."""

    def as_document(self) -> dict[str, Any]:
        return {"state": self.state, "partitions": self.partitions}


def note_of(cluster_id: str, offset: int) -> str:
    return f"{NOTE} {cluster_id} {offset}"


def chosen(theirs: Committed | None, wanted: int, note: str) -> int | None:
    """What to commit; None if it is there. For the same offset here, an offset over there never
    goes back: a map becomes coarser with time, and what was told before stays true."""
    if theirs is None or theirs.metadata != note:
        return wanted
    return wanted if wanted > theirs.offset else None


class GroupOffsets:
    """Translates again and again, on clients of its own."""

    def __init__(self, mirrored: Mirrored) -> None:
        self._mirrored = mirrored
        self._source = _connection(mirrored.source)
        self._target = _connection(mirrored.target)
        self._maps = OffsetMapLog(self._target.client)

    def sync(self) -> dict[str, GroupState]:
        """What became of each group that has read something of what is mirrored. ClientError if
        a cluster does not answer."""
        committed = self._source.run(self._committed(self._source.client))
        return self._target.run(self._translate(self._target.client, committed))

    async def _committed(self, source: Client) -> dict[str, Offsets]:
        admin = GroupAdmin(source)
        found = {}
        for group in await admin.list_groups():
            if self._mirrored.wanted(group.group_id):
                known = await admin.committed(group.group_id)
                found[group.group_id] = {where: each.offset for where, each in known.items()}
        return found

    async def _translate(
        self, target: Client, committed: Mapping[str, Offsets]
    ) -> dict[str, GroupState]:
        await self._maps.refresh()
        states = {}
        for group, offsets in committed.items():
            wanted = await self._over_there(target, offsets)
            if wanted:
                states[group] = await self._move(target, group, offsets, wanted)
        return states

    async def _over_there(self, target: Client, offsets: Offsets) -> Offsets:
        """By partition here. Never before what is still there: a group without an offset that
        exists would begin wherever its reader likes."""
        found = {where: self._translated(where, offset) for where, offset in offsets.items()}
        there = await _partitions(target, {self._copy_of(where)[0] for where in found})
        known = {
            where: offset
            for where, offset in found.items()
            if offset is not None and self._copy_of(where) in there
        }
        starts = await find_offsets(target, {self._copy_of(where): EARLIEST for where in known})
        return {
            where: max(offset, starts[self._copy_of(where)].offset)
            for where, offset in known.items()
        }

    def _translated(self, where: TopicPartition, offset: int) -> int | None:
        key = MapKey(self._mirrored.cluster_id, *self._copy_of(where))
        return translated(self._maps.of(key), offset)

    def _copy_of(self, where: TopicPartition) -> TopicPartition:
        return f"{self._mirrored.prefix}{where[0]}", where[1]

    async def _move(self, target: Client, group: str, here: Offsets, wanted: Offsets) -> GroupState:
        admin = GroupAdmin(target)
        if await _has_members(admin, group):
            return GroupState(ACTIVE)
        theirs = await admin.committed(group)
        ours = f"{NOTE} {self._mirrored.cluster_id} "
        if any(not each.metadata.startswith(ours) for each in theirs.values()):
            return GroupState(ITS_OWN)
        moved: Offsets = {}
        notes = {}
        for where, offset in wanted.items():
            copy = self._copy_of(where)
            note = note_of(self._mirrored.cluster_id, here[where])
            new = chosen(theirs.get(copy), offset, note)
            if new is not None:
                moved[copy], notes[copy] = new, note
        if moved:
            try:
                await admin.move(group, moved, notes)
            except KafkaError as error:
                if error.error in JOINED:
                    return GroupState(ACTIVE)
                raise
        return GroupState(TRANSLATED, len(wanted))


async def _partitions(client: Client, topics: set[str]) -> set[TopicPartition]:
    found = await client.topics(sorted(topics))
    return {
        (topic.name, each.partition)
        for topic in found.values()
        if not topic.error
        for each in topic.partitions
    }


async def _has_members(admin: GroupAdmin, group: str) -> bool:
    try:
        return (await admin.describe(group)).state not in (EMPTY, DEAD)
    except KafkaError as error:
        if error.error != Error.GROUP_ID_NOT_FOUND:
            raise
        return False


def _connection(access: Access) -> Connection:
    settings = client_settings(access.security.properties, for_sink=False)
    return connect(access.bootstrap, settings, TRY_MS)


class GroupSync:
    """When to translate, and who is told what became of it."""

    def __init__(
        self,
        offsets: GroupOffsets,
        every_s: float,
        tell: Callable[[str], None],
        note: Callable[[dict[str, Any]], None],
    ) -> None:
        """`tell` is given a line for people when something is new, `note` all groups then."""
        self._offsets = offsets
        self._every_s = every_s
        self._tell = tell
        self._note = note
        self._next_s = 0.0
        self._known: dict[str, GroupState] = {}
        self._complaint: str | None = None

    def between(self) -> None:
        if time.monotonic() >= self._next_s:
            self.now()
            self._next_s = time.monotonic() + self._every_s

    def now(self) -> None:
        try:
            found = self._offsets.sync()
        except ClientError as error:
            words = " ".join(str(error).split())
            if words != self._complaint:
                self._tell(f"offsets of groups are not translated: {words}; it is tried again")
            self._complaint = words
            return
        self._complaint = None
        for group, state in sorted(found.items()):
            known = self._known.get(group)
            if known is None or known.state != state.state:
                left = "" if state.state == TRANSLATED else ", so it is left alone"
                self._tell(f"group {group}: {state.state}{left}")
        if found != self._known:
            self._note({group: each.as_document() for group, each in sorted(found.items())})
        self._known = found
