"""Compile the servers of object stores that tests drive, if they are not there and Go is.

    python scripts/go_programs.py

Without Go it says so, and ends well all the same: tests that need them are skipped, and say why.
With CI=true they fail instead.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support import gcs_store, object_store
from support.go_programs import NotCompiled, compiled


def main() -> int:
    for program in (object_store.PROGRAM, gcs_store.PROGRAM):
        try:
            compiled(program)
        except NotCompiled as missing:
            print(f"{missing}. Tests that need it are skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
