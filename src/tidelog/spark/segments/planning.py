"""From options to ranges of segment files, on the driver.

Only checkpoints and indexes are read here, and the ends of logs: what lies outside of the wanted
offsets and times is never touched.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from tidelog.client.offsets import EARLIEST, LATEST
from tidelog.replica_files import (
    DataDirectory,
    NoDataDirectory,
    Replica,
    find_replicas,
    offset_at_time,
    offset_index,
    segments_of,
)
from tidelog.spark.failure import InvalidOption, TidelogError
from tidelog.spark.lookup import Lookup
from tidelog.spark.planning import default_tasks, plan
from tidelog.spark.ranges import OffsetRange, Offsets, TopicPartition, told
from tidelog.spark.segments.choosing import Chosen, choose
from tidelog.spark.segments.live import live_bounds
from tidelog.spark.segments.ranges import SegmentRange
from tidelog.spark.source_options import PATH_ADVICE, Place, SourceOptions, Subscription
from tidelog.spark.start_offsets import (
    accept_or_fail,
    asked_times,
    nothing_there,
    ranges_between,
)
from tidelog.spark.topics import HIDDEN, Seen, check_all_there, compiled

SMALLEST_PIECE_BYTES = 16 << 20
LARGEST_PIECE_BYTES = 256 << 20

SegmentGroup = tuple[SegmentRange, ...]


def open_directories(paths: Iterable[str]) -> list[DataDirectory]:
    try:
        return [DataDirectory(path) for path in paths]
    except NoDataDirectory as error:
        raise InvalidOption(f"the option path: {error}", PATH_ADVICE) from None


def plan_groups(options: SourceOptions) -> list[SegmentGroup]:
    """What each task reads."""
    chosen = choose_replicas(options)
    ends = _resolve(options.end, chosen)
    starts = _resolve(options.start, chosen)
    if options.end.offsets is None or LATEST in options.end.offsets.values():
        _refuse_short(chosen, ends, fail=options.fail_on_data_loss)
    log = {where: (each.start, each.end) for where, each in chosen.items()}
    ranges = ranges_between(starts, ends, log, fail=options.fail_on_data_loss)
    pieces, tasks = _pieces(ranges, chosen, default_tasks())
    packing = options.packing._replace(shares_tasks=True)  # files are ours to divide
    if packing.min_partitions is None and pieces:  # by bytes, where others count offsets
        packing = packing._replace(min_partitions=min(tasks, len(pieces)))
    return [
        tuple(_of_replica(each, chosen) for each in group) for group in plan(pieces, packing, tasks)
    ]


def _of_replica(each: OffsetRange, chosen: Mapping[TopicPartition, Chosen]) -> SegmentRange:
    replica = chosen[each.topic, each.partition]
    return SegmentRange(replica.replica, each.start, each.end, replica.epochs, replica.others)


# ---- which replicas ----


def choose_replicas(options: SourceOptions) -> dict[TopicPartition, Chosen]:
    """One replica for each partition of the subscription."""
    directories = open_directories(options.paths)
    lookup = Lookup(options) if options.bootstrap else None
    seen = lookup.seen() if lookup else seen_on_disk(directories, options.subscription)
    check_all_there(options.subscription, seen)
    partitions = sorted(seen.partitions)
    replicas = find_replicas(directories, partitions)
    bounds = {}
    if lookup is not None:
        bounds = lookup.ask(lambda client: live_bounds(client, replicas))
        # A leader may have been elected meanwhile: its epoch is in the history now.
        replicas = find_replicas(directories, partitions)
    chosen = {}
    for where in partitions:
        live = bounds.get(where)
        found = choose(replicas[where], committed=options.committed, live=live)
        if found is None:
            raise TidelogError(
                f"no replica of {told([where])} lies in {', '.join(options.paths)}",
                "add the data directory of a broker that has one",
            )
        chosen[where] = found
    return chosen


def seen_on_disk(directories: Sequence[DataDirectory], subscription: Subscription) -> Seen:
    """What of the subscription has a replica in one of the directories."""
    there = {name for each in directories for name in each.partitions()}
    if subscription.partitions:
        wanted = there & set(subscription.partitions)
    elif subscription.pattern is not None:
        matches = compiled(subscription.pattern).fullmatch
        wanted = {name for name in there if not name[0].startswith(HIDDEN) and matches(name[0])}
    else:
        wanted = {name for name in there if name[0] in subscription.topics}
    if not subscription.partitions:
        _refuse_holes(wanted)
    return Seen(frozenset(wanted), dict.fromkeys({topic for topic, _ in wanted}, b""))


def _refuse_holes(partitions: set[TopicPartition]) -> None:
    """Partitions are numbered without gaps, so a gap is a directory that was left out."""
    for topic in sorted({topic for topic, _ in partitions}):
        numbers = {partition for name, partition in partitions if name == topic}
        missing = set(range(max(numbers))) - numbers
        if missing:
            raise TidelogError(
                f"no replica of {told((topic, each) for each in missing)} lies in path",
                "add the data directory of a broker that has one, or name partitions by assign",
            )


def _refuse_short(chosen: Mapping[TopicPartition, Chosen], ends: Offsets, *, fail: bool) -> None:
    for where, each in chosen.items():
        if each.is_short and ends[where] >= each.end:
            accept_or_fail(
                f"{told([where])} is committed up to offset {each.committed_end},"
                f" and the replicas in path reach to {each.reach}",
                fail=fail,
            )


# ---- from where to where ----


def _resolve(place: Place, chosen: Mapping[TopicPartition, Chosen]) -> Offsets:
    offsets: Offsets = {}
    times = asked_times(chosen, place)
    without = []
    for where, asked in times.items():
        replica = chosen[where]
        if asked in (EARLIEST, LATEST):
            offsets[where] = replica.start if asked == EARLIEST else replica.end
        elif place.offsets is not None:
            offsets[where] = asked
        else:
            found = offset_at_time(replica.replica, asked, replica.start)
            if found is None or found >= replica.end:
                without.append(where)
                found = replica.end
            offsets[where] = found
    if without and not place.latest_if_none:
        raise nothing_there(place, without, times[min(without)])
    return offsets


# ---- in which pieces ----


def _pieces(
    ranges: list[OffsetRange], chosen: Mapping[TopicPartition, Chosen], tasks: int
) -> tuple[list[OffsetRange], int]:
    """Ranges cut where batches begin, into pieces worth a task, and how many tasks they are."""
    sizes = [_bytes_of(each, chosen[each.topic, each.partition].replica) for each in ranges]
    total = sum(sizes)
    piece_bytes = min(max(total // tasks, SMALLEST_PIECE_BYTES), LARGEST_PIECE_BYTES)
    pieces = []
    for each, size_bytes in zip(ranges, sizes, strict=True):
        if size_bytes <= piece_bytes * 5 // 4:
            pieces.append(each)
        else:
            replica = chosen[each.topic, each.partition].replica
            pieces += _cut(each, _cuts(each, replica, piece_bytes))
    worth = max(1, min(tasks, total // SMALLEST_PIECE_BYTES))
    return pieces, max(worth, -(-total // LARGEST_PIECE_BYTES))


def _bytes_of(read: OffsetRange, replica: Replica) -> int:
    return sum(size for _, size in _parts(read, replica))


def _parts(read: OffsetRange, replica: Replica) -> list[tuple[int, int]]:
    """The segments of a range: base offset, and how many bytes of it are in the range."""
    segments = segments_of(replica.directory)
    parts = []
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else read.end
        if following <= read.start or segment.base_offset >= read.end:
            continue
        begin, end = 0, segment.size_bytes
        if segment.base_offset < read.start or following > read.end or number + 1 == len(segments):
            index = offset_index(segment)
            begin = index.position_for(read.start)
            end = index.position_behind(read.end) or segment.size_bytes
        parts.append((segment.base_offset, max(end - begin, 0)))
    return parts


def _cuts(read: OffsetRange, replica: Replica, piece_bytes: int) -> list[int]:
    """Offsets of batches, about every `piece_bytes`."""
    cuts = []
    since = 0
    by_base = {each.base_offset: each for each in segments_of(replica.directory)}
    for base_offset, size_bytes in _parts(read, replica):
        segment = by_base.get(base_offset)
        if segment is None:
            continue
        if since >= piece_bytes // 2:
            cuts.append(base_offset)
            since = 0
        if since + size_bytes > piece_bytes:
            index = offset_index(segment)
            position = index.position_for(read.start) + piece_bytes - since
            while (offset := index.offset_near(position)) is not None and offset < read.end:
                cuts.append(offset)
                position += piece_bytes
                since = size_bytes % piece_bytes
        else:
            since += size_bytes
    return cuts


def _cut(whole: OffsetRange, cuts: list[int]) -> list[OffsetRange]:
    edges = [whole.start, *(cut for cut in cuts if whole.start < cut < whole.end), whole.end]
    return [whole._replace(start=start, end=end) for start, end in pairwise(edges)]
