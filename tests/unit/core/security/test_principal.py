"""Principals as text, and back."""

import pytest

from tidelog.core.security.principal import ANONYMOUS, Principal


def test_a_principal_reads_as_kafka_writes_it():
    assert str(Principal("User", "alice")) == "User:alice"
    assert str(ANONYMOUS) == "User:ANONYMOUS"


@pytest.mark.parametrize("text", ["User:alice", "User:CN=node1,O=Tides:1", "Group:*"])
def test_a_principal_is_read_back_as_it_was_written(text):
    assert str(Principal.parse(text)) == text


@pytest.mark.parametrize("text", ["", "alice", ":alice", "User:", ":"])
def test_a_text_without_a_kind_or_a_name_is_no_principal(text):
    with pytest.raises(ValueError, match="KIND:NAME"):
        Principal.parse(text)
