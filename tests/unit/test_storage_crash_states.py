"""Crash states of storage, and proof that the check of them can fail."""

from collections.abc import Iterator

import pytest

from tidelog.core.replication.epochs import EpochHistory
from tidelog.host.ports import Disk, Syncing
from tidelog.sim import mutation
from tidelog.sim.storage_proof import SECOND_CRASH, WORKLOADS, run_crash_states
from tidelog.storage import compaction, compaction_rules, recovery
from tidelog.storage.compaction_rules import TransactionWalk
from tidelog.storage.epoch_file import EpochFile, PendingEpochs
from tidelog.storage.key_offsets import KeyOffsets
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


@pytest.mark.parametrize(
    ("mutant", "workload", "words"),
    [
        ("M35", "append", "checksum"),
        ("M36", "append", "byte"),
        ("M37", "append", "was durable"),
        ("M38", "format", "meta.properties"),
        ("M39", "failed sync", "was durable"),
        ("M40", "retention", "log start"),
        ("M46", "first segment vanishes", "log start"),
    ],
)
def test_a_broken_rule_is_found(*, mutant: str, workload: str, words: str) -> None:
    with mutation.applied(mutant):
        report = run_crash_states(workloads=[workload], stop_at_first=True)
    assert report.bad, f"{report.states} states and none of them bad"
    assert any(words in fault for fault in report.bad[0].faults), report.bad[0]


def prepared_without_sync(disk: Disk, directory: str, cleaned: Segment) -> Iterator[None]:
    cleaned.close()
    for suffix in INDEX_SUFFIXES:
        path = cleaned.path.removesuffix(LOG_SUFFIX + ".cleaned") + suffix
        disk.rename(path + ".cleaned", path + ".swap")
    yield


def swap_forgotten(disk: Disk, directory: str, base: int, names: list[str]) -> None:
    return


def newest_dropped(key: bytes, offset: int, keys: KeyOffsets) -> bool:
    return offset <= keys.newest(key)


def aborted_believed(walk: TransactionWalk, header: BatchHeader) -> bool:
    return False


@pytest.mark.parametrize(
    ("owner", "rule", "broken", "words"),
    [
        (compaction, "prepare_swap", prepared_without_sync, "refused"),
        (recovery, "finish_swap", swap_forgotten, "was durable"),
        (compaction_rules, "is_superseded", newest_dropped, "newest value"),
        (TransactionWalk, "is_aborted", aborted_believed, "newest value"),
    ],
    ids=[
        "cleaned segment not synced",
        "swap not finished",
        "newest record dropped",
        "aborted record supersedes",
    ],
)
def test_a_broken_rule_of_compaction_is_found(
    owner: object, rule: str, broken: object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, rule, broken)
    report = run_crash_states(workloads=["compact"], stop_at_first=True)
    assert report.bad, f"{report.states} states and none of them bad"
    assert any(words in fault for fault in report.bad[0].faults), report.bad[0]


def no_limit(epochs: EpochFile, synced_offset: int) -> int:
    return synced_offset


def nothing_learned(header: BatchHeader, epochs: EpochHistory, end: int) -> bool:
    return False


def truncated_in_memory(epochs: EpochFile, log_end: int) -> None:
    epochs.history.truncate_from_end(log_end)


def believed_without_its_name(epochs: EpochFile, pending: PendingEpochs) -> Syncing | None:
    epochs._stored_epoch = pending.latest_epoch
    return finish_writing(epochs, pending)


finish_writing = EpochFile.finish_writing


@pytest.mark.parametrize(
    ("owner", "rule", "broken", "words"),
    [
        (EpochFile, "limit_of", no_limit, "does not know the oldest records"),
        (recovery, "learn_epoch", nothing_learned, "history []"),
        (EpochFile, "truncate_from_end", truncated_in_memory, "the history says"),
        (EpochFile, "finish_writing", believed_without_its_name, "does not know the oldest"),
    ],
    ids=[
        "recovery point passes an epoch",
        "epochs of batches not learned",
        "truncation leaves the file",
        "rename not synced",
    ],
)
def test_a_broken_rule_of_epochs_is_found(
    owner: object, rule: str, broken: object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, rule, broken)
    report = run_crash_states(workloads=["epoch start"], stop_at_first=True)
    assert report.bad, f"{report.states} states and none of them bad"
    assert any(words in fault for fault in report.bad[0].faults), report.bad[0]


def test_a_report_names_the_workload_and_the_story() -> None:
    with mutation.applied("M35"):
        report = run_crash_states(workloads=["append"], stop_at_first=True)
    assert report.bad[0].workload == "append"
    assert "power loss after" in report.bad[0].story


def test_the_listener_hears_of_every_state() -> None:
    heard: list[int] = []
    report = run_crash_states(
        20, workloads=["format"], tell=lambda so_far: heard.append(so_far.states)
    )
    assert heard == list(range(1, 21))
    assert report.by_workload == {"format": 20}
