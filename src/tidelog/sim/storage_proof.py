"""Proof by enumeration that storage survives a crash (reliability.md §2.5).

Each workload runs once on a recording disk and says with marks what is owed from then on.
Every disk that a crash can leave behind is then recovered and compared with the last mark:
a batch-aligned part of a history that is possible at that point, with everything in it that
was promised as durable (replication.md §12, rule 19); a second recovery changes nothing; and
the log takes another append and keeps it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple

from tidelog.sim.compaction_check import compaction_faults
from tidelog.sim.crash_states import CrashLimits, CrashStates
from tidelog.sim.crash_writer import (
    GATHERED,
    LATEST,
    ORDERS,
    PRODUCER,
    PROPERTIES,
    TOPIC_ID,
    WIDE,
    History,
    Mark,
    Owed,
    Writer,
    one_record,
    open_directory,
    started,
)
from tidelog.sim.disk import SimDisk
from tidelog.sim.log_check import log_faults, stored_batches
from tidelog.storage import checkpoints
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.compaction import CompactionProgress
from tidelog.storage.errors import CorruptSegment, DirectoryOffline, NotFormatted, StorageError
from tidelog.storage.log import Log
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.meta_properties import format_directory
from tidelog.storage.unstored_epochs import Round

LIMITS = CrashLimits(max_subset_effects=10)
SECOND_CRASH = "crash while recovering"
SECOND_CRASH_EVERY = 100
"""Of the states after a first crash, one in so many is crashed again."""


class BadState(NamedTuple):
    workload: str
    story: str
    faults: tuple[str, ...]


@dataclass(slots=True)
class CrashReport:
    """How many crash states were tried, and those that did not recover."""

    states: int = 0
    bad: list[BadState] = field(default_factory=list)
    by_workload: dict[str, int] = field(default_factory=dict)


Tell = Callable[[CrashReport], None]
"""Hears after every state how far it is."""


def run_crash_states(
    limit: int = 0,
    *,
    workloads: Iterable[str] = (),
    stop_at_first: bool = False,
    second_crash_every: int = SECOND_CRASH_EVERY,
    tell: Tell | None = None,
) -> CrashReport:
    """Try the crash states of the named workloads, or of all; at most `limit` of each (0: no
    limit). The order is always the same, and so is the report."""
    report = CrashReport()
    for name in workloads or all_workloads():
        report.by_workload[name] = 0
        again = name == SECOND_CRASH
        for state in second_crashes(second_crash_every) if again else crashes(WORKLOADS[name]):
            report.by_workload[name] += 1
            report.states += 1
            faults = faults_after(state)
            if faults:
                report.bad.append(BadState(name, state.story, tuple(faults)))
            if tell is not None:
                tell(report)
            if report.by_workload[name] == limit or (faults and stop_at_first):
                break
        if report.bad and stop_at_first:
            break
    return report


def all_workloads() -> tuple[str, ...]:
    return (*WORKLOADS, SECOND_CRASH)


def crashes(workload: Callable[[SimDisk], None]) -> Iterator[SimDisk]:
    yield from CrashStates(workload, limits=LIMITS)


def second_crashes(every: int) -> Iterator[SimDisk]:
    """Power fails again while the node recovers."""
    for workload in (appends, epoch_starts, rolls, truncations, topic_deletes, compactions):
        for state in islice(crashes(workload), 0, None, every):
            yield from CrashStates(_recover, start=state, limits=LIMITS)


def _recover(disk: SimDisk) -> None:
    with suppress(NotFormatted):
        open_directory(disk)


# Checking one state


def faults_after(disk: SimDisk) -> list[str]:
    """What is wrong with this disk after recovery, in words."""
    try:
        return checked(disk)
    except Exception as error:  # whatever broken code does, it must not pass for sound
        return [f"checking ended with {type(error).__name__}: {error}"]


def checked(disk: SimDisk) -> list[str]:
    mark = disk.marks[-1] if disk.marks else Mark({}, formatted=False)
    assert isinstance(mark, Mark), mark
    try:
        directory = open_directory(disk)
    except NotFormatted:
        return ["the directory lost its owner"] if mark.formatted else []
    except StorageError as error:
        return [f"the directory does not open: {error}"]
    robbed = {name for name, owed in mark.logs.items() if owed.may_be_refused}
    faults = [
        f"{name} was refused: {error}"
        for name, error in directory.refused.items()
        if name not in robbed
    ]
    faults += [
        f"a crash damaged {repair.fault}"
        for repair in directory.repairs
        if not isinstance(repair.fault, CorruptSegment)
    ]
    faults += high_watermark_faults(disk, mark)
    for name, owed in mark.logs.items():
        faults += owed_faults(disk, directory, name, owed)
    if faults or robbed:
        return faults
    return second_recovery_faults(disk, directory) or next_append_faults(disk)


def owed_faults(
    disk: SimDisk, directory: LogDirectory, name: PartitionName, owed: Owed
) -> list[str]:
    log = directory.logs.get(name)
    if log is None:
        return [] if owed.may_be_gone or owed.may_be_refused else [f"{name} is gone"]
    if owed.must_be_refused:
        return [f"{log} was opened, and some of its records are gone"]
    faults = log_faults(disk, log)
    if not owed.histories:
        faults.append(f"{name} came back")
    start, end = log.log_start_offset, log.log_end_offset
    if not owed.start_at_least <= start <= max(owed.start_at_most, owed.start_at_least):
        faults.append(f"log start {start}, owed {owed.start_at_least}..{owed.start_at_most}")
    if end < owed.end_at_least:
        faults.append(f"log end {end}, {owed.end_at_least} was durable")
    found = contents(disk, log)
    first = log.segments[0].base_offset
    if owed.compacted:
        faults += compaction_faults(owed.histories[0][:end], found)
    elif not any(history[first:end] == found for history in owed.histories):
        faults.append(f"records {first}..{end} are not what was written")
    return faults


def contents(disk: SimDisk, log: Log) -> History:
    return tuple(
        batch.data for segment in log.segments for batch in stored_batches(disk, segment)[0]
    )


def high_watermark_faults(disk: SimDisk, mark: Mark) -> list[str]:
    """A checkpoint is replaced whole: the old one or the new one."""
    if not mark.high_watermarks:
        return []
    found = checkpoints.read_offsets(disk, checkpoints.HIGH_WATERMARKS)
    if any(found == dict(allowed) for allowed in mark.high_watermarks):
        return []
    return [f"high watermarks {found}, owed one of {mark.high_watermarks}"]


def second_recovery_faults(disk: SimDisk, directory: LogDirectory) -> list[str]:
    """Recovery has nothing left to do for the next one."""
    if directory.broker_epoch_at_stop is not None:
        open_directory(disk)  # the first one trusted an orderly stop and had nothing to do
    before = disk.files()
    again = open_directory(disk)
    after = disk.files()
    changed = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    ends = {name: log.log_end_offset for name, log in directory.logs.items()}
    if ends != {name: log.log_end_offset for name, log in again.logs.items()}:
        changed.append("log end offsets")
    return [f"the second recovery changed {path}" for path in sorted(changed)]


def next_append_faults(disk: SimDisk) -> list[str]:
    """The recovered log is a log: it takes a record, and keeps it through another crash."""
    directory = open_directory(disk)
    expected: dict[PartitionName, History] = {}
    for name, log in directory.logs.items():
        before = contents(disk, log)
        data = one_record(log.log_end_offset)
        log.append_as_leader(data, max(log.epochs.latest_epoch, 0) + 1)
        expected[name] = (*before, bytes(data))
    directory.sync_dirty()
    directory.checkpoint_recovery_points()
    lost = disk.after_power_loss(())
    again = open_directory(lost)
    faults = [f"{name} was refused: {error}" for name, error in again.refused.items()]
    for name, history in expected.items():
        found = again.logs.get(name)
        if found is None or contents(lost, found) != history:
            faults.append(f"{name} lost what was durable after recovery")
        else:
            faults += log_faults(lost, found)
    return faults


# The workloads


def appends(disk: SimDisk, name: PartitionName = WIDE) -> None:
    """Several appends to a sync, in two leader epochs, one batch over several sectors."""
    writer = started(disk, name=name)
    writer.mark()
    for number in range(6):
        writer.append(number // 4)
        if number in (1, 4):
            writer.sync()
    writer.append(2, padding=1200)
    writer.sync()
    writer.append(2)
    writer.append(3)
    writer.directory.checkpoint_recovery_points()
    writer.append(3)


def rolls(disk: SimDisk) -> None:
    """Segments fill up between syncs; an aborted transaction lies across two of them."""
    writer = started(disk)
    writer.mark()
    for number in range(8):
        writer.append(0, padding=60)
        if number == 2:
            writer.sync()
    writer.end_transaction(0, commit=False)
    writer.directory.checkpoint_recovery_points()
    writer.append(1)
    writer.sync()
    writer.append(1)


def truncations(disk: SimDisk) -> None:
    """Reconciliation: a cut into an earlier segment, then other records at the same offsets."""
    writer = started(disk)
    for number in range(9):
        writer.append(number // 6)
    writer.sync()
    writer.directory.unstored.store_all()
    writer.directory.checkpoint_recovery_points()
    for cut in (7, 4, 2, 0):
        _cut(writer, cut)
        for _ in range(3):
            writer.append(10 - cut, tag="x")
        writer.sync()
        writer.directory.unstored.store_all()
        writer.directory.checkpoint_recovery_points()


def restarts(disk: SimDisk) -> None:
    """A follower that fell out of the leader's range forgets everything and starts ahead."""
    writer = started(disk)
    for _ in range(5):
        writer.append(0)
    writer.sync()
    writer.directory.checkpoint_recovery_points()
    writer.directory.checkpoint_log_starts()
    for start in (9, 4):
        before = tuple(writer.history)
        writer.history = [b""] * start
        latest = max(start, writer.start_at_most)
        disk.mark(Mark({ORDERS: Owed((before, tuple(writer.history)), start_at_most=latest)}))
        writer.log.truncate_fully_and_start_at(start)
        writer.start_at_least = writer.start_at_most = start
        writer.mark()
        for _ in range(3):
            writer.append(start, tag="y")
        writer.sync()
        writer.directory.checkpoint_recovery_points()
        writer.start_at_least = 0
        writer.start_at_most = start


