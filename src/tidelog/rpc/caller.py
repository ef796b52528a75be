"""What is known about the peer at the other end of an accepted connection."""

from typing import NamedTuple

from tidelog.core.security.principal import ANONYMOUS, Principal


class Caller(NamedTuple):
    """Who asks, and through which listener. A login replaces it; calls keep theirs."""

    listener: str
    """Name of the listener it came in through: answers give addresses of the same one."""
    host: str = ""
    """The peer's address, without a port."""
    principal: Principal = ANONYMOUS
