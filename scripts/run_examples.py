"""Do what the READMEs of the examples say, in a copy of them, on a cluster of its own.

Every line of the first block is run by a shell, as somebody would who follows the page. Then the
last two steps are run again: nothing is new, so nothing may be written.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = ("streaming-revenue", "declarative-revenue")
WINDOWS = 20
"""Ten minutes, two currencies."""
LINE_WITHIN_SECONDS = 300


class Page:
    """One example, in a directory where it may leave what it likes."""

    def __init__(self, home: Path, name: str) -> None:
        self.directory = home / name
        text = (self.directory / "README.md").read_text("utf-8")
        found = re.search(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        assert found is not None, f"{name}/README.md shows no commands"
        self.lines = [line for line in found[1].splitlines() if not line.startswith("pip ")]
        storage = f"file://{self.directory}/storage"
        self.replace("file:///var/tmp/declarative-revenue", storage)

    def replace(self, shown: str, here: str) -> None:
        for path in [*self.directory.rglob("*.py"), *self.directory.rglob("*.yml")]:
            path.write_text(path.read_text("utf-8").replace(shown, here), "utf-8")

    def run(self, line: str) -> str:
        begin = time.monotonic()
        programs = str(Path(sys.executable).parent)
        environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        done = subprocess.run(  # noqa: S602 - lines of our own pages
            line,
            shell=True,
            cwd=self.directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LINE_WITHIN_SECONDS,
            check=False,
        )
        print(f"{time.monotonic() - begin:6.1f} s  {line}", flush=True)
        if done.returncode:
            sys.exit(f"exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        if line.startswith("tidelog up"):  # on other ports, if 9092 is not free
            told = json.loads((self.directory / ".tidelog/dev/cluster.json").read_text("utf-8"))
            broker = told["nodes"][0]["port"]
            self.replace("localhost:9092", f"localhost:{broker}")
        return done.stdout


def check(consumed: str) -> None:
    windows = [json.loads(line) for line in consumed.splitlines()]
    names = {(each["minute"], each["currency"]) for each in windows}
    assert len(names) == len(windows) == WINDOWS, f"{len(windows)} lines, {len(names)} windows"
    assert sum(each["orders"] for each in windows) == 5000, windows


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("interrupted"))  # what runs is stopped
    home = Path(tempfile.mkdtemp(prefix="tidelog-examples-"))
    try:
        shutil.copytree(EXAMPLES, home, dirs_exist_ok=True)
        for page in [Page(home, name) for name in NAMES]:
            try:
                *_, last = [page.run(line) for line in page.lines]
                check(last)
                page.run(page.lines[-2])
                check(page.run(page.lines[-1]))
            finally:
                page.run("tidelog down --delete-data")
            print(f"ok: {page.directory.name}, {WINDOWS} windows, each once", flush=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
