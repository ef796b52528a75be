"""Compile the S3 server that tests drive, if it is not there and Go is.

    python scripts/go_programs.py

Without Go it says so, and ends well all the same: tests that need it are skipped, and say why. With
CI=true they fail instead.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.object_store import NoServer, compiled


def main() -> int:
    try:
        compiled()
    except NoServer as missing:
        print(f"{missing}. Tests that need it are skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
