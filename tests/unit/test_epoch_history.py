"""The epoch history against a slow, obvious one, and reconciliation that must end."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.replication import reads
from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.replication.follower import truncation_offset
from tidelog.core.types import NO_EPOCH, UNDEFINED_EPOCH_END, EpochEnd


def history(*entries: tuple[int, int]) -> EpochHistory:
    return EpochHistory(entries)


def test_an_empty_history_knows_nothing() -> None:
    empty = history()
    assert empty.latest_epoch == NO_EPOCH
    assert empty.end_offset_for(0, 0) == UNDEFINED_EPOCH_END
    assert empty.end_offset_for(NO_EPOCH, 5) == UNDEFINED_EPOCH_END
    assert empty.epoch_at(0) == NO_EPOCH
    assert not empty.truncate_from_end(0)
    assert not empty.truncate_from_start(10)


def test_the_first_batch_of_an_epoch_enters_it_and_the_next_ones_do_not() -> None:
    epochs = history()
    assert epochs.assign(3, 10)
    assert not epochs.assign(3, 11)
    assert not epochs.assign(3, 10)
    assert epochs.assign(4, 12)
    assert epochs.entries == [(3, 10), (4, 12)]


def test_an_epoch_that_wrote_nothing_gives_way_to_the_next_at_the_same_offset() -> None:
    epochs = history((0, 0), (1, 10))
    assert epochs.assign(2, 10)
    assert epochs.entries == [(0, 0), (2, 10)]


def test_assigning_into_the_past_drops_what_contradicts_it() -> None:
    epochs = history((0, 0), (2, 10), (5, 20))
    assert epochs.assign(3, 15)
    assert epochs.entries == [(0, 0), (2, 10), (3, 15)]
    assert epochs.assign(3, 5)
    assert epochs.entries == [(0, 0), (3, 5)]


def test_where_epochs_end() -> None:
    epochs = history((1, 5), (3, 10), (6, 18))
    assert epochs.end_offset_for(6, 25) == EpochEnd(6, 25)
    assert epochs.end_offset_for(7, 25) == UNDEFINED_EPOCH_END
    assert epochs.end_offset_for(5, 25) == EpochEnd(3, 18)
    assert epochs.end_offset_for(3, 25) == EpochEnd(3, 18)
    assert epochs.end_offset_for(2, 25) == EpochEnd(1, 10)
    assert epochs.end_offset_for(0, 25) == EpochEnd(0, 5)  # before anything known


def test_truncation_at_the_end_also_forgets_an_epoch_without_records() -> None:
    epochs = history((0, 0), (1, 10))
    assert epochs.truncate_from_end(10)
    assert epochs.entries == [(0, 0)]
    assert not epochs.truncate_from_end(10)


def test_truncation_at_the_start_keeps_the_epoch_of_the_first_kept_record() -> None:
    epochs = history((0, 0), (1, 10), (2, 20))
    assert not epochs.truncate_from_start(0)
    assert epochs.truncate_from_start(15)
    assert epochs.entries == [(1, 15), (2, 20)]
    assert epochs.truncate_from_start(20)
    assert epochs.entries == [(2, 20)]
    assert epochs.truncate_from_start(30)
    assert epochs.entries == [(2, 30)]


# ---- the slow one: a log is the list of its records' epochs ----


def slow_end_offset_for(epochs_of_records: list[int], epoch: int) -> EpochEnd:
    """For a log in which the latest epoch has at least one record."""
    if not epochs_of_records or epoch == NO_EPOCH or epoch > epochs_of_records[-1]:
        return UNDEFINED_EPOCH_END
    not_above = [known for known in epochs_of_records if known <= epoch]
    return EpochEnd(not_above[-1] if not_above else epoch, len(not_above))


logs_of_epochs = st.lists(st.integers(0, 12), max_size=30).map(sorted)


def follow(epochs_of_records: list[int]) -> EpochHistory:
    followed = EpochHistory()
    for offset, epoch in enumerate(epochs_of_records):
        followed.assign(epoch, offset)
    return followed


@given(logs_of_epochs, st.integers(NO_EPOCH, 14))
def test_epoch_ends_agree_with_counting_records(log: list[int], epoch: int) -> None:
    assert follow(log).end_offset_for(epoch, len(log)) == slow_end_offset_for(log, epoch)


@given(logs_of_epochs, st.integers(0, 32))
def test_truncating_the_end_is_following_the_shorter_log(log: list[int], offset: int) -> None:
    epochs = follow(log)
    before = list(epochs.entries)
    changed = epochs.truncate_from_end(offset)
    assert epochs.entries == follow(log[:offset]).entries
    assert changed == (epochs.entries != before)


@given(logs_of_epochs, st.data())
def test_truncating_the_start_keeps_every_record_in_its_epoch(
    log: list[int], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, max(0, len(log) - 1)))
    epochs = follow(log)
    epochs.truncate_from_start(start)
    for offset in range(start, len(log)):
        assert epochs.epoch_at(offset) == log[offset]
    assert not log or epochs.epoch_at(start - 1) == NO_EPOCH


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=20))
def test_epochs_and_offsets_both_increase_whatever_is_assigned(
    assigned: list[tuple[int, int]],
) -> None:
    epochs = EpochHistory()
    for epoch, offset in assigned:
        before = list(epochs.entries)
        assert epochs.assign(epoch, offset) == (epochs.entries != before)
        pairs = list(zip(epochs.entries, epochs.entries[1:], strict=False))
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairs)


# ---- reconciliation between logs that any history of elections can leave behind ----


class Copy:
    """A log as (epoch, unique number) per record, and its epoch history."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int]] = []
        self.epochs = EpochHistory()

    def truncate_to(self, offset: int) -> None:
        del self.records[offset:]
        self.epochs.truncate_from_end(len(self.records))


