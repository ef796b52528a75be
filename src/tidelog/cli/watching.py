"""`-w`: the same answer again and again, until somebody has seen enough."""

import sys
import time
from collections.abc import Callable
from typing import Any

import click

EVERY_SECONDS = 1.0


def watch_option(function: Any) -> Any:
    return click.option("-w", "--watch", is_flag=True, help="Again every second.")(function)


def watched(once: Callable[[], None], *, watch: bool) -> None:
    while watch:
        if sys.stdout.isatty():
            click.clear()
        once()
        time.sleep(EVERY_SECONDS)
    once()
