"""Finds out whether a process is alive: opens a connection and closes it (ADR 0017)."""

from tidelog.core.failover import ProbeOutcome
from tidelog.host.ports import Network, NetworkError, PeerRefused, PeerReset


async def probe(network: Network, address: tuple[str, int], *, timeout_ms: int) -> ProbeOutcome:
    host, port = address
    try:
        connection = await network.connect(host, port, timeout_ms=timeout_ms)
    except PeerRefused:
        return ProbeOutcome.REFUSED
    except PeerReset:
        return ProbeOutcome.ACCEPTED  # somebody was there a moment ago
    except NetworkError:
        return ProbeOutcome.UNANSWERED
    connection.close()
    return ProbeOutcome.ACCEPTED
