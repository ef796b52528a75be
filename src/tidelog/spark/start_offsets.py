"""Where to start and to end: from what the options say to offsets."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from tidelog.client import Client
from tidelog.client.offsets import EARLIEST, LATEST, NOTHING, find_offsets
from tidelog.spark.client_settings import LOGGER
from tidelog.spark.failure import DataLoss, InvalidOption, TidelogError
from tidelog.spark.ranges import OffsetRange, Offsets, TopicPartition, told
from tidelog.spark.source_options import Place

Bounds = Mapping[TopicPartition, tuple[int, int]]
"""The log start and the end of what may be read."""

ACCEPT_LOSS = "set failOnDataLoss=false to go on with what is there"


class Resolved(NamedTuple):
    offsets: Offsets
    at_end: frozenset[TopicPartition]
    """Those that were resolved as the end: asked later, it is another one."""


async def resolve(client: Client, log: Bounds, place: Place, *, isolation: int) -> Resolved:
    """The offset of a place in each partition. Only times have to be asked for."""
    offsets: Offsets = {}
    at_end: set[TopicPartition] = set()
    timed: Offsets = {}
    for where, asked in asked_times(log, place).items():
        first, last = log[where]
        if asked == LATEST:
            at_end.add(where)
        if asked in (EARLIEST, LATEST):
            offsets[where] = first if asked == EARLIEST else last
        elif place.offsets is not None:
            offsets[where] = asked
        else:
            timed[where] = asked
    found = await find_offsets(client, timed, isolation=isolation)
    without = [where for where, each in found.items() if each.offset == NOTHING]
    if without and not place.latest_if_none:
        raise nothing_there(place, without, timed[min(without)])
    at_end.update(without)
    offsets.update((where, each.offset) for where, each in found.items())
    offsets.update((where, log[where][1]) for where in without)
    return Resolved(offsets, frozenset(at_end))


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
    try:
        when = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):  # after the year 9999
        when = f"{time_ms} ms"
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
    log: Bounds,
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
