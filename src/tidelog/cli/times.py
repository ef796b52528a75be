"""Moments as people read them: ISO 8601, with the time that has passed or will pass."""

from datetime import UTC, datetime

from tidelog.cli.output import duration


def moment(wall_ms: int) -> str:
    """`2026-01-31T10:00:00Z`"""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def passed(since_ms: int, now_ms: int) -> str:
    """`12 s`; clocks of two machines may differ, so never less than nothing."""
    return duration(max(0, now_ms - since_ms) / 1000)