def reconcile(leader: Copy, follower: Copy) -> int:
    """Ask and cut until the leader accepts the position. The number of cuts."""
    for rounds in range(1000):
        end = len(follower.records)
        last_epoch = follower.epochs.latest_epoch
        if last_epoch == NO_EPOCH:
            assert end == 0
            return rounds
        answer = leader.epochs.end_offset_for(last_epoch, len(leader.records))
        assert answer != UNDEFINED_EPOCH_END, "a leader knows a later epoch than any follower"
        if not reads.diverges(answer, last_epoch, end):
            return rounds
        entries = list(follower.epochs.entries)
        follower.truncate_to(truncation_offset(follower.epochs, end, answer))
        assert (len(follower.records), follower.epochs.entries) != (end, entries), "no progress"
    raise AssertionError("reconciliation does not end")


steps = st.lists(
    st.tuples(st.sampled_from(["elect", "append", "copy"]), st.integers(0, 3), st.integers(1, 5)),
    max_size=60,
)


@given(steps)
def test_reconciliation_ends_and_leaves_a_prefix_of_the_leaders_log(
    history_of_cluster: list[tuple[str, int, int]],
) -> None:
    """Any replica may be elected at any time here, so the logs differ as much as they can."""
    copies = [Copy() for _ in range(4)]
    leader, epoch, unique = 0, 0, 0
    copies[0].epochs.assign(0, 0)
    for step, replica, count in history_of_cluster:
        if step == "elect":
            leader, epoch = replica, epoch + 1
            copies[leader].epochs.assign(epoch, len(copies[leader].records))
        elif step == "append":
            for _ in range(count):
                unique += 1
                copies[leader].records.append((epoch, unique))
        elif replica != leader:
            follower, source = copies[replica], copies[leader]
            known_epochs = len(follower.epochs.entries)
            assert reconcile(source, follower) <= known_epochs
            end = len(follower.records)
            assert follower.records == source.records[:end]
            for offset, entry in enumerate(source.records[end : end + count], end):
                follower.records.append(entry)
                follower.epochs.assign(entry[0], offset)
