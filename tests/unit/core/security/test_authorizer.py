"""Who may do what: Kafka's rules one by one, and against a slow reader of all rules at once."""

from ipaddress import ip_address, ip_network
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.security import authorizer as module
from tidelog.core.security.acls import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    misfit_of_filter,
    misfit_of_new,
)
from tidelog.core.security.authorizer import Authorizer
from tidelog.core.security.principal import Principal

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
HERE = "10.0.0.7"


def rule(
    operation=READ, name="orders", *, permission=ALLOW, pattern=LITERAL, who="User:alice", host="*"
):
    return Acl(TOPIC, name, pattern, who, host, operation, permission)


def with_rules(*acls, **options):
    authorizer = Authorizer(**options)
    authorizer.load({b"%016d" % number: acl for number, acl in enumerate(acls)})
    authorizer.ready = True
    return authorizer


def may(authorizer, operation=READ, name="orders", who=ALICE, host=HERE):
    return authorizer.allows(who, host, operation, TOPIC, name)


def test_what_no_rule_speaks_of_is_denied():
    nothing = with_rules()
    assert not may(nothing)
    assert not may(with_rules(rule()), name="other")
    assert not may(with_rules(rule()), who=BOB)
    assert not may(with_rules(rule()), WRITE)


def test_everyone_may_do_what_no_rule_at_all_speaks_of_if_the_operator_says_so():
    open_door = with_rules(rule(who="User:bob"), allow_if_none=True)
    assert may(open_door, name="other")
    assert not may(open_door), "there is a rule about orders, for somebody else"
    prefixed = with_rules(rule(who="User:bob", name="ord", pattern=PREFIXED), allow_if_none=True)
    assert not may(prefixed)
    assert may(prefixed, name="invoices")


def test_a_denial_wins_over_everything_that_allows():
    for denial in (
        rule(permission=DENY),
        rule(permission=DENY, name="*"),
        rule(permission=DENY, name="or", pattern=PREFIXED),
        rule(ALL, permission=DENY),
        rule(permission=DENY, who="User:*"),
    ):
        assert not may(with_rules(rule(), rule(ALL), denial)), denial
        assert not may(with_rules(denial, rule(), allow_if_none=True)), denial
    assert may(with_rules(rule(permission=DENY, host="10.0.0.8"), rule()))


def test_a_super_user_is_denied_nothing():
    assert may(with_rules(rule(permission=DENY), super_users=[ALICE]))
    waiting = Authorizer([ALICE], allow_if_none=True)
    assert may(waiting)
    assert not may(waiting, who=BOB), "rules are not loaded yet"


def test_prefixes_and_wildcards_cover_names():
    prefixed = with_rules(rule(name="ord", pattern=PREFIXED))
    assert may(prefixed)
    assert may(prefixed, name="ord")
    assert not may(prefixed, name="or")
    assert may(with_rules(rule(name="*")), name="anything")
    assert not may(with_rules(rule(name="*", pattern=PREFIXED)), name="anything")
    assert may(with_rules(rule(name="*", pattern=PREFIXED)), name="*x")


@pytest.mark.parametrize("given", [READ, WRITE, Operation.DELETE, Operation.ALTER])
def test_whoever_may_do_something_may_describe(given):
    assert may(with_rules(rule(given)), DESCRIBE)
    assert may(with_rules(rule(permission=DENY), rule(given)), DESCRIBE), "denials imply nothing"


def test_other_operations_imply_less():
    assert not may(with_rules(rule(Operation.CREATE)), DESCRIBE)
    assert may(with_rules(rule(Operation.ALTER_CONFIGS)), Operation.DESCRIBE_CONFIGS)
    assert not may(with_rules(rule(Operation.DESCRIBE_CONFIGS)), Operation.ALTER_CONFIGS)
    assert not may(with_rules(rule(Operation.ALTER)), Operation.DESCRIBE_CONFIGS)


@pytest.mark.parametrize(
    ("host", "matches"),
    [
        ("*", True),
        (HERE, True),
        ("10.0.0.8", False),
        ("10.0.0.0/24", True),
        ("10.0.1.0/24", False),
        ("fd00::/8", False),
    ],
)
def test_a_rule_may_be_for_one_address_or_a_range(host, matches):
    assert may(with_rules(rule(host=host))) is matches


def test_ranges_may_be_of_the_longer_addresses():
    assert may(with_rules(rule(host="fd00::/8")), host="fd00::7")
    assert not may(with_rules(rule(host="fd00::/8")), host="not an address")


def test_decisions_follow_the_rules_at_once():
    authorizer = with_rules(rule())
    assert may(authorizer)
    generation = authorizer.generation
    authorizer.add(b"x" * 16, rule(permission=DENY))
    assert not may(authorizer)
    authorizer.remove(b"x" * 16)
    assert may(authorizer)
    authorizer.load({})
    assert not may(authorizer)
    assert (len(authorizer), authorizer.generation) == (0, generation + 3)


def test_made_up_names_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED_MAX", 10)
    authorizer = with_rules(rule())
    for number in range(100):
        assert not may(authorizer, name=f"made up {number}")
        assert len(authorizer._decisions) <= 10
    assert may(authorizer)


