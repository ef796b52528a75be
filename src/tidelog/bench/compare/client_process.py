"""Clients in processes of their own: what they cost is not taken from whoever watches.

A job goes in as a line of JSON, its result comes out as another.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tidelog.bench.compare.system import SystemFailed

WITHIN_S = 180.0

Job = dict[str, Any]


def run_client(module: str, job: Mapping[str, object], within_s: float = WITHIN_S) -> Job:
    """What the module's `answer` says to the job; SystemFailed if it ends otherwise."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", module],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            env=environment,
            timeout=within_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SystemFailed(f"the client is not done after {within_s:g} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise SystemFailed(said[-1])
    result: Job = json.loads(done.stdout)
    return result


def answer(work: Callable[[Job], Job]) -> None:
    """The other side: one job, one result. What went wrong is the last line said."""
    try:
        result = work(json.loads(sys.stdin.readline()))
    except Exception as reason:  # the border of the process: a line, not a traceback
        sys.exit(f"{type(reason).__name__}: {reason}")
    sys.stdout.write(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)  # librdkafka's threads would be waited for
