"""What a stream reads next, and what it does when records are not there any more.

One instance lives on the driver for as long as a query runs. Spark asks dozens of times a second
while nothing happens, so answers of the cluster are good for a little while.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.spark import kept_start
from tidelog.spark.admission import admit, backlog, must_wait
from tidelog.spark.client_settings import LOGGER
from tidelog.spark.failure import TidelogError
from tidelog.spark.lookup import Lookup, NoSuchPartition
from tidelog.spark.ranges import OffsetRange, Offsets, TopicPartition, told
from tidelog.spark.source_options import SourceOptions
from tidelog.spark.start_offsets import Bounds, accept_or_fail
from tidelog.spark.topics import Seen, check_all_there

ENDS_GOOD_FOR_MS = 100
SIZES_GOOD_FOR_MS = 10_000
NEVER_MS = float("-inf")


class _Reset(NamedTuple):
    """A partition of a topic that was made again is read from its new beginning."""

    instead_of: int
    begin: int


class StreamPlan:
    """Where a query starts, how far the next batch goes, and which ranges it has."""

    __slots__ = (
        "_asked_ends_ms",
        "_asked_seen_ms",
        "_asked_sizes_ms",
        "_at_end",
        "_clock_ms",
        "_ends",
        "_has_checked_log_starts",
        "_has_offered",
        "_initial",
        "_is_first_batch_done",
        "_known_ids",
        "_last_batch_ms",
        "_lookup",
        "_new_begins",
        "_offset_bytes",
        "_options",
        "_reset_end",
        "_resets",
        "_seen",
        "_target",
    )

    def __init__(
        self, options: SourceOptions, lookup: Lookup, clock_ms: Callable[[], float]
    ) -> None:
        self._options = options
        self._lookup = lookup
        self._clock_ms = clock_ms
        self._seen = Seen(frozenset(), {})
        self._known_ids: dict[str, bytes] = {}
        self._asked_seen_ms = NEVER_MS
        self._ends: Offsets = {}
        self._asked_ends_ms = NEVER_MS
        self._offset_bytes: dict[TopicPartition, float] = {}
        self._asked_sizes_ms = NEVER_MS
        self._initial: Offsets | None = None
        self._at_end: frozenset[TopicPartition] = frozenset()
        self._target: Offsets | None = None
        self._new_begins: Offsets = {}
        self._resets: dict[TopicPartition, _Reset] = {}
        self._reset_end: Offsets | None = None
        self._last_batch_ms = NEVER_MS
        self._has_offered = False
        self._has_checked_log_starts = False
        self._is_first_batch_done = False

    # ---- where it starts ----

    def initial(self) -> Offsets:
        """The same for as long as this instance lives, and after a restart if there is an id to
        keep it under."""
        if self._initial is None:
            self._initial = self._kept() or self._resolved()
        return self._initial

    def _kept(self) -> Offsets | None:
        group = self._options.start_group
        if group is None:
            return None
        return kept_start.load(self._lookup, group, kept_start.fingerprint(self._options))

    def _resolved(self) -> Offsets:
        self._look()
        check_all_there(self._options.subscription, self._seen)
        partitions = self._seen.partitions
        if self._target is not None:  # it was frozen first, and other partitions do not count
            partitions = partitions.intersection(self._target)
        log = self._lookup.bounds(partitions)
        resolved = self._lookup.resolve(log, self._options.start)
        offsets = resolved.offsets
        if self._options.start.offsets is not None:
            self._check_given(offsets, log)
        if self._target is not None:  # it may start after what was there when it was frozen
            self._target.update(
                (where, max(offset, self._target[where])) for where, offset in offsets.items()
            )
        group = self._options.start_group
        if group is not None and offsets:
            kept_start.save(self._lookup, group, kept_start.fingerprint(self._options), offsets)
        self._at_end = resolved.at_end
        return offsets

    def _check_given(self, offsets: Offsets, log: Bounds) -> None:
        for where, (first, last) in log.items():
            if not first <= offsets[where] <= last:
                self._lost(
                    f"startingOffsets says {offsets[where]} for {told([where])}, "
                    f"which has {first} to {last}"
                )
                offsets[where] = max(first, min(last, offsets[where]))

    # ---- how far it goes ----

    def freeze(self) -> None:
        """What is written from now on is for another run (`availableNow`)."""
        self._look()
        self._target = dict(self._current_ends())

    def newest(self) -> Offsets:
        """Where the partitions end, for progress reports."""
        try:
            self._look()
            return self._current_ends()
        except TidelogError as error:
            LOGGER.warning("where the topics end is not known: %s", error)
            return self._ends

    def latest(self, start: Offsets, *, limited: bool) -> Offsets:
        """Where the next batch ends; the start itself if there is nothing for one."""
        self._look()
        if start == self._reset_end:  # the batch that they were for has been read
            self._resets.clear()
            self._reset_end = None
        self._find_resets(start)
        ends = self._reachable_ends(start)
        begins = self._begins(start, ends)
        self._has_offered = True
        waiting = backlog(begins, ends)
        now_ms = self._clock_ms()
        admission = self._options.admission
        may_wait = limited and self._target is None
        if may_wait and must_wait(waiting, admission, now_ms - self._last_batch_ms):
            return start
        if waiting:
            self._last_batch_ms = now_ms
        if not limited:
            return ends
        sizes = self._sizes() if admission.max_bytes is not None else {}
        return admit(begins, ends, admission, sizes)

    def _reachable_ends(self, start: Offsets) -> Offsets:
        ends = self._current_ends() if self._target is None else self._target
        if self._target is None and self._ended_before(start, ends):
            self._asked_ends_ms = NEVER_MS  # what was remembered may be older than the start
            ends = self._current_ends()
        for where in self._ended_before(start, ends):
            self._lost(f"{told([where])} was read to {start[where]}, and ends at {ends[where]} now")
        return dict(ends)

    def _ended_before(self, start: Offsets, ends: Offsets) -> list[TopicPartition]:
        return [
            where
            for where, offset in sorted(start.items())
            if where not in self._resets and ends.get(where, offset) < offset
        ]

    def _begins(self, start: Offsets, ends: Mapping[TopicPartition, int]) -> Offsets:
        """Where each partition goes on: new ones at their beginning, so that nothing is missed
        of what was written before they were noticed."""
        new = [where for where in ends if where not in start and where not in self._new_begins]
        if new:
            self._new_begins.update(self._lookup.log_starts(new))
            for where in new:
                first = self._new_begins[where]
                if first > 0 and any(topic == where[0] for topic, _ in start):
                    self._lost(f"{told([where])} is new, and begins at {first} already")
        begins = {}
        for where in ends:
            reset = self._resets.get(where)
            known = start.get(where)
            if reset is not None and reset.instead_of == known:
                begins[where] = reset.begin
            else:
                begins[where] = self._new_begins[where] if known is None else known
        return begins

    # ---- which ranges it has ----

    def ranges(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        self._check_start_is_known(start)
        if not self._has_offered:
            self._look()
            self._find_resets(start)
        gone = start.keys() - end.keys()
        if gone:
            self._lost(f"{told(gone)} was read before and is not there any more")
        begins = self._begins(start, end)
        if self._resets:
            self._reset_end = end
        if not self._has_checked_log_starts:
            self._has_checked_log_starts = True
            self._check_log_starts(begins, end)
        ranges = []
        for where in sorted(end):
            if begins[where] > end[where]:
                self._check_ran_backwards(where, begins[where], end[where])
            elif begins[where] < end[where]:
                ranges.append(OffsetRange(*where, begins[where], end[where]))
        return ranges

    def _check_start_is_known(self, start: Offsets) -> None:
        """The first batch was not finished before a restart: Spark knows where it was to end, and
        where it began we have just looked up, which may be later."""
        if self._has_offered or start != self._initial or not self._at_end:
            return
        if self._options.start_group is not None:  # what was kept now is the wrong one
            kept_start.forget(self._lookup, self._options.start_group)
        raise TidelogError(
            "the first batch of this query was cut short, and where it began is not known: "
            f"{told(self._at_end)} started at latest, which is later now",
            "start with a new checkpoint, and with a sourceId, under which the start is kept",
        )

    def _check_ran_backwards(self, where: TopicPartition, start: int, end: int) -> None:
        log_end = self._lookup.ends([where])[where]
        if log_end >= start:
            raise TidelogError(
                f"the batch of {told([where])} is from {start} to {end}, which is backwards",
                "start with a new checkpoint: this one does not belong to this query",
            )
        self._lost(f"{told([where])} was read to {start}, and ends at {log_end} now")

    def _check_log_starts(self, begins: Offsets, end: Offsets) -> None:
        """Once, because a query may have been away for long; after that the tasks see it."""
        there = [where for where in end if begins[where] < end[where]]
        there = [where for where in there if where in self._seen.partitions]
        for where, first in self._lookup.log_starts(there).items():
            if begins[where] < first:
                self._lost(
                    f"{told([where])} was read to {begins[where]}, and begins at {first} now"
                )
                begins[where] = min(first, end[where])

    # ---- what was done ----

    def finished(self, end: Offsets) -> None:
        """The batch that ends there is done, and so are all before it."""
        try:
            if not self._is_first_batch_done and self._options.start_group is not None:
                kept_start.forget(self._lookup, self._options.start_group)
            self._is_first_batch_done = True
            if self._options.commits_offsets:
                assert self._options.stable_id is not None, self._options
                self._lookup.commit(self._options.stable_id, end)
        except TidelogError as error:  # the checkpoint is what counts; this is for onlookers
            LOGGER.warning("what was read is not committed to the group: %s", error)

    # ---- what the cluster says ----

    def _lost(self, what: str) -> None:
        accept_or_fail(what, fail=self._options.fail_on_data_loss)

    def _look(self) -> None:
        """Which partitions there are. Those of a topic that is still the same never go, whatever
        a broker says that lags behind."""
        now_ms = self._clock_ms()
        if now_ms - self._asked_seen_ms < self._options.lookups.metadata_ttl_ms:
            return
        seen = self._lookup.seen()
        before = self._seen
        self._asked_seen_ms = now_ms
        same = {name for name, each in seen.topic_ids.items() if before.topic_ids.get(name) == each}
        kept = (each for each in before.partitions if each[0] in same)
        self._seen = seen._replace(partitions=seen.partitions.union(kept))
        for name, topic_id in seen.topic_ids.items():
            self._known_ids.setdefault(name, topic_id)

    def _find_resets(self, start: Offsets) -> None:
        """Topics that were deleted and made again since they were read."""
        for name, topic_id in self._seen.topic_ids.items():
            if self._known_ids[name] == topic_id:
                continue
            read = [where for where in start if where[0] == name and where in self._seen.partitions]
            if read:
                self._lost(f"the topic {name} was deleted and made again since it was read")
                for where, first in self._lookup.log_starts(read).items():
                    self._resets[where] = _Reset(start[where], first)
            self._known_ids[name] = topic_id
            self._asked_ends_ms = NEVER_MS

    def _current_ends(self) -> Offsets:
        now_ms = self._clock_ms()
        if (
            now_ms - self._asked_ends_ms >= ENDS_GOOD_FOR_MS
            or self._ends.keys() != self._seen.partitions
        ):
            try:
                self._ends = self._lookup.ends(self._seen.partitions)
            except NoSuchPartition:  # deleted since partitions were asked for
                self._asked_seen_ms = NEVER_MS
                self._look()
                self._ends = self._lookup.ends(self._seen.partitions)
            self._asked_ends_ms = now_ms
        return self._ends

    def _sizes(self) -> dict[TopicPartition, float]:
        now_ms = self._clock_ms()
        partitions = self._seen.partitions
        is_old = now_ms - self._asked_sizes_ms >= SIZES_GOOD_FOR_MS
        if is_old or not self._offset_bytes.keys() >= partitions:
            self._offset_bytes = self._lookup.offset_bytes(self._lookup.bounds(partitions))
            self._asked_sizes_ms = now_ms
        return self._offset_bytes
