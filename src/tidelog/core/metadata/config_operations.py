"""What a request to alter settings comes to, as changes of single values (KIP-133, KIP-339).

Adding to a list and replacing everything depend on what is there, so they are worked out against
the image right before the decision that uses them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.metadata.configs import ConfigError
from tidelog.core.metadata.topic_configs import (
    KNOWN,
    ListConfig,
    ThrottledReplicasConfig,
    split_list,
)

SET = 0
DELETE = 1
APPEND = 2
SUBTRACT = 3
NAMES = {APPEND: "append to", SUBTRACT: "subtract from"}

Change = tuple[str, str | None]
ListDefault = Callable[[str], str | None]
"""The default of a setting that is a list; None: it is no list, or there is no such setting."""


class Operation(NamedTuple):
    name: str
    kind: int
    value: str | None


def topic_list_default(name: str) -> str | None:
    known = KNOWN.get(name)
    return known.default if isinstance(known, ListConfig | ThrottledReplicasConfig) else None


def changes_of(
    operations: Iterable[Operation], present: Mapping[str, str], list_default: ListDefault
) -> tuple[Change, ...]:
    """In the order of the operations. Raises ConfigError."""
    return tuple((each.name, _value_after(each, present, list_default)) for each in operations)


def replacement(wanted: Iterable[Change], present: Mapping[str, str]) -> tuple[Change, ...]:
    """Everything that is not named goes back to its default. Raises ConfigError."""
    changes = list(wanted)
    for name, value in changes:
        if value is None:
            raise ConfigError(Error.INVALID_REQUEST, f"{name} has no value; leave it out instead")
    named = dict(changes)
    return (*changes, *((name, None) for name in present if name not in named))


def _value_after(
    operation: Operation, present: Mapping[str, str], list_default: ListDefault
) -> str | None:
    name, kind, value = operation
    if kind == DELETE:
        return None
    if kind not in (SET, APPEND, SUBTRACT):
        raise ConfigError(Error.INVALID_REQUEST, f"{name}: there is no operation {kind}")
    if value is None:
        raise ConfigError(Error.INVALID_REQUEST, f"{name} has no value; delete it instead")
    if kind == SET:
        return value
    default = list_default(name)
    if default is None:
        reason = f"cannot {NAMES[kind]} {name}, it is no setting that holds a list"
        raise ConfigError(Error.INVALID_CONFIG, reason)
    items = split_list(present.get(name, default))
    given = split_list(value)
    if kind == APPEND:
        return ",".join(dict.fromkeys((*items, *given)))
    return ",".join(item for item in items if item not in given)
