"""Locks between threads, for code that also runs inside a seed, where no lock is ever contended."""

import threading
from contextlib import AbstractContextManager


def new_lock() -> AbstractContextManager[bool]:
    return threading.Lock()
