"""Access rules (ACLs) and filters over them, with Kafka's numbers and meanings (KIP-11, KIP-290).

A rule allows or denies one principal one operation on resources, from one address. Resources are
given by a literal name, by `*` for all of a type, or by a prefix.
"""

from enum import IntEnum
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple


class ResourceType(IntEnum):
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    ANY = 1
    DENY = 2
    ALLOW = 3


RESOURCE_TYPES: tuple[int, ...] = tuple(ResourceType)
PATTERN_TYPES: tuple[int, ...] = tuple(PatternType)
OPERATIONS: tuple[int, ...] = tuple(Operation)
PERMISSIONS: tuple[int, ...] = tuple(Permission)

CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""
WILDCARD = "*"
"""As a resource name: all of the type. As a host: from everywhere."""
WILDCARD_PRINCIPAL = "User:*"

IMPLIED_BY = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""Whoever is allowed one of these is allowed the key too. A denial implies nothing."""

Network = IPv4Network | IPv6Network


class Acl(NamedTuple):
    """One rule. Plain numbers: a rule of a newer Kafka is kept, and matches nothing we ask."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class AclFilter(NamedTuple):
    """Which rules are meant. None and ANY: whatever it is."""

    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._pattern_matches(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _pattern_matches(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type == PatternType.MATCH:
            return covers(acl.pattern_type, acl.resource_name, self.resource_name)
        return self.resource_name == acl.resource_name


def covers(pattern_type: int, pattern: str, name: str) -> bool:
    """The pattern of a rule speaks of the resource of this name."""
    if pattern_type == PatternType.PREFIXED:
        return name.startswith(pattern)
    return pattern in (WILDCARD, name)


def network_of(host: str) -> Network | None:
    """The range that a rule's host is; None if it is one address or all of them."""
    if "/" not in host:
        return None
    try:
        return ip_network(host, strict=False)
    except ValueError:
        return None


def host_matches(rule_host: str, network: Network | None, host: str) -> bool:
    if network is None:
        return rule_host in (WILDCARD, host)
    try:
        return ip_address(host) in network
    except ValueError:
        return False


def misfit_of_new(acl: Acl) -> str | None:
    """Why Kafka would not take such a rule; None if it would."""
    if acl.resource_type not in RESOURCE_TYPES or acl.resource_type == ResourceType.ANY:
        return f"resource type {acl.resource_type} cannot be in a rule"
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"pattern type {acl.pattern_type} cannot be in a rule: LITERAL or PREFIXED"
    if acl.operation not in OPERATIONS or acl.operation == Operation.ANY:
        return f"operation {acl.operation} cannot be in a rule"
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        return f"permission {acl.permission} cannot be in a rule: DENY or ALLOW"
    if not acl.resource_name:
        return "a rule needs the name of a resource"
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"a rule about the cluster names it {CLUSTER_NAME}"
    kind, colon, name = acl.principal.partition(":")
    if not (kind and colon and name):
        return f"{acl.principal!r} is no principal: it is written User:NAME"
    if "/" in acl.host and network_of(acl.host) is None:
        return f"{acl.host} is neither an address nor a range of addresses"
    return None if acl.host else "a rule needs a host: * for all of them"


def misfit_of_filter(wanted: AclFilter) -> str | None:
    known = (
        wanted.resource_type in RESOURCE_TYPES
        and wanted.pattern_type in PATTERN_TYPES
        and wanted.operation in OPERATIONS
        and wanted.permission in PERMISSIONS
    )
    return None if known else "the filter has a part that is not known here"
