"""The virtual disk: what processes see, what a crash leaves, what faults do."""

import errno
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.host.ports import Disk
from tidelog.sim.disk import CrashKind, SimDisk, choose_survivors, tear_borders, torn
from tidelog.sim.disk_state import Create, Extend, Rename, Write

calm = settings(deadline=None)


def put(disk: Disk, path: str, data: bytes, *, position: int = 0, sync: bool = False) -> None:
    file = disk.open(path, create=True)
    file.write(position, data)
    if sync:
        file.sync()
    file.close()


def settled(**files: bytes) -> SimDisk:
    """A disk on which these files are safe."""
    disk = SimDisk()
    for path, data in files.items():
        put(disk, path, data, sync=True)
    disk.sync_dir("")
    assert disk.pending() == []
    return disk


def lose_power(disk: SimDisk) -> dict[str, bytes]:
    return disk.after_power_loss([]).files()


def test_what_is_written_is_read_at_once_by_every_handle() -> None:
    disk = SimDisk()
    one = disk.open("a", create=True)
    two = disk.open("a")
    one.write(0, [b"he", bytearray(b"ll"), memoryview(b"o")])
    assert two.size() == 5
    assert two.read(1, 3) == b"ell"
    assert two.read(4, 100) == b"o"
    assert two.read(9, 1) == b""
    two.write(7, b"!")
    assert one.read(0, 100) == b"hello\0\0!"
    one.truncate(2)
    assert two.read(0, 100) == b"he"


def test_the_writer_may_reuse_its_buffer() -> None:
    disk = SimDisk()
    buffer = bytearray(b"first")
    put(disk, "a", buffer)
    buffer[:] = b"other"
    assert disk.files() == {"a": b"first"}


def test_an_open_file_outlives_its_name() -> None:
    disk = settled(a=b"kept")
    file = disk.open("a")
    disk.remove("a")
    assert not disk.exists("a")
    assert file.read(0, 4) == b"kept"
    file.write(0, b"more")
    disk.sync_dir("")
    assert disk.pending() == []


def test_directories_list_their_names_sorted_and_move_with_their_content() -> None:
    disk = SimDisk()
    disk.make_dir("logs/t-1")
    disk.make_dir("logs/t-0")
    put(disk, "logs/t-0/b", b"1")
    put(disk, "logs/t-0/a", b"2")
    assert disk.list("logs") == ["t-0", "t-1"]
    disk.rename("logs/t-0", "logs/t-0-deleted")
    assert disk.list("logs/t-0-deleted") == ["a", "b"]
    assert disk.open("logs/t-0-deleted/a").read(0, 1) == b"2"


@pytest.mark.parametrize(
    ("wrong", "number"),
    [
        (lambda disk: disk.open("none"), errno.ENOENT),
        (lambda disk: disk.open("none/file", create=True), errno.ENOENT),
        (lambda disk: disk.open("dir"), errno.EISDIR),
        (lambda disk: disk.list("none"), errno.ENOENT),
        (lambda disk: disk.list("file"), errno.ENOTDIR),
        (lambda disk: disk.make_dir("file/dir"), errno.ENOTDIR),
        (lambda disk: disk.rename("none", "x"), errno.ENOENT),
        (lambda disk: disk.rename("file", "dir"), errno.EISDIR),
        (lambda disk: disk.rename("dir", "file"), errno.ENOTDIR),
        (lambda disk: disk.rename("dir", "dir/below"), errno.EINVAL),
        (lambda disk: disk.remove("none"), errno.ENOENT),
        (lambda disk: disk.remove("dir"), errno.ENOTEMPTY),
        (lambda disk: disk.sync_dir("none"), errno.ENOENT),
    ],
)
def test_errors_are_those_of_an_operating_system_and_name_the_path(wrong, number: int) -> None:
    disk = SimDisk()
    put(disk, "file", b"")
    disk.make_dir("dir")
    put(disk, "dir/inner", b"")
    with pytest.raises(OSError, match=r"none|dir|file") as caught:
        wrong(disk)
    assert caught.value.errno == number
    assert caught.value.filename


def test_a_closed_file_cannot_be_used() -> None:
    file = SimDisk().open("a", create=True)
    file.close()
    with pytest.raises(OSError, match="a") as caught:
        file.write(0, b"x")
    assert caught.value.errno == errno.EBADF


def test_a_process_crash_keeps_everything_and_makes_nothing_durable() -> None:
    disk = settled(a=b"old")
    put(disk, "a", b"new")
    put(disk, "b", b"unsynced")
    after = disk.crash(CrashKind.PROCESS, random.Random(1).randrange)
    assert after.files() == {"a": b"new", "b": b"unsynced"}
    assert lose_power(after) == {"a": b"old"}
    put(after, "a", b"more")
    assert disk.files()["a"] == b"new", "the two disks share nothing"


