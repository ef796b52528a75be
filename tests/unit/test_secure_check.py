"""What a check makes of what it saw."""

import time

import pytest

from tidelog.cli.secure import judgement
from tidelog.cli.secure.http_strangers import Page
from tidelog.cli.secure.inside import Inside
from tidelog.cli.secure.judgement import DAY_MS, NOTE, OPEN, WEAK
from tidelog.cli.secure.strangers import Seen, operations_in
from tidelog.core.security.acls import Operation

HERE, ELSEWHERE = ("127.0.0.1", 9092), ("tide-1.example.org", 9092)
WITH_TLS = Seen(answers=True, tls=True, mechanisms=("SCRAM-SHA-512",))


def levels(told):
    return [(each.level, each.text) for each in told]


def of_listener(seen, address=ELSEWHERE):
    return levels(judgement.of_listener(address, "CLIENTS", seen))


def test_a_listener_with_tls_and_logins_is_only_mentioned():
    assert of_listener(WITH_TLS) == [(NOTE, "a login is needed: SCRAM-SHA-512")]


def test_what_strangers_may_do_is_told_by_topic():
    topics = {"bills": ("READ", "DESCRIBE"), "orders": ("READ", "DESCRIBE"), "secrets": ()}
    seen = Seen(answers=True, lets_in=True, operations=("ALTER",), topics=topics)
    (level, text), plain = of_listener(seen)
    assert level == OPEN
    assert text == (
        "anybody who reaches it gets in without a login and may alter the cluster;"
        " read, describe 2 topics (bills, orders)"
    )
    assert plain == (WEAK, "everything crosses the network in plain text")


def test_a_stranger_whom_the_rules_give_nothing_is_no_problem_on_this_machine():
    seen = Seen(answers=True, lets_in=True, operations=(), topics={"orders": ()})
    found = of_listener(seen, HERE)
    assert {level for level, _ in found} == {NOTE}
    assert found[0][1].endswith("and the rules let him do nothing")


def test_rights_that_cannot_be_asked_for_count_as_open():
    assert of_listener(Seen(answers=True, tls=True, lets_in=True))[0][0] == OPEN


def test_a_made_up_password_that_is_taken_is_open():
    seen = WITH_TLS._replace(mechanisms=("PLAIN",), lets_in=True)
    assert of_listener(seen)[0] == (
        OPEN,
        "anybody who reaches it can log in with any name and any password",
    )


@pytest.mark.parametrize(
    ("left_days", "text"),
    [
        (-1, "its certificate has expired"),
        (5, "its certificate expires in 5 days"),
        (40, None),
    ],
)
def test_a_certificate_that_ends_soon_is_weak(left_days, text):
    expires_ms = int(time.time() * 1000) + left_days * DAY_MS + DAY_MS // 2
    found = [told for level, told in of_listener(WITH_TLS._replace(expires_ms=expires_ms))[1:]]
    assert found == ([] if text is None else [text])


def test_old_tls_is_weak():
    assert of_listener(WITH_TLS._replace(old_tls=True))[1][0] == WEAK


def test_http_that_breaks_nodes_is_open_on_every_address():
    for address in (HERE, ELSEWHERE):
        page = Page(tls=True, state=200, chaos=200)
        assert levels(judgement.of_http(address, "HTTP", page))[0][0] == OPEN


def test_http_is_read_on_its_machine_and_closed_elsewhere():
    page = Page(tls=True, state=200, chaos=401)
    assert [each.level for each in judgement.of_http(HERE, "HTTP", page)] == [NOTE]
    assert [each.level for each in judgement.of_http(ELSEWHERE, "HTTP", page)] == [OPEN]
    closed = Page(state=401, chaos=401)
    assert [each.level for each in judgement.of_http(ELSEWHERE, "HTTP", closed)] == [NOTE, WEAK]


AUTHORIZED = {"authorizer.class.name": "StandardAuthorizer", "super.users": "User:admin"}


@pytest.mark.parametrize(
    ("changed", "level"),
    [
        ({}, NOTE),
        ({"authorizer.class.name": ""}, WEAK),
        ({"allow.everyone.if.no.acl.found": "true"}, OPEN),
        ({"super.users": "User:admin; User:ANONYMOUS"}, OPEN),
    ],
)
def test_settings_that_open_a_cluster_are_named(changed, level):
    told = judgement.of_inside(Inside({1: {**AUTHORIZED, **changed}}))
    assert told[0].level == level


def test_operations_are_bits():
    bits = 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert operations_in(bits) == ("READ", "DESCRIBE")
    assert operations_in(0) == ()
    assert operations_in(-(2**31)) is None
