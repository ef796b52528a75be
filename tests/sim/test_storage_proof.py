"""The crash states of storage (reliability.md §2.5), and none of them bad.

All of them after one crash; after a second one a quarter of what `make sim` tries.
"""

import pytest

from tidelog.sim.storage_proof import SECOND_CRASH, SECOND_CRASH_EVERY, WORKLOADS, run_crash_states


@pytest.mark.parametrize("workload", [*WORKLOADS, SECOND_CRASH])
def test_no_crash_state_is_bad(workload: str) -> None:
    report = run_crash_states(workloads=[workload], second_crash_every=4 * SECOND_CRASH_EVERY)
    assert report.bad == []
    least = {SECOND_CRASH: 1000, "append": 1500, "truncate": 1500}.get(workload, 30)
    assert report.states >= least