def test_synced_data_of_a_new_file_is_lost_with_its_name() -> None:
    disk = SimDisk()
    put(disk, "a", b"data", sync=True)
    assert lose_power(disk) == {}
    disk.sync_dir("")
    assert lose_power(disk) == {"a": b"data"}


def test_a_name_may_last_without_data() -> None:
    disk = SimDisk()
    put(disk, "a", b"data")
    disk.sync_dir("")
    assert lose_power(disk) == {"a": b""}


def test_a_directory_that_was_not_synced_takes_all_of_its_content() -> None:
    disk = SimDisk()
    disk.make_dir("d")
    put(disk, "d/a", b"data", sync=True)
    disk.sync_dir("d")
    assert lose_power(disk) == {}
    disk.sync_dir("")
    assert lose_power(disk) == {"d/a": b"data"}


def test_each_pending_effect_can_be_the_only_survivor() -> None:
    disk = settled(a=b"....", b=b"B")
    file = disk.open("a")
    file.write(0, b"1")
    file.write(2, b"3")
    file.truncate(3)
    disk.rename("b", "c")
    first, third, cut, moved = disk.pending()
    only = {
        "first": disk.after_power_loss([first]).files(),
        "third": disk.after_power_loss([third]).files(),
        "cut": disk.after_power_loss([cut]).files(),
        "moved": disk.after_power_loss([moved]).files(),
    }
    assert only == {
        "first": {"a": b"1...", "b": b"B"},
        "third": {"a": b"..3.", "b": b"B"},
        "cut": {"a": b"...", "b": b"B"},
        "moved": {"a": b"....", "c": b"B"},
    }


def test_a_later_write_that_survives_alone_leaves_zeros_before_it() -> None:
    disk = settled(a=b"")
    file = disk.open("a")
    file.write(0, b"one")
    file.write(3, b"two")
    assert disk.after_power_loss(disk.pending()[1:]).files() == {"a": b"\0\0\0two"}


def test_a_rename_that_survives_without_the_creation_still_names_the_file() -> None:
    disk = SimDisk()
    put(disk, "tmp", b"x", sync=True)
    disk.rename("tmp", "final")
    created, renamed = disk.pending()
    assert type(created) is Create
    assert type(renamed) is Rename
    assert disk.after_power_loss([renamed]).files() == {"final": b"x"}
    assert disk.after_power_loss([created]).files() == {"tmp": b"x"}
    assert disk.after_power_loss([created, renamed]).files() == {"final": b"x"}


def test_a_rename_between_directories_lasts_with_the_targets_and_leaves_no_second_name() -> None:
    disk = SimDisk()
    disk.make_dir("from")
    disk.make_dir("to")
    disk.sync_dir("")
    put(disk, "from/a", b"x", sync=True)
    disk.rename("from/a", "to/b")
    disk.sync_dir("to")
    assert disk.pending() == []
    assert lose_power(disk) == {"to/b": b"x"}


def test_removing_and_creating_the_same_name_may_arrive_in_any_part() -> None:
    disk = settled(a=b"old")
    disk.remove("a")
    put(disk, "a", b"new", sync=True)
    removed, created = disk.pending()
    assert lose_power(disk) == {"a": b"old"}
    assert disk.after_power_loss([removed]).files() == {}
    assert disk.after_power_loss([created]).files() == {"a": b"new"}


def test_after_a_failed_sync_a_second_one_succeeds_and_saves_nothing() -> None:
    disk = settled(a=b"old")
    file = disk.open("a")
    file.write(0, b"new")
    disk.inject("sync")
    with pytest.raises(OSError, match="a"):
        file.sync()
    file.sync()
    assert file.read(0, 3) == b"new", "the page cache still shows it"
    assert disk.pending() == []
    assert lose_power(disk) == {"a": b"old"}


def test_a_full_disk_fails_from_the_nth_write_until_healed() -> None:
    disk = settled(a=b"")
    disk.inject("write", error=errno.ENOSPC, after=1, lasting=True, partial_bytes=2)
    file = disk.open("a")
    file.write(0, b"good")
    for _ in range(2):
        with pytest.raises(OSError, match="a") as caught:
            file.write(4, b"bad")
        assert caught.value.errno == errno.ENOSPC
    assert file.read(0, 9) == b"goodba", "a part of a failed write may be there"
    disk.heal()
    file.write(4, b"fine")
    assert file.read(0, 9) == b"goodfine"


def test_faults_can_be_aimed_at_a_file_or_a_directory() -> None:
    disk = SimDisk()
    disk.make_dir("d")
    put(disk, "d/a", b"1")
    put(disk, "b", b"2")
    disk.inject("read", path="d", lasting=True)
    disk.inject("rename", path="c")
    assert disk.open("b").read(0, 1) == b"2"
    with pytest.raises(OSError, match="d/a") as caught:
        disk.open("d/a").read(0, 1)
    assert caught.value.errno == errno.EIO
    with pytest.raises(OSError, match="c"):
        disk.rename("b", "c")
    disk.rename("b", "c")


