"""The rules about access find every mutant of it, and nothing in the code as it is."""

import pytest

from tidelog.core.metadata.records import AccessControlEntry, RemoveAccessControlEntry
from tidelog.core.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from tidelog.core.security.authorizer import Authorizer
from tidelog.core.security.quotas import Limit, Quotas
from tidelog.core.types import LogEntry
from tidelog.node.access import AccessRules
from tidelog.sim import mutants
from tidelog.sim.nodes.probes import attached
from tidelog.sim.nodes.probes_access import DECIDED, SLOWED, AccessProbes

TIDE = Acl(
    ResourceType.TOPIC,
    "tide",
    PatternType.PREFIXED,
    "User:ann",
    "10.0.0.0/24",
    Operation.READ,
    Permission.ALLOW,
)
DENIED = TIDE._replace(principal="User:*", permission=Permission.DENY, host="*")


def commit(access: AccessRules, *records: object) -> None:
    access.on_committed(LogEntry(0, 1, records))


def broken_rules() -> set[str]:
    """What is found while rules come and go and somebody uses far more than his quota."""
    found: list[str] = []
    probes = AccessProbes(lambda rule, _text: found.append(rule))
    with attached(probes.all()):
        access = AccessRules(Authorizer())
        access.authorizer.ready = True
        commit(access, AccessControlEntry(b"a" * 16, TIDE))
        commit(access, AccessControlEntry(b"b" * 16, DENIED))
        commit(access, RemoveAccessControlEntry(b"b" * 16))
        access.on_snapshot((AccessControlEntry(b"c" * 16, TIDE),), 9)
        quotas, limit = Quotas(), Limit(10.0, "ann", "")
        for now_ms in range(0, 2_000, 100):
            quotas.use("producer_byte_rate", limit, 100, now_ms)
    return set(found)


def test_the_code_as_it_is_breaks_no_rule() -> None:
    assert broken_rules() == set()


@pytest.mark.parametrize(
    ("mutant", "rule"), [("M49", DECIDED), ("M50", DECIDED), ("M51", DECIDED), ("M52", SLOWED)]
)
def test_a_mutant_of_access_breaks_its_rule(mutant: str, rule: str) -> None:
    with mutants.apply(mutant):
        assert broken_rules() == {rule}
