"""All crash states of storage (reliability.md §2.5): at least 10,000, and none of them bad."""

import pytest

from tidelog.sim.storage_proof import SECOND_CRASH, WORKLOADS, run_crash_states


@pytest.mark.parametrize("workload", [*WORKLOADS, SECOND_CRASH])
def test_no_crash_state_is_bad(workload: str) -> None:
    report = run_crash_states(workloads=[workload])
    assert report.bad == []
    least = {SECOND_CRASH: 4000, "append": 1500, "truncate": 1500}.get(workload, 30)
    assert report.states >= least
