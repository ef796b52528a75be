"""Where to start and to end: from what the options say to offsets."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from tidelog.client import Client
from tidelog.client.offsets import LATEST, NOTHING, find_offsets
from tidelog.spark.client_settings import LOGGER
from tidelog.spark.failure import DataLoss, InvalidOption, TidelogError
from tidelog.spark.ranges import OffsetRange, Offsets, TopicPartition, told
from tidelog.spark.source_options import Place

ACCEPT_LOSS = "set failOnDataLoss=false to go on with what is there"


class Resolved(NamedTuple):
    offsets: Offsets
    at_end: frozenset[TopicPartition]
    """Those that were resolved as the end: asked later, it is another one."""


async def resolve(
    client: Client, partitions: Collection[TopicPartition], place: Place, *, isolation: int
) -> Resolved:
    """The offset of a place in each partition."""
    times = asked_times(partitions, place)
    fixed: Offsets = {}
    if place.offsets is not None:
        fixed = {where: each for where, each in times.items() if each >= 0}
    asked = {where: each for where, each in times.items() if where not in fixed}
    found = await find_offsets(client, asked, isolation=isolation)
    offsets = {where: each.offset for where, each in found.items()}
    without = [where for where, offset in offsets.items() if offset == NOTHING]
    if without and not place.latest_if_none:
        raise nothing_there(place, without, times[min(without)])
    ends = await find_offsets(client, dict.fromkeys(without, LATEST), isolation=isolation)
    offsets.update((where, each.offset) for where, each in ends.items())
    at_end = frozenset(where for where, each in asked.items() if each == LATEST).union(without)
    return Resolved({**offsets, **fixed}, at_end)


def asked_times(partitions: Collection[TopicPartition], place: Place) -> Offsets:
    """What to ask for in each partition, EARLIEST and LATEST being times too."""
    if place.time_ms is not None:
        return dict.fromkeys(partitions, place.time_ms)
    given = place.offsets if place.offsets is not None else place.times_ms
    if given is None:
        return dict.fromkeys(partitions, place.everywhere)
    missing, extra = set(partitions) - set(given), set(given) - set(partitions)
    if missing:
        rest = "-2 is earliest, -1 is latest" if place.offsets is not None else "give a time each"
        raise InvalidOption(
            f"the option {place.option} says nothing of {told(missing)}",
            f"name every partition; {rest}",
        )
    if extra:
        raise InvalidOption(
            f"the option {place.option} names {told(extra)}, which is not read",
            "leave it out, or correct the topics",
        )
    return given


def nothing_there(place: Place, without: Collection[TopicPartition], time_ms: int) -> TidelogError:
    when = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return TidelogError(
        f"{told(without)} has nothing at or after {when} ({place.option})",
        "give an earlier time, or startingOffsetsByTimestampStrategy=latest",
    )


def accept_or_fail(what: str, *, fail: bool) -> None:
    """Records that were to be read are not there."""
    if fail:
        raise DataLoss(what, ACCEPT_LOSS)
    LOGGER.warning("%s; failOnDataLoss=false, so the query goes on without them", what)


def ranges_between(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    log: Mapping[TopicPartition, tuple[int, int]],
    *,
    fail: bool,
) -> list[OffsetRange]:
    """What of a batch's bounds is there, in order; empty ranges are left out. `log` has the
    log start and the end of what may be read."""
    ranges = []
    for where in sorted(starts):
        start, end = starts[where], ends[where]
        first, last = log[where]
        name = told([where])
        if start < first and start < end:
            accept_or_fail(
                f"{name} is to be read from offset {start}, and begins at {first}", fail=fail
            )
        if start > last:
            accept_or_fail(
                f"{name} is to be read from offset {start}, and ends at {last}", fail=fail
            )
        if end > last:
            accept_or_fail(f"{name} is to be read to offset {end}, and ends at {last}", fail=fail)
        read = OffsetRange(*where, max(start, first), min(end, last))
        if read.size > 0:
            ranges.append(read)
    return ranges
