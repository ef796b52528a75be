"""A compacted log that lost its first segment gets its beginning from another replica."""

from itertools import pairwise

from support.compacted_logs import END, NAME, Bench
from tidelog.sim.log_check import log_faults
from tidelog.storage.errors import MissingRecords
from tidelog.storage.mending import Fit
from tidelog.storage.prefix_restoring import PrefixRestoration, end_of_prefix, restored_base
from tidelog.wire.records import encode, iter_batches, read_header, rewrite

DAY_MS = 24 * 3_600_000
WIDE = b"." * 60
"""Two records of this size do not fit into one segment."""
FIRST = f"{NAME[0]}-{NAME[1]}/{0:020d}"


class Replicas:
    """Two that were told the same. `ours` loses its first segment; `theirs` is never cleaned."""

    def __init__(self) -> None:
        self.ours, self.theirs = (Bench(segment_bytes=200) for _ in range(2))

    def put(self, key: bytes, value: bytes | None) -> None:
        for bench in (self.ours, self.theirs):
            bench.put((key, value))

    def roll(self) -> None:
        for bench in (self.ours, self.theirs):
            bench.log.roll()

    def days_pass(self, days: int) -> None:
        for bench in (self.ours, self.theirs):
            bench.now_ms += days * DAY_MS

    def lose_the_first_segment(self) -> MissingRecords:
        ours = self.ours
        ours.log.allow_gaps()
        ours.directory.sync_dirty()
        ours.log.store_epochs()
        ours.directory.checkpoint_recovery_points()
        ours.directory.checkpoint_log_starts()
        for path in list(ours.disk.files()):
            if path.startswith(FIRST):
                ours.disk.remove(path)
        ours.open()
        error = ours.directory.refused[NAME]
        assert isinstance(error, MissingRecords)
        return error

    def restoration(self, error: MissingRecords) -> PrefixRestoration:
        clean_point = self.ours.directory.may_be_cleaned_to(NAME)
        assert clean_point is not None
        end = end_of_prefix(self.ours.disk, error, clean_point)
        assert end is not None
        return PrefixRestoration(self.ours.disk, error, end)

    def put_back(self, error: MissingRecords) -> PrefixRestoration:
        found = self.restoration(error)
        assert found.add(records_of(self.theirs)) is Fit.WHOLE
        found.prepare()
        found.finish()
        return found


def records_of(bench: Bench) -> bytes:
    found, position = b"", 0
    while runs := bench.log.read(position, END, 1 << 20):
        found += bytes(runs[0])
        position = [header.next_offset for _, header in iter_batches(runs[0])][-1]
    return found


def last_values(bench: Bench) -> dict[bytes | None, bytes | None]:
    newest = {key: value for _, key, value in bench.records()}
    return {key: value for key, value in newest.items() if value is not None}


def opened_again(bench: Bench) -> None:
    assert bench.directory.open_again(NAME) is None
    assert log_faults(bench.disk, bench.log, leftovers=True) == []


def test_a_log_that_was_never_cleaned_is_what_it_was() -> None:
    replicas = Replicas()
    for number in range(6):
        replicas.put(b"%d" % (number % 2), WIDE + b"%d" % number)
    before = replicas.ours.records()
    error = replicas.lose_the_first_segment()
    found = replicas.put_back(error)
    assert found.next_offset == error.end, "no more than the hole is fetched"
    opened_again(replicas.ours)
    assert replicas.ours.records() == before


def cleaned_further_than_the_hole() -> tuple[Replicas, MissingRecords]:
    """`a` was written and deleted. Our log has forgotten both, the other one has both."""
    replicas = Replicas()
    replicas.put(b"b", WIDE + b"1")
    replicas.put(b"a", WIDE + b"1")
    replicas.put(b"c", WIDE + b"1")
    replicas.put(b"a", None)
    replicas.put(b"d", WIDE + b"1")
    replicas.ours.compact()
    replicas.days_pass(2)
    replicas.put(b"e", WIDE + b"1")
    replicas.ours.compact()
    assert b"a" not in [key for _, key, _ in replicas.ours.records()], "both are forgotten"
    replicas.put(b"f", WIDE + b"1")
    error = replicas.lose_the_first_segment()
    assert error.end < replicas.ours.directory.clean_point(NAME)
    return replicas, error


