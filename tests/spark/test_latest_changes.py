"""Which change of a key counts: the vectorised answer beside a slow and obvious one."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidelog.spark.changes import latest, words
from tidelog.spark.changes.latest import DELETED, LIVE, NONE, REMOVED, UNCHANGED, WRITTEN

COLUMNS = pa.schema(
    [
        (words.IDENTITY, pa.binary()),
        (words.KIND, pa.string()),
        (words.POSITION, pa.string()),
        (words.PARTITION, pa.int32()),
        (words.OFFSET, pa.int64()),
    ]
)


class OneByOne:
    """The rules, one record after the other."""

    def __init__(self):
        self.rows = {}
        self.deleted = {}
        self.before = {}
        self.floor = ("", -1, -1)

    def follow(self, key, kind, position, offset):
        if kind == words.TRUNCATE:
            self.floor = max(self.floor, (position, 0, offset))
            self.rows = {name: place for name, place in self.rows.items() if place >= self.floor}
            return
        if position is None:
            position = self.before.get(key)
            if position is None:
                return  # nothing came before it, so there is nothing that it ends
        self.before[key] = position
        place = (position, 0, offset)
        known = max(self.rows.get(key, self.floor), self.deleted.get(key, self.floor))
        if place <= max(known, self.floor):
            return
        if kind == words.PUT:
            self.deleted.pop(key, None)
            self.rows[key] = place
        else:
            self.rows.pop(key, None)
            self.deleted[key] = place


class InBatches:
    """The same through `last_of` and `decide`, with the state that a table would have."""

    def __init__(self):
        self.rows = {}
        self.deleted = {}
        self.passed = set()
        self.floor = ("", -1, -1)

    def follow(self, events):
        whole = [each for each in events if each[1] == words.TRUNCATE]
        self.floor = max([self.floor, *((each[2], 0, each[3]) for each in whole)])
        rest = [each for each in events if each[1] != words.TRUNCATE]
        rows = [(key, kind, position, 0, offset) for key, kind, position, offset in rest]
        columns = zip(*rows, strict=True) if rows else [[]] * 5
        table = pa.Table.from_arrays(
            [
                pa.array(list(each), field.type)
                for each, field in zip(columns, COLUMNS, strict=True)
            ],
            schema=COLUMNS,
        )
        last = latest.last_of(table)
        keys = last.identity.to_pylist()
        floor = places([self.floor] * len(keys))
        decision = latest.decide(last, self.state(keys), floor)
        self.rows = {name: place for name, place in self.rows.items() if place >= self.floor}
        for at, key in enumerate(keys):
            place = (decision.place.position[at], 0, int(decision.place.offset[at]))
            if decision.outcome[at] != UNCHANGED:
                self.rows.pop(key, None)
                self.deleted.pop(key, None)
            if decision.outcome[at] == WRITTEN:
                assert rows[last.row[at]][1] == words.PUT
                self.rows[key] = place
            elif decision.outcome[at] == REMOVED:
                self.deleted[key] = place
            self.passed -= {key}
            if decision.passed[at]:
                self.passed |= {key}

    def state(self, keys):
        kinds = [
            LIVE if key in self.rows else DELETED if key in self.deleted else NONE for key in keys
        ]
        nothing = ("", -1, -1)
        known = [self.rows.get(key, self.deleted.get(key, nothing)) for key in keys]
        passed = np.array([key in self.passed for key in keys], dtype=bool)
        return latest.State(np.array(kinds, dtype=np.int64), places(known), passed)


def places(known):
    made = latest.nowhere(len(known))
    for at, each in enumerate(known):
        made.position[at], made.partition[at], made.offset[at] = each
    return made


KEYS = st.sampled_from([b"a", b"b"])
POSITIONS = st.sampled_from(["1", "2", "3", "4"])
EVENTS = st.one_of(
    st.tuples(KEYS, st.sampled_from([words.PUT, words.DELETE]), POSITIONS),
    st.tuples(KEYS, st.just(words.TOMBSTONE), st.none()),
    st.tuples(st.just(b""), st.just(words.TRUNCATE), POSITIONS),
)


def put(key, position):
    return (key, words.PUT, position)


def delete(key, position):
    return (key, words.DELETE, position)


TOMBSTONE = (b"a", words.TOMBSTONE, None)
LATE_DELETE = [[put(b"a", "3")], [delete(b"a", "2")], [TOMBSTONE]]
LATE_DELETE_AND_TOMBSTONE = [[put(b"a", "3")], [delete(b"a", "2"), TOMBSTONE]]
LATE_WITHIN = [[put(b"a", "3"), delete(b"a", "2")], [TOMBSTONE]]
LATE_PUT = [[put(b"a", "3")], [put(b"a", "2")], [TOMBSTONE]]
LOST_DELETE = [[put(b"a", "3")], [TOMBSTONE], [put(b"a", "2")]]
BACK_AGAIN = [[put(b"a", "1")], [TOMBSTONE, put(b"a", "2")], [delete(b"a", "1")], [TOMBSTONE]]
EMPTIED = [[put(b"a", "1"), put(b"b", "3")], [(b"", words.TRUNCATE, "2")], [put(b"a", "1")]]
EMPTIED_WITHIN = [[put(b"a", "1"), (b"", words.TRUNCATE, "2"), put(b"b", "3")]]


@given(st.lists(st.lists(EVENTS, max_size=4), max_size=10))
@example(LATE_DELETE)
@example(LATE_DELETE_AND_TOMBSTONE)
@example(LATE_WITHIN)
@example(LATE_PUT)
@example(LOST_DELETE)
@example(BACK_AGAIN)
@example(EMPTIED)
def test_however_a_log_is_cut_into_batches_the_rows_are_those_of_one_record_after_the_other(
    batches,
):
    slow, quick = OneByOne(), InBatches()
    offset = 0
    for batch in batches:
        log = [(*event, offset + at) for at, event in enumerate(batch)]
        offset += len(batch)
        for event in log:
            slow.follow(*event)
        quick.follow(log)
        assert quick.rows == slow.rows


@pytest.mark.parametrize(
    ("batches", "left"),
    [
        (LATE_DELETE, {b"a": "3"}),
        (LATE_DELETE_AND_TOMBSTONE, {b"a": "3"}),
        (LATE_WITHIN, {b"a": "3"}),
        (LATE_PUT, {b"a": "3"}),
        (LOST_DELETE, {}),
        (BACK_AGAIN, {b"a": "2"}),
        (EMPTIED, {b"b": "3"}),
        (EMPTIED_WITHIN, {b"b": "3"}),
    ],
)
def test_late_changes_and_tombstones_do_what_they_say(batches, left):
    quick, offset = InBatches(), 0
    for batch in batches:
        quick.follow([(*event, offset + at) for at, event in enumerate(batch)])
        offset += len(batch)
    assert {key: place[0] for key, place in quick.rows.items()} == left


@given(st.lists(EVENTS, max_size=25), st.integers(0, 25), st.integers(0, 25))
def test_a_batch_that_comes_again_changes_nothing(events, start, end):
    log = [(*event, offset) for offset, event in enumerate(events)]
    quick = InBatches()
    quick.follow(log[:end])
    before = dict(quick.rows)
    again = [each for each in log[min(start, end) : end] if each[1] != words.TOMBSTONE]
    quick.follow(again)
    assert quick.rows == before


@given(st.lists(EVENTS.filter(lambda each: each[2] is not None), max_size=12), st.randoms())
def test_the_order_in_which_changes_arrive_does_not_matter(events, chance):
    """Where each says where it stands, and no two of them stand at the same place."""
    log = [(key, kind, f"{at:03}", 0) for at, (key, kind, _) in enumerate(events)]
    shuffled = [(*each[:3], offset) for offset, each in enumerate(chance.sample(log, len(log)))]
    quick, slow = InBatches(), InBatches()
    for each in shuffled:
        quick.follow([each])
    slow.follow([(*each[:3], offset) for offset, each in enumerate(log)])
    assert {key: place[0] for key, place in quick.rows.items()} == {
        key: place[0] for key, place in slow.rows.items()
    }
