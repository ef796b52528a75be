"""Crash states of storage, and proof that the check of them can fail."""

import pytest

from tidelog.sim import mutation
from tidelog.sim.storage_proof import SECOND_CRASH, WORKLOADS, run_crash_states


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
    ],
)
def test_a_broken_rule_is_found(*, mutant: str, workload: str, words: str) -> None:
    with mutation.applied(mutant):
        report = run_crash_states(workloads=[workload], stop_at_first=True)
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
