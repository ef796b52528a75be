"""Every story is told on asyncio's own loop, and on uvloop where it is installed."""

import functools

import pytest

from support import loopback


@pytest.fixture(params=["asyncio", "uvloop"])
def tell(request):
    """Runs a story on one of the loops."""
    if request.param == "asyncio":
        return loopback.run
    uvloop = pytest.importorskip("uvloop")
    return functools.partial(loopback.run, loop_factory=uvloop.new_event_loop)
