"""Small workloads whose possible outcomes were listed by hand, and all of them are found."""

from collections.abc import Callable

import pytest

from tidelog.sim.crash_states import CrashLimits, CrashStates
from tidelog.sim.disk import SimDisk

Outcome = tuple[tuple[str, bytes], ...]


def outcomes(states: CrashStates, *, mark: object = None) -> set[Outcome]:
    """Every distinct content; with `mark`, only of crashes after it."""
    return {
        tuple(sorted(disk.files().items())) for disk in states if mark is None or mark in disk.marks
    }


def listed(*disks: dict[str, bytes]) -> set[Outcome]:
    return {tuple(sorted(disk.items())) for disk in disks}


def settled(**files: bytes) -> SimDisk:
    disk = SimDisk()
    for path, data in files.items():
        file = disk.open(path, create=True)
        file.write(0, data)
        file.sync()
    disk.sync_dir("")
    return disk


def replace(disk: SimDisk, *, sync: bool) -> None:
    """How a checkpoint is rewritten: a temporary file, then its rename over the old one."""
    file = disk.open("tmp", create=True)
    file.write(0, b"new")
    if sync:
        file.sync()
    file.close()
    disk.rename("tmp", "final")
    disk.sync_dir("")
    disk.mark("replaced")


def test_a_rename_before_its_data_leaves_an_empty_file() -> None:
    states = CrashStates(lambda disk: replace(disk, sync=False))
    assert outcomes(states) == listed(
        {},
        {"tmp": b""},
        {"tmp": b"new"},
        {"tmp": b"\0\0\0"},  # the size arrived, the data did not
        {"final": b"new"},
        {"final": b""},
        {"final": b"\0\0\0"},
    )
    assert outcomes(states, mark="replaced") == listed(
        {"final": b"new"}, {"final": b""}, {"final": b"\0\0\0"}
    )


def test_with_a_sync_before_the_rename_the_new_file_is_whole_or_not_there() -> None:
    states = CrashStates(lambda disk: replace(disk, sync=True))
    assert outcomes(states) == listed(
        {},
        {"tmp": b""},
        {"tmp": b"new"},
        {"tmp": b"\0\0\0"},
        {"final": b"new"},
    )
    assert outcomes(states, mark="replaced") == listed({"final": b"new"})


def test_replacing_with_sync_shows_the_old_or_the_new_file_and_nothing_else() -> None:
    states = CrashStates(lambda disk: replace(disk, sync=True), start=settled(final=b"old"))
    assert {dict(outcome)["final"] for outcome in outcomes(states)} == {b"old", b"new"}
    states = CrashStates(lambda disk: replace(disk, sync=False), start=settled(final=b"old"))
    finals = {dict(outcome)["final"] for outcome in outcomes(states)}
    assert finals == {b"old", b"new", b"", b"\0\0\0"}


def test_a_synced_file_without_a_synced_name_may_be_missing() -> None:
    def create(disk: SimDisk) -> None:
        file = disk.open("a", create=True)
        file.write(0, b"x")
        file.sync()
        disk.mark("synced")
        disk.sync_dir("")
        disk.mark("named")

    states = CrashStates(create)
    assert outcomes(states, mark="synced") == listed({}, {"a": b"x"})
    assert outcomes(states, mark="named") == listed({"a": b"x"})


def test_a_synced_directory_in_an_unsynced_one_may_be_missing() -> None:
    def create(disk: SimDisk) -> None:
        disk.make_dir("d")
        disk.open("d/a", create=True)
        disk.sync_dir("d")
        disk.mark("inner")
        disk.sync_dir("")
        disk.mark("outer")

    assert outcomes(CrashStates(create), mark="inner") == listed({}, {"d/a": b""})
    assert outcomes(CrashStates(create), mark="outer") == listed({"d/a": b""})


def test_writes_of_one_file_arrive_in_any_subset() -> None:
    def write_twice(disk: SimDisk) -> None:
        file = disk.open("a")
        file.write(0, b"1")
        file.write(1, b"2")

    states = CrashStates(write_twice, start=settled(a=b".."))
    contents = {dict(outcome)["a"] for outcome in outcomes(states)}
    assert contents == {b"..", b"1.", b".2", b"12"}


