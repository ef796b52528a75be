"""The same seed does the same: in every process, whatever the hashes of Python are."""

import os
import shutil
import subprocess
import sys

from support.seeded_story import tell
from support.tidy.source import ROOT

GUARD_S = 120
ELSEWHERE = """
import sys, tidelog
from support.seeded_story import tell
assert tidelog.__file__.startswith(sys.argv[1]), tidelog.__file__
assert "tidelog.sim.mutants" not in sys.modules
print(tell(7))
"""


def tell_elsewhere(hash_seed, place, path):
    """By another process, with the package that lies there."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ELSEWHERE, str(place)],
        capture_output=True,
        text=True,
        check=False,
        timeout=GUARD_S,
        env={
            **os.environ,
            "PYTHONHASHSEED": str(hash_seed),
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.rstrip("\n")


def test_a_seed_does_the_same_twice_and_another_one_something_else():
    first = tell(7)
    assert "orders-3 leader " in first
    assert tell(7) == first
    *happened, digest = tell(8).splitlines()
    assert happened != first.splitlines()[:-1]
    assert digest != first.splitlines()[-1]


def test_it_does_the_same_in_another_process_with_the_modules_of_a_wheel(tmp_path):
    """Mutants are part of no wheel."""
    without = shutil.ignore_patterns("mutants", "__pycache__")
    shutil.copytree(ROOT / "src", tmp_path, ignore=without, dirs_exist_ok=True)
    assert not (tmp_path / "tidelog/sim/mutants").exists()
    first = tell(7)
    for hash_seed in (1, 2):
        assert tell_elsewhere(hash_seed, tmp_path, [str(tmp_path), *sys.path]) == first
