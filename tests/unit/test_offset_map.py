"""Translated offsets: never behind a record that was not read, and not far before it."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.spark.offset_map import ALIKE_AT_MOST, BEGINNING, Span, added, translated


class Copied:
    """A mirrored partition, record by record: the slow and obvious account of it."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.source_end = self.chance.randrange(50)
        self.target_end = self.chance.randrange(50)
        self.spans = ()
        self.pairs = []
        """Source and target offset of every record."""
        self.holes = 0

    def batch(self, *, holes):
        begin = self.source_end
        records = self.chance.randrange(1, 30)
        first_target, offsets = self.target_end, []
        for _ in range(records):
            if holes and self.chance.random() < 0.2:
                self.source_end += self.chance.randrange(1, 4)
            offsets.append(self.source_end)
            self.pairs.append((self.source_end, self.target_end))
            self.source_end += 1
            self.target_end += 1
        self.holes += self.source_end - begin - records
        if holes and self.chance.random() < 0.3:
            self.source_end += 1  # the marker of a transaction
        self.target_end += 1  # that of the mirror's
        self.spans = added(self.spans, Span(offsets[0], offsets[-1] + 1, first_target, records))

    def unread(self, offset):
        """Where the first record that was not read lies over there."""
        return next((there for here, there in self.pairs if here >= offset), self.target_end)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), batches=st.integers(1, 60), holes=st.booleans())
def test_a_translated_offset_skips_nothing_and_repeats_at_most_a_record_for_each_hole(
    seed, batches, holes
):
    copied = Copied(seed)
    for _ in range(batches):
        copied.batch(holes=holes)
    for offset in range(copied.spans[0].first, copied.source_end + 1):
        span = next((each for each in copied.spans if offset <= each.end), copied.spans[-1])
        found, right = translated(copied.spans, offset), copied.unread(offset)
        assert found <= right, f"{offset} became {found} and must not be behind {right}"
        again = sum(found <= there < right for _, there in copied.pairs)
        gaps = span.end - span.first - span.records
        assert again <= gaps + span.batches, (offset, found, right, span)


def test_an_offset_is_exact_where_nothing_is_missing():
    copied = Copied(4711)
    for _ in range(ALIKE_AT_MOST):
        copied.batch(holes=False)
    for offset in range(copied.spans[0].first, copied.source_end):
        found, right = translated(copied.spans, offset), copied.unread(offset)
        assert found <= right
        assert not [there for _, there in copied.pairs if found <= there < right], "nothing again"


def test_many_batches_need_few_spans():
    copied = Copied(1)
    for _ in range(2_000):
        copied.batch(holes=False)
    assert len(copied.spans) <= ALIKE_AT_MOST * 9
    assert [each.batches for each in copied.spans[-ALIKE_AT_MOST // 2 :]] == [1, 1, 1, 1]
    assert sum(each.batches for each in copied.spans) == 2_000


def test_what_was_copied_before_the_map_began_is_read_again():
    spans = added((), Span(100, 110, 40, 10))
    assert translated(spans, 99) == BEGINNING
    assert translated(spans, 100) == 40
    assert translated(spans, 500) == 50, "ahead of the copy"
    assert translated((), 7) is None


def test_a_topic_that_was_made_again_has_a_map_of_its_own():
    spans = added((), Span(100, 110, 40, 10))
    assert added(spans, Span(0, 5, 51, 5)) == (Span(0, 5, 51, 5),), "made again here"
    assert added(spans, Span(110, 115, 0, 5)) == (Span(110, 115, 0, 5),), "made again over there"