def retentions(disk: SimDisk) -> None:
    """Old segments go, first by age, then by log start; newer records stay."""
    writer = started(disk)
    for number in range(10):
        writer.append(number // 5, time_ms=1000 * number)
    writer.sync()
    directory, log = writer.directory, writer.log
    directory.checkpoint_log_starts()
    for jump_ms in (0, 3_600_000):  # the wall clock is an hour ahead for a moment
        directory.apply_retention(
            wall_ms=9_000 + jump_ms, monotonic_ms=0, high_watermarks={ORDERS: 9}
        )
        writer.mark()
    for wall_ms in (13_500, 15_500):
        writer.start_at_most = log.log_end_offset - 3
        writer.mark()
        directory.apply_retention(
            wall_ms=wall_ms, monotonic_ms=wall_ms - 9_000, high_watermarks={ORDERS: 9}
        )
        writer.start_at_least = writer.start_at_most = log.log_start_offset
        writer.mark()
    writer.append(2, time_ms=16_000)
    writer.start_at_most = log.log_end_offset
    writer.mark()
    log.raise_log_start(8)
    directory.checkpoint_log_starts()
    writer.start_at_least = writer.start_at_most = 8
    writer.mark()
    log.apply_retention(0, 10)
    log.remove_deleted_files(1 << 40)
    writer.append(2)


def vanishing_segments(disk: SimDisk, number: int) -> None:
    """After an orderly stop somebody removes a segment. What is left must not pass for all."""
    writer = started(disk)
    for _ in range(8):
        writer.append(0, padding=60)
    writer.sync()
    victim = writer.log.segments[number].path
    assert len(writer.log.segments) > number + 1, writer.log
    writer.directory.close(broker_epoch=4, high_watermarks={ORDERS: 8})
    writer.mark()
    owed = writer.owed()._replace(may_be_refused=True)
    disk.mark(Mark({ORDERS: owed}))
    disk.remove(victim)
    disk.sync_dir(writer.log.directory)
    disk.mark(Mark({ORDERS: owed._replace(must_be_refused=True)}))
    open_directory(disk)


def checkpoint_rewrites(disk: SimDisk) -> None:
    """High watermarks are written over and over: the old file or the new one, never a mixture."""
    writer = started(disk)
    writer.append(0)
    writer.sync()
    stored: Mapping[PartitionName, int] = {}
    for high_watermark in (1, 20, 300):
        wanted = {ORDERS: high_watermark, WIDE: 10 * high_watermark}
        owed = {ORDERS: writer.owed()}
        disk.mark(Mark(owed, (stored, wanted)))
        writer.directory.checkpoint_high_watermarks(wanted)
        disk.mark(Mark(owed, (wanted,)))
        stored = wanted
    writer.directory.checkpoint_recovery_points()
    writer.directory.checkpoint_log_starts()


def formats(disk: SimDisk) -> None:
    """Format, first log, orderly stop and start."""
    disk.mark(Mark({}, formatted=False))
    format_directory(disk, PROPERTIES)
    disk.mark(Mark({}))
    directory = open_directory(disk)
    disk.mark(Mark({ORDERS: Owed(((),), may_be_gone=True)}))
    directory.create_log(ORDERS, TOPIC_ID)
    disk.mark(Mark({ORDERS: Owed(((),))}))
    writer = Writer(disk, directory, ORDERS)
    writer.append(0)
    writer.append(0)
    directory.close(broker_epoch=4, high_watermarks={ORDERS: 2})
    writer.mark()
    writer.directory = open_directory(disk)
    writer.log = writer.directory.logs[ORDERS]
    writer.append(1)
    writer.sync()
    writer.append(1)


def topic_deletes(disk: SimDisk) -> None:
    """A topic goes, comes back under the same name, and has none of the old records."""
    writer = started(disk)
    for _ in range(5):
        writer.append(0)
    writer.sync()
    directory = writer.directory
    directory.checkpoint_recovery_points()
    old = writer.owed()
    disk.mark(Mark({ORDERS: old._replace(may_be_gone=True)}))
    directory.delete_log(ORDERS)
    disk.mark(Mark({ORDERS: Owed((), may_be_gone=True)}))
    disk.mark(Mark({ORDERS: Owed(((),), may_be_gone=True)}))
    directory.create_log(ORDERS, b"another topic id")
    again = Writer(disk, directory, ORDERS)
    again.mark()
    for _ in range(3):
        again.append(0, tag="n")
    again.sync()
    again.append(1, tag="n")


def failed_syncs(disk: SimDisk) -> None:
    """A sync fails once. Whatever is tried afterwards, nothing more may be promised."""
    writer = started(disk)
    writer.append(0)
    writer.sync()
    writer.directory.unstored.store_all()
    writer.append(0)
    disk.inject("sync", path="orders-0")
    for _ in range(3):
        with suppress(DirectoryOffline):
            writer.sync()
        writer.mark()


def epoch_starts(disk: SimDisk) -> None:
    """Epochs begin, with and without records, and reach their checkpoint late, in steps and
    between truncations; the recovery point is checkpointed all the time."""
    writer = started(disk, name=WIDE)
    writer.mark()
    log, directory = writer.log, writer.directory
    for epoch in (0, 2, 5):
        log.assign_epoch(epoch, log.log_end_offset)
        writer.append(epoch)
        if epoch != 2:
            writer.sync()
        else:
            log.assign_epoch(4, log.log_end_offset)  # and it writes nothing
        written = directory.unstored.start(1)
        log.truncate_to(log.log_end_offset)
        writer.append(epoch)
        directory.checkpoint_recovery_points()
        if epoch == 5:
            _cut(writer, 3)
            writer.append(4, tag="x")
        named = directory.unstored.name_files(_run(written), None)
        directory.checkpoint_recovery_points()
        directory.unstored.finish(_run(named), None)
        writer.sync()
        directory.checkpoint_recovery_points()
    writer.append(6)
    _cut(writer, 2)
    writer.append(3, tag="y")
    writer.sync()
    directory.checkpoint_recovery_points()


def _run(round_: Round) -> Round:
    for part in round_:
        part.syncing.run()
    return round_


def _cut(writer: Writer, offset: int) -> None:
    before = tuple(writer.history)
    durable = min(writer.log.durable_offset, offset)
    del writer.history[offset:]
    writer.disk.mark(Mark({writer.name: Owed((before,), end_at_least=durable)}))
    writer.log.truncate_to(offset)
    writer.mark()


def group_commits(disk: SimDisk) -> None:
    """One pass syncs the appends of two logs; a crash may come between them."""
    writer = started(disk)
    writer.directory.create_log(WIDE, b"wide topic's id.")
    other = Writer(disk, writer.directory, WIDE)
    for number in range(4):
        for each, rest in ((writer, other), (other, writer)):
            each.beside = {rest.name: rest.owed()}
            each.append(number // 2)
        writer.beside = {}
        if number != 2:
            writer.directory.sync_dirty()
        disk.mark(Mark({ORDERS: writer.owed(), WIDE: other.owed()}))


def compactions(disk: SimDisk) -> None:
    """Old values, a tombstone and an aborted transaction go; twice, with appends in between."""
    writer = started(disk, name=LATEST)
    writer.compacted = True
    for number in range(6):
        writer.put(number // 3, b"ab"[number % 2 : number % 2 + 1])
        writer.sync()  # how appends are lost is the matter of other workloads
    writer.put(1, b"a", producer=PRODUCER)
    writer.sync()
    writer.put(1, b"c", deleted=True)
    writer.sync()
    writer.end_transaction(1, commit=False)
    for wall_ms in (2000, 4000):
        for key in (b"b", b"d", b"d", b"e"):
            writer.put(2, key)
            writer.sync()
        progress = compact_once(writer, wall_ms)
        while progress is not None and not progress.finished:
            progress = compact_once(writer, wall_ms)
        assert progress is not None, "there is nothing to compact"
        writer.mark()
    writer.put(2, b"f")


def compact_once(writer: Writer, wall_ms: int) -> CompactionProgress | None:
    return writer.directory.compact_once(
        wall_ms=wall_ms,
        monotonic_ms=wall_ms,
        high_watermarks={LATEST: writer.log.log_end_offset},
        budget_bytes=800,
    )


# The short ones first: a broken rule is then found in seconds.
WORKLOADS: dict[str, Callable[[SimDisk], None]] = {
    "failed sync": failed_syncs,
    "epoch start": epoch_starts,
    "checkpoint rewrite": checkpoint_rewrites,
    "format": formats,
    "first segment vanishes": partial(vanishing_segments, number=0),
    "segment vanishes": partial(vanishing_segments, number=1),
    "retention": retentions,
    "append": appends,
    "append, index gathered": partial(appends, name=GATHERED),
    "roll": rolls,
    "truncate": truncations,
    "restart": restarts,
    "topic delete": topic_deletes,
    "group commit": group_commits,
    "compact": compactions,
}
