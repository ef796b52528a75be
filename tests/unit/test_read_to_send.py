"""What a log lets be sent from its files: only what is certainly as it was appended."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from support.batches import batch, offsets
from support.page_cache import evict, flip_on_disk, require_a_system_that_tells
from tidelog.host.disk import FileDisk
from tidelog.storage import CorruptSegment, Log, LogConfig
from tidelog.storage.log import Run

END = 1 << 62
SEGMENT = "t-0/00000000000000000000.log"
BATCH_BYTES = 20_000
WANTED_BYTES = 200_000
PAGES_BYTES = 5 * 4096
OVERHEAD_BYTES = 89
"""Of a batch with one more record of ten bytes."""


@pytest.fixture
def disk(tmp_path: Path) -> FileDisk:
    require_a_system_that_tells(tmp_path)
    disk = FileDisk(tmp_path)
    disk.make_dir("t-0")
    return disk


def opened(disk: FileDisk, *, recovery_point: int = 0, clean: bool = False) -> Log:
    return Log.open(disk, "t-0", LogConfig(), recovery_point=recovery_point, clean_shutdown=clean)


def append(log: Log, count: int, epoch: int = 0) -> None:
    """Batches of two records each, no two alike."""
    for _ in range(count):
        value = random.Random(log.log_end_offset * 1000 + epoch).randbytes(BATCH_BYTES // 2)
        log.append_as_leader(batch(value, value[::-1]), epoch)


def content(run: Run) -> bytes:
    return bytes(run) if isinstance(run, memoryview) else run.read()


def is_from_file(run: Run) -> bool:
    return not isinstance(run, memoryview)


def next_of(run: Run) -> int:
    return offsets([memoryview(content(run))])[-1][1] + 1


def read_through(log: Log, *, expect_from_file: bool) -> int:
    """From the beginning to the end, as a consumer does; how many runs came from the file. The
    place of an offset is not known before the first read."""
    offset, from_file, others = 0, 0, 0
    while offset < log.log_end_offset:
        run = log.read_to_send(offset, END, WANTED_BYTES)
        (checked,) = log.read(offset, next_of(run), END)
        assert content(run) == bytes(checked), f"at {offset}"
        assert len(run) <= WANTED_BYTES
        from_file += is_from_file(run)
        others += not is_from_file(run) and len(run) > WANTED_BYTES // 2
        offset = next_of(run)
    assert (from_file > 0) is expect_from_file
    assert not expect_from_file or others <= 1, "only the first may have been looked for"
    return from_file


def test_what_was_appended_is_sent_from_the_file_in_whole_batches(disk: FileDisk) -> None:
    log = opened(disk)
    append(log, 60)
    assert read_through(log, expect_from_file=True) >= 5
    log.roll()
    append(log, 20)
    assert read_through(log, expect_from_file=True) >= 7, "in every segment"


def test_nothing_above_the_limit_is_sent(disk: FileDisk) -> None:
    log = opened(disk)
    append(log, 30)
    log.read(0, END, WANTED_BYTES)
    for to_offset in range(1, 61):
        run = log.read_to_send(0, to_offset, WANTED_BYTES)
        assert not len(run) if to_offset < 2 else next_of(run) <= to_offset
    assert is_from_file(log.read_to_send(0, 60, WANTED_BYTES))


def test_what_is_small_is_read(disk: FileDisk) -> None:
    log = opened(disk)
    append(log, 30)
    assert len(log.read(0, END, 1)) == 1
    assert not is_from_file(log.read_to_send(0, END, 60_000))
    assert not is_from_file(log.read_to_send(56, END, END)), "little is left"


def test_a_batch_that_is_larger_than_what_is_wanted_is_read_whole(disk: FileDisk) -> None:
    log = opened(disk)
    log.append_as_leader(batch(bytes(300_000)), 0)
    append(log, 10)
    for _ in range(2):
        run = log.read_to_send(0, END, 100_000)
        assert not is_from_file(run)
        assert next_of(run) == 1


@pytest.mark.parametrize("clean", [False, True])
def test_what_a_former_process_wrote_is_read_and_checked(disk: FileDisk, clean: bool) -> None:
    log = opened(disk)
    append(log, 30)
    log.sync()
    log.close()
    log = opened(disk, recovery_point=60 if clean else 0, clean=clean)
    assert read_through(log, expect_from_file=False) == 0
    append(log, 60)
    log.read(60, END, 1)
    assert is_from_file(log.read_to_send(60, END, WANTED_BYTES)), "this one wrote it"
    assert not is_from_file(log.read_to_send(0, END, WANTED_BYTES))


def test_a_bit_that_went_bad_on_the_disk_is_found_before_it_is_sent(
    disk: FileDisk, tmp_path: Path
) -> None:
    log = opened(disk)
    append(log, 60)
    read_through(log, expect_from_file=True)
    flip_on_disk(tmp_path / SEGMENT, 25 * BATCH_BYTES)
    offset = 0
    while offset < 48:
        run = log.read_to_send(offset, END, WANTED_BYTES)
        assert not is_from_file(run)
        offset = next_of(run)
    assert offset == 48, "up to the batch in front of it everything was there"
    with pytest.raises(CorruptSegment, match="the checksum does not match"):
        log.read_to_send(48, END, WANTED_BYTES)


def test_once_a_part_has_left_memory_all_of_the_segment_is_checked_again(
    disk: FileDisk, tmp_path: Path
) -> None:
    log = opened(disk)
    append(log, 60)
    read_through(log, expect_from_file=True)
    evict(tmp_path / SEGMENT, 3 * WANTED_BYTES, WANTED_BYTES)
    first = log.read_to_send(0, END, WANTED_BYTES)
    assert is_from_file(first), "this is still there"
    second = log.read_to_send(next_of(first), END, WANTED_BYTES)
    assert is_from_file(second), "and this"
    for offset in (next_of(second), 0, next_of(first)):
        assert not is_from_file(log.read_to_send(offset, END, 2 * WANTED_BYTES))
    assert read_through(log, expect_from_file=False) == 0, "all of it is there again"
    append(log, 20)
    log.read(120, END, 1)
    assert not is_from_file(log.read_to_send(120, END, WANTED_BYTES)), "the segment is given up"
    log.roll()
    append(log, 20)
    log.read(160, END, 1)
    assert is_from_file(log.read_to_send(160, END, WANTED_BYTES)), "the next one is not"


@pytest.mark.parametrize(
    "bring_back",
    [
        lambda log: log.read(0, END, 1),  # the kernel would read ahead of it
        lambda log: log.read(0, 2, 10**6),  # one batch of it is checked
        lambda log: list(log.segments[0].batches()),
        lambda log: list(log.segments[0].batches_from(10)),
        lambda log: log.offset_for_timestamp(1),
        lambda log: log.read(1, END, 1),  # its batch is looked for
    ],
)
def test_nothing_comes_back_to_memory_unseen(
    disk: FileDisk, tmp_path: Path, bring_back: Callable[[Log], object]
) -> None:
    log = opened(disk)
    append(log, 20)
    assert is_from_file(log.read_to_send(2, END, WANTED_BYTES)), "its place is known"
    evict(tmp_path / SEGMENT)
    bring_back(log)
    assert not is_from_file(log.read_to_send(2, END, WANTED_BYTES))


def test_where_a_run_ends_is_not_taken_from_a_page_that_went_bad(
    disk: FileDisk, tmp_path: Path
) -> None:
    log = opened(disk)
    for number in range(30):
        log.append_as_leader(batch(bytes(PAGES_BYTES - OVERHEAD_BYTES), b"%10d" % number), 0)
    assert log.segments[0].size == 30 * PAGES_BYTES, "a batch begins with a page"
    run = log.read_to_send(0, END, WANTED_BYTES)
    assert is_from_file(run)
    assert next_of(run) == 18
    # Offset 18 becomes 2: as if all that lies before it were below a limit of 4.
    flip_on_disk(tmp_path / SEGMENT, len(run) + 7, bit=4, size_bytes=PAGES_BYTES)
    assert next_of(log.read_to_send(0, 4, WANTED_BYTES)) == 4


def test_what_follows_a_cut_is_ours(disk: FileDisk) -> None:
    log = opened(disk)
    append(log, 30)
    log.sync()
    log.close()
    log = opened(disk)
    log.truncate_to(40)
    append(log, 20)
    assert not is_from_file(log.read_to_send(38, END, WANTED_BYTES))
    assert is_from_file(log.read_to_send(40, END, WANTED_BYTES))


def test_what_took_the_place_of_what_was_cut_is_what_is_sent(disk: FileDisk) -> None:
    log = opened(disk)
    append(log, 40)
    read_through(log, expect_from_file=True)
    log.truncate_to(30)
    append(log, 40, epoch=1)
    read_through(log, expect_from_file=True)


def test_a_compacted_log_is_read(disk: FileDisk) -> None:
    log = opened(disk)
    append(log, 40)
    log.allow_gaps()
    log.roll()
    append(log, 40)
    assert read_through(log, expect_from_file=False) == 0


def test_whatever_was_done_to_a_log_what_is_sent_is_what_is_read(
    disk: FileDisk, tmp_path: Path
) -> None:
    chance = random.Random(4711)
    log, from_file = opened(disk), 0
    for _ in range(300):
        what = chance.choice(("append", "append", "cut", "evict", "read", "read", "read", "roll"))
        if what == "append":
            append(log, chance.randint(1, 30), epoch=log.epochs.latest_epoch + chance.randint(0, 1))
        elif what == "cut" and log.log_end_offset:
            log.truncate_to(chance.randrange(log.log_end_offset // 2, log.log_end_offset) & ~1)
        elif what == "evict":
            path = chance.choice(sorted(tmp_path.glob("t-0/*.log")))
            evict(path, chance.randrange(1 << 20) & ~4095, chance.randrange(1 << 20))
        elif what == "roll":
            log.roll()
        else:
            offset = chance.randrange(log.log_end_offset + 1) & ~1
            for _ in range(4):
                run = log.read_to_send(offset, END, chance.randint(1, 2 * WANTED_BYTES))
                if not len(run):
                    break
                (checked,) = log.read(offset, next_of(run), END)
                assert content(run) == bytes(checked)
                from_file += is_from_file(run)
                offset = next_of(run)
    assert from_file > 20
