"""Consoles that serve from this process."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from support.console_served import TOLD_SEEDS, served
from tidelog.console.place import Place
from tidelog.console.place import simulator as simulator_place


@pytest.fixture(scope="session")
def simulator() -> Iterator[str]:
    """A console without a cluster: only the lab has something to show."""
    with served(simulator_place(*TOLD_SEEDS)) as url:
        yield url


@pytest.fixture
def console_of() -> Callable[[Place], AbstractContextManager[str]]:
    return served
