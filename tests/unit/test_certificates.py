"""What certificates, mapping rules and JAAS texts say."""

import pytest

from support.certificates import DAY, Authority
from tidelog.core.security.certificates import CertificateError, escaped, read_certificate
from tidelog.core.security.jaas import parse_jaas, quoted
from tidelog.core.security.principal_rules import parse_rules, user_name

AUTHORITY = Authority()


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        ({"C": "NL", "O": "Tides", "OU": "nodes", "CN": "node1"}, "CN=node1,OU=nodes,O=Tides,C=NL"),
        ({"O": "Tides, Inc.", "CN": "Zoë"}, "CN=Zoë,O=Tides\\, Inc."),
        (
            {"CN": "alice", "EMAIL": "a@b.c"},
            "1.2.840.113549.1.9.1=#1605614062" + "2e63,CN=alice",
        ),
    ],
)
def test_a_subject_reads_as_java_writes_it(subject, told):
    assert read_certificate(AUTHORITY.leaf(subject).der).subject == told


def test_what_would_be_taken_for_a_separator_is_escaped():
    assert escaped("#a b ") == "\\#a b\\ "
    assert escaped(" \\x+y") == "\\ \\\\x\\+y"


def test_the_end_of_a_certificate_is_known_to_the_second():
    early = read_certificate(AUTHORITY.leaf("a", expires_in=DAY).der)
    late = read_certificate(AUTHORITY.leaf("a", expires_in=3 * DAY).der)
    assert abs(late.not_after_ms - early.not_after_ms - 2 * 86_400_000) < 5_000
    assert early.not_before_ms < early.not_after_ms
    far = read_certificate(AUTHORITY.leaf("a", expires_in=36_500 * DAY).der)  # another type of time
    assert far.not_after_ms - early.not_after_ms > 36_000 * 86_400_000


@pytest.mark.parametrize("cut", [0, 1, 2, 10, 40, 100])
def test_bytes_that_are_no_certificate_are_told_apart(cut):
    der = AUTHORITY.leaf("a").der
    with pytest.raises(CertificateError):
        read_certificate(der[:cut])


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("", "CN=Alice,OU=nodes,O=Tides"),
        ("DEFAULT", "CN=Alice,OU=nodes,O=Tides"),
        ("RULE:^CN=(.*?),OU=nodes.*$/$1/", "Alice"),
        ("RULE:^CN=(.*?),OU=nodes.*$/$1@$1/L", "alice@alice"),
        ("RULE:^CN=nobody.*$/x/,RULE:^CN=([^,]+).*$/$1/U,DEFAULT", "ALICE"),
        ("RULE:^CN=Ali/x/, DEFAULT", "CN=Alice,OU=nodes,O=Tides"),
        ("RULE:^CN=nobody$/x/", None),
        (r"RULE:^.*O=(\w+)$/a\/$1/", "a/Tides"),
    ],
)
def test_the_first_rule_that_matches_the_whole_subject_gives_the_name(rules, name):
    assert user_name(parse_rules(rules), "CN=Alice,OU=nodes,O=Tides") == name


@pytest.mark.parametrize("rules", ["RULE:a", "RULE:a/b", "x", "RULE:a/b/X", "DEFAULT x"])
def test_what_is_no_rule_is_told(rules):
    with pytest.raises(ValueError, match="no rule"):
        parse_rules(rules)


def test_a_jaas_text_has_users_and_a_login():
    entry = parse_jaas(
        """org.example.PlainLoginModule required
           username="node 1" password=simple user_alice="a\\"b=;" serviceName="kafka";"""
    )
    assert entry.options["username"] == "node 1"
    assert entry.options["password"] == "simple"
    assert entry.users == {"alice": 'a"b=;'}
    assert "simple" not in repr(entry)


@pytest.mark.parametrize("value", ["", "a", 'a"b', "a\\b", "a b=c;"])
def test_what_is_quoted_is_read_back(value):
    assert parse_jaas(f"m required x={quoted(value)};").options == {"x": value}


@pytest.mark.parametrize(
    "text",
    ["", "m required", "m required;x", "m wanted x=1;", "m required x=;", 'm required x="1;'],
)
def test_what_is_no_jaas_text_is_told_without_its_words(text):
    with pytest.raises(ValueError, match=r"it|quote|option|after"):
        parse_jaas(text)
