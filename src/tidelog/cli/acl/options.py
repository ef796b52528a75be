"""How rules and filters over them are written on a command line."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click

from tidelog.cli.failure import USAGE, CommandError
from tidelog.core.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

Command = TypeVar("Command", bound=Callable[..., Any])

OPERATIONS = [each.name.lower().replace("_", "-") for each in Operation if each != Operation.ANY]


class Resource(NamedTuple):
    kind: ResourceType
    name: str
    pattern: PatternType


def resource_options(command: Command) -> Command:
    for option in (
        click.option("--topic", metavar="NAME", help="A topic; 'a-*' for a prefix, '*' for all."),
        click.option("--group", metavar="NAME", help="A consumer group, likewise."),
        click.option("--transactional-id", metavar="NAME", help="A transactional id, likewise."),
        click.option("--cluster", is_flag=True, help="The cluster itself."),
        click.option("--user", metavar="NAME", help="Whom: a name, or '*' for everybody."),
        click.option("--host", metavar="ADDRESS", help="From where: an address or range."),
    ):
        command = option(command)
    return command


def resource_of(given: dict[str, Any]) -> Resource | None:
    """None if none is named. Two at once are a mistake."""
    named = [
        (ResourceType.TOPIC, given["topic"]),
        (ResourceType.GROUP, given["group"]),
        (ResourceType.TRANSACTIONAL_ID, given["transactional_id"]),
        (ResourceType.CLUSTER, CLUSTER_NAME if given["cluster"] else None),
    ]
    found = [(kind, name) for kind, name in named if name is not None]
    if len(found) > 1:
        raise CommandError(
            "a rule is about one resource",
            why="more than one of --topic, --group, --transactional-id and --cluster was given",
            advice="one command for each",
            code=USAGE,
        )
    if not found:
        return None
    kind, name = found[0]
    if name != WILDCARD and name.endswith(WILDCARD):
        return Resource(kind, name[:-1], PatternType.PREFIXED)
    return Resource(kind, name, PatternType.LITERAL)


def operation_of(text: str) -> Operation:
    return Operation[text.upper().replace("-", "_")]


def filter_of(given: dict[str, Any]) -> AclFilter:
    resource = resource_of(given)
    user = given["user"]
    return AclFilter(
        resource.kind if resource else ResourceType.ANY,
        resource.name if resource else None,
        resource.pattern if resource else PatternType.ANY,
        None if user is None else f"User:{user}",
        given["host"],
    )


def row_of(acl: Acl) -> dict[str, Any]:
    suffix = WILDCARD if acl.pattern_type == PatternType.PREFIXED else ""
    return {
        "principal": acl.principal,
        "permission": Permission(acl.permission).name.lower(),
        "operation": Operation(acl.operation).name.lower().replace("_", "-"),
        "resource": ResourceType(acl.resource_type).name.lower().replace("_", "-"),
        "name": acl.resource_name + suffix,
        "pattern": PatternType(acl.pattern_type).name.lower(),
        "host": acl.host,
    }