def test_a_deleted_key_stays_deleted_though_the_other_replica_was_never_cleaned() -> None:
    replicas, error = cleaned_further_than_the_hole()
    found = replicas.put_back(error)
    assert found.next_offset >= replicas.ours.directory.clean_point(NAME)
    opened_again(replicas.ours)
    assert last_values(replicas.ours) == last_values(replicas.theirs)
    assert b"a" not in last_values(replicas.ours)
    for _ in range(2):  # the first pass dates the tombstone, the next one removes it
        replicas.days_pass(2)
        replicas.ours.put((b"g", WIDE))
        replicas.ours.compact()
    assert sorted(key or b"" for key in last_values(replicas.ours)) == [
        b"b", b"c", b"d", b"e", b"f", b"g"
    ]  # fmt: skip


def test_a_crash_while_it_takes_its_place_is_finished_by_the_next_start() -> None:
    replicas, error = cleaned_further_than_the_hole()
    ours = replicas.ours
    replicas.put_back(error)
    assert restored_base(ours.disk, f"{NAME[0]}-{NAME[1]}") == 0
    ours.open()  # the process that had put it back ended here
    assert ours.directory.refused == {}
    assert ours.directory.clean_point(NAME) == 0, "old values stand beside new ones"
    assert log_faults(ours.disk, ours.log, leftovers=True) == []
    assert last_values(ours) == last_values(replicas.theirs)


def test_a_crash_before_that_leaves_the_log_refused_as_it_was() -> None:
    replicas, error = cleaned_further_than_the_hole()
    ours = replicas.ours
    clean_point = ours.directory.clean_point(NAME)
    found = replicas.restoration(error)
    assert found.add(records_of(replicas.theirs)) is Fit.WHOLE
    found.prepare()
    ours.open()
    again = ours.directory.refused[NAME]
    assert isinstance(again, MissingRecords)
    assert (again.offset, again.end) == (error.offset, error.end)
    assert ours.directory.clean_point(NAME) == clean_point


def test_offsets_without_a_record_at_the_end_are_covered() -> None:
    """The other replica was cleaned by Kafka, which keeps no empty batches."""
    replicas, error = cleaned_further_than_the_hole()
    found = replicas.restoration(error)
    end = found.next_offset
    theirs = records_of(replicas.theirs)
    starts = [at for at, _ in iter_batches(theirs)]
    headers = [header for _, header in iter_batches(theirs)]
    clean_point = replicas.ours.directory.clean_point(NAME)
    gone = next(n for n, each in enumerate(headers) if each.next_offset == clean_point)
    assert found.add(theirs[: starts[gone]] + theirs[starts[gone + 1] :]) is Fit.WHOLE
    assert found.next_offset > end
    found.prepare()
    found.finish()
    opened_again(replicas.ours)
    assert replicas.ours.log.log_end_offset == headers[-1].next_offset


def test_many_records_are_written_piece_by_piece() -> None:
    replicas, error = cleaned_further_than_the_hole()
    found = replicas.restoration(error)
    theirs = records_of(replicas.theirs)
    places = [*(at for at, _ in iter_batches(theirs)), len(theirs)]
    fits = []
    for begin, end in pairwise(places):
        fits.append(found.add(theirs[begin:end]))
        if fits[-1] is Fit.WHOLE:
            break
        assert found.size_bytes > 0
        assert found.make_room()
        assert found.size_bytes == 0
    assert fits[-1] is Fit.WHOLE
    found.prepare()
    found.finish()
    opened_again(replicas.ours)
    assert last_values(replicas.ours) == last_values(replicas.theirs)


def test_records_that_were_not_there_are_not_taken() -> None:
    replicas, error = cleaned_further_than_the_hole()
    theirs = records_of(replicas.theirs)
    first = read_header(theirs, 0)
    flipped = bytearray(theirs)
    flipped[first.size_bytes - 1] ^= 1
    other_epoch = encode((), base_offset=0, leader_epoch=7, last_offset_delta=0)
    too_far = encode((), base_offset=0, leader_epoch=0, last_offset_delta=99)
    for foreign in (bytes(flipped), bytes(other_epoch), bytes(too_far), b"no batch at all" * 9):
        assert replicas.restoration(error).add(foreign) is Fit.FOREIGN
    emptied = bytes(rewrite(first, ()))
    assert replicas.restoration(error).add(emptied) is Fit.MORE, "it may be compacted"


def test_where_nothing_is_known_to_be_uncleaned_nothing_is_put_back() -> None:
    replicas, error = cleaned_further_than_the_hole()
    ours = replicas.ours
    assert end_of_prefix(ours.disk, error, 1_000) is None
    ours.disk.flip_bit("cleaner-offset-checkpoint", 0)
    ours.open()
    assert ours.directory.may_be_cleaned_to(NAME) is None
