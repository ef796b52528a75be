"""Who may do what: the rules of Kafka's StandardAuthorizer (KIP-801), and a memory of decisions.

1. A super user may do everything.
2. A rule that denies wins over every rule that allows, whichever is more specific.
3. A rule that allows READ, WRITE, DELETE or ALTER allows DESCRIBE too, and ALTER_CONFIGS allows
   DESCRIBE_CONFIGS. Denials imply nothing.
4. What no rule speaks of is denied, unless `allow.everyone.if.no.acl.found` is set and there is
   no rule about the resource at all, for anybody.

Decisions are remembered until a rule changes: the same few questions come with every request.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tidelog.core.security.acls import (
    CLUSTER_NAME,
    IMPLIED_BY,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Network,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    host_matches,
    network_of,
)
from tidelog.core.security.principal import Principal

REMEMBERED_MAX = 20_000
"""Decisions. One more and all are forgotten: a peer that asks for made-up names costs no more."""


class Rule(NamedTuple):
    """A rule, with what would be worked out again for every request."""

    acl: Acl
    network: Network | None


class Authorizer:
    """One per node. Not ready before the rules are loaded: until then super users only."""

    __slots__ = (
        "_allow_if_none",
        "_by_id",
        "_decisions",
        "_lengths",
        "_literal",
        "_prefixed",
        "_some",
        "_super_users",
        "generation",
        "ready",
    )

    def __init__(self, super_users: Iterable[Principal] = (), *, allow_if_none: bool = False):
        self._super_users = dict.fromkeys(super_users)
        self._allow_if_none = allow_if_none
        self._by_id: dict[bytes, Acl] = {}
        self._literal: dict[tuple[int, str], dict[bytes, Rule]] = {}
        self._prefixed: dict[tuple[int, str], dict[bytes, Rule]] = {}
        self._lengths: dict[int, dict[int, int]] = {}
        """By resource type: lengths of prefixes, and how many prefixes have them."""
        self._decisions: dict[tuple[Principal, str, int, int, str], bool] = {}
        self._some: dict[tuple[Principal, str, int, int], bool] = {}
        """Answers of `allows_some`, which looks at every rule."""
        self.generation = 0
        """Counts the changes: what was allowed in an earlier one is asked again."""
        self.ready = False

    def __len__(self) -> int:
        return len(self._by_id)

    # -- rules

    def load(self, acls: Mapping[bytes, Acl]) -> None:
        """These and no others."""
        for acl_id in list(self._by_id):
            self.remove(acl_id)
        assert not self._literal, f"{len(self._literal)} literal patterns are left"
        assert not self._prefixed, f"{len(self._prefixed)} prefixes are left"
        for acl_id, acl in acls.items():
            self.add(acl_id, acl)

    def add(self, acl_id: bytes, acl: Acl) -> None:
        assert acl_id not in self._by_id, f"rule {acl_id.hex()} is there, as {acl}"
        self._by_id[acl_id] = acl
        rules = self._filed(acl)
        key = (acl.resource_type, acl.resource_name)
        if acl.pattern_type == PatternType.PREFIXED and key not in rules:
            lengths = self._lengths.setdefault(acl.resource_type, {})
            lengths[len(acl.resource_name)] = lengths.get(len(acl.resource_name), 0) + 1
        rules.setdefault(key, {})[acl_id] = Rule(acl, network_of(acl.host))
        self.forget_decisions()

    def remove(self, acl_id: bytes) -> None:
        assert acl_id in self._by_id, f"no rule {acl_id.hex()} among {len(self._by_id)}"
        acl = self._by_id.pop(acl_id)
        rules = self._filed(acl)
        key = (acl.resource_type, acl.resource_name)
        del rules[key][acl_id]
        if not rules[key]:
            del rules[key]
            if acl.pattern_type == PatternType.PREFIXED:
                lengths = self._lengths[acl.resource_type]
                lengths[len(acl.resource_name)] -= 1
                if not lengths[len(acl.resource_name)]:
                    del lengths[len(acl.resource_name)]
        self.forget_decisions()

    def forget_decisions(self) -> None:
        self._decisions.clear()
        self._some.clear()
        self.generation += 1

    def _filed(self, acl: Acl) -> dict[tuple[int, str], dict[bytes, Rule]]:
        return self._prefixed if acl.pattern_type == PatternType.PREFIXED else self._literal

    # -- decisions

    def allows(
        self, principal: Principal, host: str, operation: int, resource_type: int, name: str
    ) -> bool:
        question = (principal, host, operation, resource_type, name)
        decision = self._decisions.get(question)
        if decision is None:
            decision = self.decide(*question)
            if len(self._decisions) >= REMEMBERED_MAX:
                self._decisions.clear()
            self._decisions[question] = decision
        return decision

    def decide(
        self, principal: Principal, host: str, operation: int, resource_type: int, name: str
    ) -> bool:
        if principal in self._super_users:
            return True
        if not self.ready:
            return False
        allowed = spoken_of = False
        for rule in self._about(resource_type, name):
            spoken_of = True
            if not speaks_to(rule, principal, host):
                continue
            if rule.acl.permission == Permission.DENY:
                if denies(rule.acl, operation):
                    return False
            elif allows(rule.acl, operation):
                allowed = True
        return allowed or (self._allow_if_none and not spoken_of)

    def allows_some(
        self, principal: Principal, host: str, operation: int, resource_type: int
    ) -> bool:
        """On at least one resource of this type, whether it exists or not (KIP-679)."""
        question = (principal, host, operation, resource_type)
        decision = self._some.get(question)
        if decision is None:
            if len(self._some) >= REMEMBERED_MAX:
                self._some.clear()
            decision = self._some[question] = self.decide_some(*question)
        return decision

    def decide_some(
        self, principal: Principal, host: str, operation: int, resource_type: int
    ) -> bool:
        if self.allows(principal, host, operation, resource_type, "hardcode"):
            return True  # Kafka's word: a name that stands for any that no rule speaks of
        mine = [
            rule.acl
            for rules in (self._literal, self._prefixed)
            for (kind, _), by_id in rules.items()
            if kind == resource_type
            for rule in by_id.values()
            if speaks_to(rule, principal, host) and rule.acl.operation in (operation, Operation.ALL)
        ]
        denied = [acl for acl in mine if acl.permission == Permission.DENY]
        return any(
            not any(dominates(other, acl) for other in denied)
            for acl in mine
            if acl.permission == Permission.ALLOW
        )

    def operations(self, principal: Principal, host: str, resource_type: int, name: str) -> int:
        """As Kafka's bits: what somebody may do with a resource."""
        assert resource_type in POSSIBLE, f"nobody lists what can be done with {resource_type}"
        return sum(
            1 << operation
            for operation in POSSIBLE[resource_type]
            if self.allows(principal, host, operation, resource_type, name)
        )

    def _about(self, resource_type: int, name: str) -> Iterator[Rule]:
        """Every rule whose pattern covers the resource."""
        for literal in (name, WILDCARD):
            yield from self._literal.get((resource_type, literal), {}).values()
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                found = self._prefixed.get((resource_type, name[:length]))
                if found is not None:
                    yield from found.values()


def speaks_to(rule: Rule, principal: Principal, host: str) -> bool:
    if rule.acl.principal not in (WILDCARD_PRINCIPAL, str(principal)):
        return False
    return host_matches(rule.acl.host, rule.network, host)


def denies(acl: Acl, operation: int) -> bool:
    return acl.operation in (Operation.ALL, operation)


def allows(acl: Acl, operation: int) -> bool:
    if acl.operation in (Operation.ALL, operation):
        return True
    return acl.operation in IMPLIED.get(operation, ())


def dominates(denied: Acl, acl: Acl) -> bool:
    """Whatever the one allows, the other denies."""
    if denied.pattern_type == PatternType.PREFIXED:
        return acl.resource_name.startswith(denied.resource_name)
    if denied.resource_name == WILDCARD:
        return True
    return acl.pattern_type == PatternType.LITERAL and acl.resource_name == denied.resource_name


IMPLIED: dict[int, tuple[int, ...]] = {int(key): value for key, value in IMPLIED_BY.items()}

POSSIBLE: dict[int, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""What can be done with a resource, for answers that list what somebody may do."""

__all__ = ["CLUSTER_NAME", "POSSIBLE", "Authorizer", "Rule"]
