"""The simulated cluster itself: sound code passes every seed."""

import pytest

from tidelog.sim.marks import MARKS
from tidelog.sim.run import run_seed

SEEDS = 60
CHUNK = 6


@pytest.mark.parametrize(
    ("seed", "why"),
    [
        (446, "a coordinator whose log was lost gave a producer epoch out again"),
        (1793, "a paused coordinator told offsets as they were when it was asked"),
    ],
)
def test_what_is_allowed_is_not_reported(seed, why):
    assert run_seed(seed).violations == (), why


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_sound_code_breaks_no_rule(first):
    for seed in range(first, first + CHUNK):
        result = run_seed(seed)
        assert result.violations == (), f"tidelog sim run --seed {seed}"
        assert set(result.marks) <= set(MARKS)
