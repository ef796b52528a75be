"""Rules about access: authorizers and quotas of nodes, against a plain reading of the metadata."""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from itertools import product
from typing import Any, Final

from tidelog.core.metadata.records import AccessControlEntry, RemoveAccessControlEntry
from tidelog.core.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from tidelog.core.security.principal import Principal
from tidelog.core.security.quotas import Limit, Quotas
from tidelog.core.types import LogEntry
from tidelog.node.access import AccessRules
from tidelog.sim.nodes.probes import Method, Probe
from tidelog.sim.nodes.rules import Report

DECIDED = "A1 access is decided as the committed rules say"
SLOWED = "A2 whoever is far above his quota is slowed down"

Question = tuple[Principal, str, Operation, ResourceType, str]
QUESTIONS: Final[tuple[Question, ...]] = tuple(
    (Principal("User", user), host, operation, ResourceType.TOPIC, name)
    for user, host, operation, name in product(
        ("ann", "bob"),
        ("10.0.0.7", "10.0.1.1"),
        (Operation.READ, Operation.WRITE, Operation.DESCRIBE),
        ("tide", "tides", "ebb"),
    )
)
IMPLIES_DESCRIBE: Final = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
FAR_ABOVE: Final = 3


class AccessProbes:
    """Asks every authorizer the same questions whenever its rules have changed."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._rules: dict[AccessRules, dict[bytes, Acl]] = {}
        self._used: dict[tuple[Quotas, str, str, str], list[tuple[int, float]]] = {}

    def all(self) -> list[Probe]:
        return [
            Probe(AccessRules, "on_committed", self._around_committed),
            Probe(AccessRules, "on_snapshot", self._around_snapshot),
            Probe(Quotas, "use", self._around_use),
        ]

    def _around_committed(self, original: Method) -> Method:
        def on_committed(access: AccessRules, entry: LogEntry) -> None:
            original(access, entry)
            if entry.control:
                return
            rules = self._rules.setdefault(access, {})
            changed = False
            for record in entry.records:
                if isinstance(record, AccessControlEntry):
                    rules[record.acl_id] = record.acl
                    changed = True
                elif isinstance(record, RemoveAccessControlEntry):
                    rules.pop(record.acl_id, None)
                    changed = True
            if changed:
                self._examine(access, rules)

        return on_committed

    def _around_snapshot(self, original: Method) -> Method:
        def on_snapshot(access: AccessRules, records: Iterable[Any], end_offset: int) -> None:
            original(access, records, end_offset)
            rules = {
                each.acl_id: each.acl for each in records if isinstance(each, AccessControlEntry)
            }
            self._rules[access] = rules
            self._examine(access, rules)

        return on_snapshot

    def _examine(self, access: AccessRules, rules: dict[bytes, Acl]) -> None:
        if not access.authorizer.ready:
            return
        for question in QUESTIONS:
            decided = access.authorizer.allows(*question)
            plain = allowed(rules.values(), question)
            if decided != plain:
                principal, host, operation, _, name = question
                said = "may" if decided else "may not"
                self._report(
                    DECIDED,
                    f"{principal} from {host} {said} {operation.name} {name} by {len(rules)} rules"
                    f" that say otherwise",
                )

    def _around_use(self, original: Method) -> Method:
        def use(quotas: Quotas, key: str, limit: Limit, amount: float, now_ms: int) -> int:
            throttle_ms: int = original(quotas, key, limit, amount, now_ms)
            number, size_ms = quotas.windows
            used = self._used.setdefault((quotas, key, limit.user, limit.client_id), [])
            used.append((now_ms, amount))
            used[:] = [each for each in used if each[0] > now_ms - (number - 1) * size_ms]
            allowance = limit.bound * number * size_ms / 1_000
            total = sum(each for _, each in used)
            if total > FAR_ABOVE * allowance and throttle_ms == 0:
                self._report(
                    SLOWED, f"{total:g} of {key} in a time that {allowance:g} are allowed in"
                )
            return throttle_ms

        return use


def allowed(rules: Iterable[Acl], question: Question) -> bool:
    """Slow and obvious: every rule is looked at."""
    principal, host, operation, kind, name = question
    mine = [
        rule for rule in rules if rule.resource_type == kind and covers(rule, principal, host, name)
    ]
    if any(
        rule.permission == Permission.DENY and rule.operation in (Operation.ALL, operation)
        for rule in mine
    ):
        return False
    enough = [Operation.ALL, operation]
    if operation == Operation.DESCRIBE:
        enough += IMPLIES_DESCRIBE
    return any(rule.permission == Permission.ALLOW and rule.operation in enough for rule in mine)


def covers(rule: Acl, principal: Principal, host: str, name: str) -> bool:
    if rule.principal not in ("User:*", str(principal)):
        return False
    if "/" in rule.host:
        if ip_address(host) not in ip_network(rule.host):
            return False
    elif rule.host not in ("*", host):
        return False
    if rule.pattern_type == PatternType.PREFIXED:
        return name.startswith(rule.resource_name)
    return rule.resource_name in ("*", name)
