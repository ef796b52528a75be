"""What the journal says about peers that send what is no request."""

import logging

import pytest

from support.manual_clock import ManualClock
from tidelog.host.ports import BadRequest
from tidelog.host.reports import INTERVAL_MS, FailureReports
from tidelog.host.server import Insecure


def test_each_reason_of_a_failed_handshake_is_told_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A probe without TLS must not hide that the certificate of another client on the same machine
    has expired."""
    clock = ManualClock()
    reports = FailureReports(clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            reports.refuse(Insecure("TLS: wrong version number"), "127.0.0.1")
            reports.refuse(Insecure("TLS: certificate has expired"), "127.0.0.1")
            reports.refuse(BadRequest("'five' is no number"), "127.0.0.1")
            reports.refuse(BadRequest("'six' is no number"), "127.0.0.1")
        clock.advance(INTERVAL_MS)
        reports.refuse(Insecure("TLS: certificate has expired"), "127.0.0.1")
    assert caplog.messages == [
        "127.0.0.1 is hung up on: TLS: wrong version number (0 more before)",
        "127.0.0.1 is hung up on: TLS: certificate has expired (0 more before)",
        "127.0.0.1 is hung up on: 'five' is no number (0 more before)",
        "127.0.0.1 is hung up on: TLS: certificate has expired (2 more before)",
    ]
