"""Crash states of storage, and proof that the check of them can fail."""

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.host.ports import Buffer, Disk
from tidelog.sim.storage_proof import SECOND_CRASH, WORKLOADS, CrashReport, run_crash_states
from tidelog.storage import atomic_file, compaction_rules, recovery, swap
from tidelog.storage.compaction_rules import TransactionWalk
from tidelog.storage.errors import CorruptSegment
from tidelog.storage.guarded_disk import GuardedFile
from tidelog.storage.key_offsets import KeyOffsets
from tidelog.storage.log import Log
from tidelog.storage.retention import RetentionClock
from tidelog.storage.segment import INDEX_SUFFIXES, LOG_SUFFIX, Segment
from tidelog.wire.records import BatchHeader


@pytest.mark.parametrize("workload", [*WORKLOADS, SECOND_CRASH])
def test_every_crash_state_recovers(workload: str) -> None:
    report = run_crash_states(200, workloads=[workload])
    assert report.bad == []
    assert report.by_workload == {workload: report.states}
    assert report.states > 30


def test_the_states_are_the_same_every_time() -> None:
    one, other = (run_crash_states(50, workloads=["roll"]) for _ in range(2))
    assert one == other


def crc_not_checked(data: bytes, position: int, header: BatchHeader) -> bool:
    return True


def tail_zero_filled(segment: Segment, fault: CorruptSegment) -> None:
    segment.file.write(fault.position, bytes(segment.size - fault.position))
    segment.next_offset = fault.offset


def nothing_synced(log: Log) -> None:
    log._names_are_unsynced = False


def renamed_before_sync(disk: Disk, path: str, content: Buffer) -> None:
    temporary = path + ".tmp"
    file = disk.open(temporary, create=True)
    file.truncate(0)
    file.write(0, content)
    disk.rename(temporary, path)
    disk.sync_dir(atomic_file.parent_of(path))
    file.sync()
    file.close()


def sync_retried(file: GuardedFile) -> None:
    try:
        file._inner.sync()
    except OSError:
        file._inner.sync()


def wall_clock_believed(clock: RetentionClock, *, wall_ms: int, monotonic_ms: int) -> int:
    return wall_ms


def committed_before_sync(disk: Disk, directory: str, cleaned: Segment) -> None:
    cleaned.close()
    for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
        path = cleaned.path.removesuffix(LOG_SUFFIX + ".cleaned") + suffix
        disk.rename(path + ".cleaned", path + ".swap")
    disk.sync_dir(directory)


def swap_forgotten(disk: Disk, directory: str, base: int, names: list[str]) -> None:
    return


def newest_dropped(key: bytes, offset: int, keys: KeyOffsets) -> bool:
    return offset <= keys.newest(key)


def aborted_believed(walk: TransactionWalk, header: BatchHeader) -> bool:
    return False


@pytest.mark.parametrize(
    ("owner", "rule", "mutant", "workload", "words"),
    [
        (recovery, "is_intact", crc_not_checked, "append", "checksum"),
        (recovery, "cut_torn_tail", tail_zero_filled, "append", "byte"),
        (Log, "_make_durable", nothing_synced, "append", "was durable"),
        (atomic_file, "replace_file", renamed_before_sync, "format", "meta.properties"),
        (GuardedFile, "sync", sync_retried, "failed sync", "was durable"),
        (RetentionClock, "trusted_now", wall_clock_believed, "retention", "log start"),
        (swap, "commit_swap", committed_before_sync, "compact", "refused"),
        (recovery, "finish_swap", swap_forgotten, "compact", "was durable"),
        (compaction_rules, "is_superseded", newest_dropped, "compact", "newest value"),
        (TransactionWalk, "is_aborted", aborted_believed, "compact", "newest value"),
    ],
    ids=[
        *("M35", "M36", "M37", "M38", "M39", "M40"),
        "cleaned segment not synced",
        "swap not finished",
        "newest record dropped",
        "aborted record supersedes",
    ],
)
def test_a_broken_rule_is_found(
    *,
    owner: Any,
    rule: str,
    mutant: Callable[..., object],
    workload: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, rule, mutant)
    report = run_crash_states(workloads=[workload], stop_at_first=True)
    assert report.bad, f"{report.states} states and none of them bad"
    assert any(words in fault for fault in report.bad[0].faults), report.bad[0]


def test_a_report_names_the_workload_and_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "is_intact", crc_not_checked)
    report: CrashReport = run_crash_states(workloads=["append"], stop_at_first=True)
    assert report.bad[0].workload == "append"
    assert "power loss after" in report.bad[0].story
