"""What holds for every test process, the workers of xdist included."""

import signal

from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_configure() -> None:
    """Ctrl-C works in children, as it does in a terminal. A shell that starts `make test &` has
    SIGINT ignored, and whatever is ignored stays so in children of children: stories that
    interrupt a command would wait for it for ever."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