def test_a_flipped_bit_is_seen_now_and_after_a_crash() -> None:
    disk = settled(a=b"abc")
    disk.flip_bit("a", 1, bit=0)
    assert disk.files() == lose_power(disk) == {"a": b"acc"}


def test_torn_writes_end_at_borders_of_sectors_of_the_file() -> None:
    write = Write(1, "a", 100, bytes(1500))
    assert list(tear_borders(write, 512)) == [512, 1024, 1536]
    assert list(tear_borders(write, 4096)) == []
    assert list(tear_borders(Write(1, "a", 512, bytes(512)), 512)) == []
    random_ = random.Random(3)
    parts = [torn(write, random_.randrange) for _ in range(200)]
    assert {type(part) for part in parts} == {Write, Extend}
    for part in parts:
        if type(part) is Write:
            start, stop = part.position, part.position + len(part.data)
            assert (start == 100) != (stop == 1600)
            assert (stop if start == 100 else start) in (512, 1024, 1536)
        else:
            assert part == Extend(1, "a", 1600)


def test_random_losses_reach_all_manners_and_repeat_with_the_seed() -> None:
    disk = settled(a=b"old")
    put(disk, "a", b"new")
    disk.rename("a", "b")
    reached = set()
    for seed in range(100):
        after = disk.crash(CrashKind.POWER_LOSS, random.Random(seed).randrange)
        again = disk.crash(CrashKind.POWER_LOSS, random.Random(seed).randrange)
        assert after.digest() == again.digest()
        reached.add(tuple(after.files().items()))
    assert {(("a", b"old"),), (("a", b"new"),), (("b", b"old"),), (("b", b"new"),)} == reached


def test_a_loss_says_in_words_what_arrived() -> None:
    disk = settled(a=b"old")
    put(disk, "a", b"new")
    assert "write a 0+3" in disk.after_power_loss(disk.pending()).story
    assert "nothing" in disk.after_power_loss([]).story


def test_the_trace_names_every_effect_in_order() -> None:
    disk = SimDisk(record=True)
    disk.make_dir("d")
    put(disk, "d/a", b"x", sync=True)
    disk.rename("d/a", "d/b")
    disk.sync_dir("d")
    disk.open("d/b").truncate(0)
    disk.remove("d/b")
    disk.mark("done")
    assert [type(effect).__name__ for effect in disk.trace or ()] == [
        "MakeDirectory", "Create", "Write", "SyncFile", "Rename", "SyncDirectory",
        "Truncate", "Remove", "Mark",
    ]  # fmt: skip


operations = st.lists(
    st.tuples(
        st.sampled_from(["write", "truncate", "sync", "rename", "remove", "sync_dir"]),
        st.sampled_from("abc"),
        st.sampled_from("abc"),
        st.integers(0, 1200),
        st.binary(max_size=700),
    ),
    max_size=25,
)


def perform(disk: SimDisk, operation: tuple[str, str, str, int, bytes]) -> None:
    kind, path, other, number, data = operation
    if kind == "write":
        put(disk, path, data, position=number)
    elif kind == "sync_dir":
        disk.sync_dir("")
    elif disk.exists(path):
        if kind == "truncate":
            disk.open(path).truncate(number)
        elif kind == "sync":
            disk.open(path).sync()
        elif kind == "rename":
            disk.rename(path, other)
        else:
            disk.remove(path)


@calm
@given(operations, st.randoms(use_true_random=False))
def test_what_was_synced_survives_every_crash(history, random_: random.Random) -> None:
    disk = SimDisk()
    for operation in history:
        perform(disk, operation)
    for name in disk.list(""):
        disk.open(name).sync()
    disk.sync_dir("")
    wanted = disk.files()
    assert disk.pending() == []
    assert disk.crash(CrashKind.POWER_LOSS, random_.randrange).files() == wanted
    assert disk.crash(CrashKind.PROCESS, random_.randrange).files() == wanted


@calm
@given(operations)
def test_if_all_pending_effects_arrive_the_disk_is_as_it_was_seen(history) -> None:
    disk = SimDisk(record=True)
    for operation in history:
        perform(disk, operation)
    assert disk.after_power_loss(disk.pending()).files() == disk.files()
    again = SimDisk()
    for effect in disk.trace or ():
        again.replay(effect)
    assert again.digest() == disk.digest()
    assert again.after_power_loss([]).digest() == disk.after_power_loss([]).digest()


@calm
@given(operations, st.randoms(use_true_random=False))
def test_survivors_are_a_part_of_what_was_pending_in_order(history, random_) -> None:
    disk = SimDisk()
    for operation in history:
        perform(disk, operation)
    pending = disk.pending()
    survivors = choose_survivors(pending, random_.randrange)
    assert len(survivors) <= len(pending)
    nodes = iter([effect.node for effect in pending])
    assert all(any(node == survivor.node for node in nodes) for survivor in survivors)
