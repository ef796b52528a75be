"""What a worker of Spark's keeps from task to task: modules, above all.

Spark looks for garbage in a worker after every task, and a task that gets this worker meanwhile
waits for it. That goes through every object of every module, tens of milliseconds of a task that
may itself take less.
"""

import gc
import os

_REUSED = "SPARK_REUSE_WORKER"
"""Spark sets it where a worker lives for more than one task, and only there it collects."""

_kept_in: set[int] = set()
"""The process, which is another one after a fork."""


def keep_what_is_loaded() -> None:
    """Whatever this worker has loaded until now is not looked at any more when Spark collects
    garbage. Once in a process; nothing happens in processes that are not workers of Spark's."""
    if _REUSED in os.environ and os.getpid() not in _kept_in:
        _kept_in.add(os.getpid())
        gc.freeze()