@pytest.mark.parametrize(
    ("acls", "answer"),
    [
        ((), False),
        ((rule(WRITE),), True),
        ((rule(ALL),), True),
        ((rule(READ),), False),
        ((rule(WRITE, who="User:bob"),), False),
        ((rule(WRITE), rule(WRITE, permission=DENY)), False),
        ((rule(WRITE), rule(WRITE, permission=DENY, name="*")), False),
        ((rule(WRITE), rule(WRITE, permission=DENY, name="o", pattern=PREFIXED)), False),
        ((rule(WRITE, name="ab", pattern=PREFIXED), rule(WRITE, permission=DENY, name="ab")), True),
        ((rule(WRITE, name="*"), rule(WRITE, permission=DENY, name="a", pattern=PREFIXED)), True),
        ((rule(WRITE), rule(WRITE, permission=DENY, name="x")), True),
    ],
)
def test_some_resource_of_a_type_can_be_asked_for(acls, answer):
    assert with_rules(*acls).allows_some(ALICE, HERE, WRITE, TOPIC) is answer


def test_operations_are_told_as_bits():
    authorizer = with_rules(rule(READ), rule(Operation.ALTER_CONFIGS))
    bits = authorizer.operations(ALICE, HERE, TOPIC, "orders")
    expected = (READ, DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)
    assert bits == sum(1 << operation for operation in expected)
    assert authorizer.operations(BOB, HERE, TOPIC, "orders") == 0


# ---- against an obvious reader of the rules

NAMES = st.sampled_from(["a", "ab", "abc", "b", "*"])
ACLS = st.builds(
    Acl,
    st.sampled_from([TOPIC, GROUP]),
    NAMES,
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from(["*", HERE, "10.0.0.8", "10.0.0.0/30"]),
    st.sampled_from([ALL, READ, WRITE, DESCRIBE, Operation.ALTER_CONFIGS]),
    st.sampled_from([ALLOW, DENY]),
)


def obviously(acls, allow_if_none, question):
    who, host, operation, kind, name = question

    def covers(acl):
        if acl.resource_type != kind:
            return False
        if acl.pattern_type == PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name in ("*", name)

    def is_for(acl):
        here = acl.host in ("*", host)
        if "/" in acl.host:
            here = ip_address(host) in ip_network(acl.host)
        return here and acl.principal in (str(who), "User:*")

    about = [acl for acl in acls if covers(acl)]
    mine = [acl for acl in about if is_for(acl)]
    if any(a.permission == DENY and a.operation in (ALL, operation) for a in mine):
        return False
    enough = {ALL, operation}
    if operation == DESCRIBE:
        enough |= {READ, WRITE, Operation.DELETE, Operation.ALTER}
    if operation == Operation.DESCRIBE_CONFIGS:
        enough |= {Operation.ALTER_CONFIGS}
    if any(a.permission == ALLOW and a.operation in enough for a in mine):
        return True
    return allow_if_none and not about


@given(
    st.lists(ACLS, max_size=8),
    st.lists(st.integers(0, 7), max_size=4),
    st.booleans(),
    st.lists(
        st.tuples(
            st.sampled_from([ALICE, BOB]),
            st.sampled_from([HERE, "10.0.0.1"]),
            st.sampled_from([READ, WRITE, DESCRIBE, Operation.DESCRIBE_CONFIGS]),
            st.sampled_from([TOPIC, GROUP]),
            NAMES,
        ),
        max_size=8,
    ),
)
def test_the_index_decides_as_a_reader_of_all_rules(acls, removed, allow_if_none, questions):
    numbers = count()
    kept = {b"%016d" % next(numbers): acl for acl in acls}
    authorizer = Authorizer(allow_if_none=allow_if_none)
    authorizer.load(kept)
    authorizer.ready = True
    for question in questions:
        assert authorizer.allows(*question) == obviously(kept.values(), allow_if_none, question)
    for number in removed:
        if kept.pop(b"%016d" % number, None) is not None:
            authorizer.remove(b"%016d" % number)
    for question in questions:
        assert authorizer.allows(*question) == obviously(kept.values(), allow_if_none, question)


# ---- filters and what Kafka would not take


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), "abcd"),
        (AclFilter(resource_type=GROUP), "d"),
        (AclFilter(TOPIC, "orders"), "a"),
        (AclFilter(TOPIC, "orders", PatternType.MATCH), "abc"),
        (AclFilter(TOPIC, "orders", LITERAL), "a"),
        (AclFilter(TOPIC, "ord", PREFIXED), "b"),
        (AclFilter(TOPIC, "ord", PatternType.MATCH), "bc"),
        (AclFilter(principal="User:bob"), "b"),
        (AclFilter(host="10.0.0.8"), "c"),
        (AclFilter(operation=WRITE), "c"),
        (AclFilter(permission=DENY), "d"),
    ],
)
def test_a_filter_finds_what_kafkas_would(wanted, found):
    acls = {
        "a": rule(),
        "b": rule(name="ord", pattern=PREFIXED, who="User:bob"),
        "c": rule(WRITE, name="*", host="10.0.0.8"),
        "d": rule(permission=DENY)._replace(resource_type=GROUP, resource_name="g"),
    }
    assert "".join(key for key, acl in acls.items() if wanted.matches(acl)) == found


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": 0},
        {"resource_type": ResourceType.ANY},
        {"resource_type": 99},
        {"pattern_type": PatternType.MATCH},
        {"operation": Operation.ANY},
        {"operation": 99},
        {"permission": Permission.ANY},
        {"resource_name": ""},
        {"resource_type": CLUSTER},
        {"principal": "alice"},
        {"principal": "User:"},
        {"host": "10.0.0.0/99"},
        {"host": ""},
    ],
)
def test_a_rule_that_makes_no_sense_is_not_taken(wrong):
    assert misfit_of_new(rule()) is None
    assert misfit_of_new(rule()._replace(**wrong)) is not None


def test_a_filter_may_name_only_what_is_known():
    assert misfit_of_filter(AclFilter()) is None
    assert misfit_of_filter(AclFilter(resource_type=0)) is not None
    assert misfit_of_filter(AclFilter(operation=99)) is not None