def test_an_append_may_be_torn_at_every_sector() -> None:
    def append(disk: SimDisk) -> None:
        disk.open("a").write(1000, b"n" * 600)

    old = b"o" * 1000
    states = CrashStates(append, start=settled(a=old))
    contents = {dict(outcome)["a"] for outcome in outcomes(states)}
    assert contents == {
        old,
        old + b"n" * 600,
        old + b"n" * 24,  # up to 1024
        old + b"n" * 536,  # up to 1536
        old + bytes(24) + b"n" * 576,  # from 1024
        old + bytes(536) + b"n" * 64,  # from 1536
        old + bytes(600),  # the size alone
    }
    coarse = CrashStates(append, start=settled(a=old), limits=CrashLimits(tear_bytes=4096))
    assert len(outcomes(coarse)) == 3


def test_a_removal_may_or_may_not_have_happened() -> None:
    def remove(disk: SimDisk) -> None:
        disk.remove("a")
        disk.mark("removed")
        disk.sync_dir("")
        disk.mark("gone")

    states = CrashStates(remove, start=settled(a=b"x"))
    assert outcomes(states, mark="removed") == listed({}, {"a": b"x"})
    assert outcomes(states, mark="gone") == listed({})


def test_a_truncation_and_a_write_after_it_may_part() -> None:
    def cut_and_append(disk: SimDisk) -> None:
        file = disk.open("a")
        file.truncate(1)
        file.write(1, b"N")

    states = CrashStates(cut_and_append, start=settled(a=b"oold"))
    contents = {dict(outcome)["a"] for outcome in outcomes(states)}
    assert contents == {b"oold", b"o", b"oN", b"oNld", b"o\0"}


def test_a_failed_sync_is_part_of_the_history() -> None:
    def trust_a_second_sync(disk: SimDisk) -> None:
        file = disk.open("a")
        file.write(0, b"new")
        disk.inject("sync")
        with pytest.raises(OSError, match="a"):
            file.sync()
        file.sync()
        disk.mark("believed")

    states = CrashStates(trust_a_second_sync, start=settled(a=b"old"))
    assert outcomes(states, mark="believed") == listed({"a": b"old"})


def write_pages(count: int) -> Callable[[SimDisk], None]:
    def workload(disk: SimDisk) -> None:
        file = disk.open("a")
        for page in range(count):
            file.write(page, b"x")
        disk.rename("a", "b")

    return workload


def test_up_to_twelve_pending_effects_every_subset_is_tried() -> None:
    states = CrashStates(write_pages(11), start=settled(a=b"." * 11))
    contents = {dict(outcome).get("b") for outcome in outcomes(states)}
    assert len(contents - {None}) == 2**11
    assert states.count == 2 * 2**11, "each content under each name, once"
    assert states.repeated > 0


def test_beyond_that_single_drops_suffix_drops_and_the_name_alone() -> None:
    count = 40
    states = CrashStates(write_pages(count), start=settled(a=b"." * count))
    contents = {dict(outcome).get("b") for outcome in outcomes(states)}
    full = b"x" * count
    wanted = {full, b"." * count}
    wanted |= {full[:page] + b"." + full[page + 1 :] for page in range(count)}
    wanted |= {b"x" * kept + b"." * (count - kept) for kept in range(count)}
    assert wanted <= contents
    assert states.count < 10_000


def test_a_smaller_limit_means_fewer_states_and_duplicates_can_be_kept() -> None:
    start = settled(a=b"." * 8)
    few = CrashStates(write_pages(8), start=start, limits=CrashLimits(max_subset_effects=3))
    all_ = CrashStates(write_pages(8), start=start)
    every = CrashStates(write_pages(8), start=start, limits=CrashLimits(distinct=False))
    assert outcomes(few) < outcomes(all_) == outcomes(every)
    assert few.count < all_.count < every.count
    assert all_.count + all_.repeated == every.count


def test_states_are_independent_disks_that_can_crash_again() -> None:
    for disk in CrashStates(lambda disk: replace(disk, sync=True), start=settled(final=b"old")):
        assert disk.pending() == []
        assert "effects" in disk.story
        before = disk.files()

        def append(disk: SimDisk) -> None:
            disk.open("final").write(3, b"!")

        after = outcomes(CrashStates(append, start=disk))
        assert disk.files() == before
        assert tuple(sorted(before.items())) in after


def test_the_workload_runs_once_and_does_not_touch_the_start() -> None:
    start = settled(final=b"old")
    runs = []

    def workload(disk: SimDisk) -> None:
        runs.append(1)
        replace(disk, sync=True)

    states = CrashStates(workload, start=start)
    assert len(list(states)) == states.count
    assert len(runs) == 1
    assert start.files() == {"final": b"old"}
