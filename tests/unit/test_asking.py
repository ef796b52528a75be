"""How a command reaches its cluster, and what it never shows."""

from tidelog.cli.asking import Asking


def test_nobody_finds_a_password_in_a_traceback():
    asking = Asking("tide:9092", 1_000, {"sasl.username": "alice", "sasl.password": "ebb-and-flow"})
    assert "ebb-and-flow" not in repr(asking)
    assert "ebb-and-flow" not in f"{[asking]}"
    assert "sasl.password" in repr(asking)
