"""Install programs that tests drive and that come as Debian packages: kcat, chromium.

    python scripts/debian_programs.py kcat chromium

Installs what is missing, if we are root on a Debian. Otherwise it names what is missing, and ends
well all the same: tests that need it are skipped, and say why. With CI=true they fail instead.
"""

import os
import shutil
import subprocess
import sys


def main(names: list[str]) -> int:
    missing = [name for name in names if shutil.which(name) is None]
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        install(missing)
        missing = [name for name in names if shutil.which(name) is None]
    if missing:
        wanted = " ".join(missing)
        print(f"not here: {wanted}. Tests that need it are skipped: apt-get install {wanted}")
    return 0


def install(packages: list[str]) -> None:
    """On a new machine the list of packages may be empty or old."""
    for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        done = subprocess.run(
            ["apt-get", "-q", *command],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            timeout=900,
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            print(f"apt-get {command[0]}: {lines[-1] if lines else done.returncode}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
