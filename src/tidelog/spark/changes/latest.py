"""Which change of a key is the last one, and what it does to the row that is there.

Changes are ordered by their position at the source, then by partition and offset. A change that
stands before the row, or before its deletion, does nothing, however late it comes. That takes a
memory: keys that were deleted and where, and, since a tombstone does not say where it stands, keys
whose last change came too late (PASSED), so that the tombstone after it is not taken for news.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.spark.changes import words
from tidelog.spark.changes.words import IDENTITY, KIND, OFFSET, PARTITION, POSITION

NONE, LIVE, DELETED = 0, 1, 2
UNCHANGED, WRITTEN, REMOVED = 0, 1, 2

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Texts = npt.NDArray[np.object_]


class Places(NamedTuple):
    """Where changes stand, one by one. They compare by all three."""

    position: Texts
    partition: Ints
    offset: Ints

    def after(self, other: "Places") -> Flags:
        same = self.position == other.position
        within = (self.partition > other.partition) | (
            (self.partition == other.partition) & (self.offset > other.offset)
        )
        return np.asarray((self.position > other.position) | (same & within), dtype=np.bool_)

    def where(self, mask: Flags, other: "Places") -> "Places":
        """These, and the others where the mask says so."""
        return Places(
            np.where(mask, other.position, self.position),
            np.where(mask, other.partition, self.partition),
            np.where(mask, other.offset, self.offset),
        )

    def taken(self, rows: Ints) -> "Places":
        return Places(self.position[rows], self.partition[rows], self.offset[rows])

    def put(self, rows: Ints, others: "Places") -> None:
        for mine, given in zip(self, others, strict=True):
            mine[rows] = given


def nowhere(count: int) -> Places:
    """Before everything."""
    texts = np.full(count, "", dtype=object)
    return Places(texts, np.full(count, -1, np.int64), np.full(count, -1, np.int64))


def places_of(rows: pa.RecordBatch | pa.Table) -> Places:
    texts = rows[POSITION].to_numpy(zero_copy_only=False)
    texts = np.where(np.equal(texts, None), "", texts)  # type: ignore[call-overload]
    partition = rows[PARTITION].to_numpy(zero_copy_only=False).astype(np.int64)
    offset = rows[OFFSET].to_numpy(zero_copy_only=False).astype(np.int64)
    return Places(texts, partition, offset)


class Last(NamedTuple):
    """What a batch says of each key that it has."""

    identity: pa.BinaryArray
    has_change: Flags
    """Whether anything but a tombstone that does not say where it stands."""
    row: Ints
    """Of the change that stands last, among the changes given."""
    removes: Flags
    place: Places
    unplaced: Flags
    """Whether it begins with a tombstone that stands behind whatever came before this batch."""
    unplaced_at: Places
    ends_late: Flags
    """Whether the change that came last is not the one that stands last."""


class State(NamedTuple):
    """What is known of each of these keys before."""

    kind: Ints
    place: Places
    passed: Flags


class Decision(NamedTuple):
    """What becomes of each of these keys."""

    outcome: Ints
    place: Places
    """Of the deletion, where it was removed."""
    passed: Flags


def last_of(changes: pa.Table) -> Last:
    """Of changes that are good, without truncations."""
    codes = changes[IDENTITY].combine_chunks().dictionary_encode()
    key = codes.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    count = len(codes.dictionary)
    came = np.lexsort((*_come(changes), key))
    place, placed = _placed(changes, came, key)
    stands = np.lexsort((place.offset, place.partition, _ranks(place.position), placed, key))
    ends = np.searchsorted(key[stands], np.arange(count), side="right") - 1
    row = stands[ends]
    kind = changes[KIND].to_numpy(zero_copy_only=False)
    first = came[np.searchsorted(key[came], np.arange(count), side="left")]
    last = came[np.searchsorted(key[came], np.arange(count), side="right") - 1]
    unplaced = ~placed[first]
    return Last(
        codes.dictionary,
        placed[row],
        row,
        kind[row] != words.PUT,
        place.taken(row),
        unplaced,
        place.taken(_last_unplaced(key, came, placed, count)),
        placed[last] & (last != row),
    )


def _come(changes: pa.Table) -> tuple[Ints, Ints]:
    place = places_of(changes)
    return place.offset, place.partition


def _placed(changes: pa.Table, came: Ints, key: Ints) -> tuple[Places, Flags]:
    """A tombstone stands where the change of its key that came before it stands, just behind it."""
    given = pc.is_valid(changes[POSITION]).to_numpy(zero_copy_only=False)
    rows = np.arange(len(came))
    known = np.where(given[came], rows, -1)
    begins = np.maximum.accumulate(
        np.where(np.r_[True, key[came][1:] != key[came][:-1]], rows, 0) if len(rows) else rows
    )
    source = np.maximum.accumulate(known) if len(rows) else known
    found = source >= begins
    place = places_of(changes)
    texts = np.array(place.position, dtype=object)
    texts[came] = np.where(found, place.position[came[np.maximum(source, 0)]], "")
    placed = np.zeros(len(came), dtype=np.bool_)
    placed[came] = found
    return Places(texts, place.partition, place.offset), placed


def _ranks(texts: Texts) -> Ints:
    """Sorting numbers is quick, sorting objects is not."""
    return np.unique(texts.astype(str), return_inverse=True)[1].astype(np.int64)


def _last_unplaced(key: Ints, came: Ints, placed: Flags, count: int) -> Ints:
    """Of each key; whichever row where there is none."""
    found = np.zeros(count, dtype=np.int64)
    rows = came[~placed[came]]
    found[key[rows]] = rows
    return found


def decide(last: Last, state: State, floor: Places) -> Decision:
    """`floor` is where the topic of each key was truncated; what stands before it is no more."""
    kind, place = state.kind.copy(), state.place
    gone = (kind == LIVE) & floor.after(place)
    ends = last.unplaced & (kind == LIVE) & ~state.passed & ~gone
    at = Places(place.position, last.unplaced_at.partition, last.unplaced_at.offset)
    place = place.where(ends, at)
    known = (kind != NONE) & ~gone
    wins = last.has_change & (~known | last.place.after(place)) & last.place.after(floor)
    outcome = np.where(gone | ends, REMOVED, UNCHANGED)
    outcome = np.where(wins, np.where(last.removes, REMOVED, WRITTEN), outcome)
    place = place.where(gone, floor).where(wins, last.place)
    is_live = (outcome == WRITTEN) | ((outcome == UNCHANGED) & (kind == LIVE))
    late = np.where(last.has_change, ~wins | last.ends_late, state.passed)
    return Decision(outcome, place, is_live & np.asarray(late, dtype=np.bool_))
