"""The form of a broker key: its type, its limits and whether anything obeys it."""

from enum import StrEnum
from typing import NamedTuple, TypedDict, Unpack

from tidelog.core.metadata.topic_configs import INT32_MAX, INT64_MAX

Value = int | float | bool | str | tuple[str, ...] | None
"""None: not set, and there is no default."""


class Kind(StrEnum):
    INT = "int"
    LONG = "long"
    DURATION = "duration"
    BYTES = "bytes"
    BOOL = "bool"
    STRING = "string"
    LIST = "list"
    DOUBLE = "double"
    PASSWORD = "password"  # noqa: S105 - the name of a type


class Status(StrEnum):
    IMPLEMENTED = "implemented"
    NO_EFFECT = "no-effect"
    UNSUPPORTED = "unsupported"


STATUS_MEANINGS = {
    Status.IMPLEMENTED: "Tidelog obeys it",
    Status.NO_EFFECT: "understood and checked, but nothing depends on it yet",
    Status.UNSUPPORTED: "Tidelog cannot do what it asks for",
}

UNITS_MS = {"ms": 1, "seconds": 1000, "minutes": 60_000, "hours": 3_600_000}


class BrokerKey(NamedTuple):
    name: str
    kind: Kind
    default: Value
    meaning: str
    status: Status = Status.NO_EFFECT
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    live: bool = False
    """Can change while the node runs."""
    topic_name: str | None = None
    """The topic setting for which this is the default."""
    falls_back_to: str | None = None
    """A coarser key that says the same and counts when this one is not set beside it."""
    ours: bool = False
    """Kafka does not know it."""
    refused: bool = False
    """Unsupported, and a node that ignored it would be less safe than its owner believes."""

    @property
    def unit(self) -> str | None:
        """What a number of this key counts."""
        if self.kind is Kind.BYTES:
            return "bytes"
        return duration_unit(self.name) if self.kind is Kind.DURATION else None

    @property
    def unit_ms(self) -> int:
        assert self.kind is Kind.DURATION, f"{self.name} is {self.kind}, not a duration"
        return UNITS_MS[duration_unit(self.name)]


def duration_unit(name: str) -> str:
    """Kafka puts the unit of a duration at the end of its name."""
    unit = name.rpartition(".")[2]
    assert unit in UNITS_MS, f"{name} names no unit of time"
    return unit


class Rest(TypedDict, total=False):
    at_least: float | None
    at_most: float | None
    choices: tuple[str, ...]
    live: bool
    topic_name: str | None
    falls_back_to: str | None
    ours: bool
    refused: bool


def integer(name: str, default: int | None, meaning: str, **rest: Unpack[Rest]) -> BrokerKey:
    return BrokerKey(name, Kind.INT, default, meaning, **_within(INT32_MAX, rest))


def long(name: str, default: int | None, meaning: str, **rest: Unpack[Rest]) -> BrokerKey:
    return BrokerKey(name, Kind.LONG, default, meaning, **_within(INT64_MAX, rest))


def duration(name: str, default: int | None, meaning: str, **rest: Unpack[Rest]) -> BrokerKey:
    return BrokerKey(name, Kind.DURATION, default, meaning, **_within(INT64_MAX, rest))


def size(name: str, default: int | None, meaning: str, **rest: Unpack[Rest]) -> BrokerKey:
    return BrokerKey(name, Kind.BYTES, default, meaning, **_within(INT64_MAX, rest))


def double(name: str, default: float, meaning: str, **rest: Unpack[Rest]) -> BrokerKey:
    return BrokerKey(name, Kind.DOUBLE, default, meaning, **rest)


def switch(name: str, default: bool, meaning: str, **rest: Unpack[Rest]) -> BrokerKey:
    return BrokerKey(name, Kind.BOOL, default, meaning, **rest)


def text(name: str, default: str | None, meaning: str, **rest: Unpack[Rest]) -> BrokerKey:
    return BrokerKey(name, Kind.STRING, default, meaning, **rest)


def names(
    name: str, default: tuple[str, ...] | None, meaning: str, **rest: Unpack[Rest]
) -> BrokerKey:
    return BrokerKey(name, Kind.LIST, default, meaning, **rest)


def secret(name: str, meaning: str, **rest: Unpack[Rest]) -> BrokerKey:
    return BrokerKey(name, Kind.PASSWORD, None, meaning, **rest)


def implemented(*keys: BrokerKey) -> tuple[BrokerKey, ...]:
    return tuple(key._replace(status=Status.IMPLEMENTED) for key in keys)


def without_effect(*keys: BrokerKey) -> tuple[BrokerKey, ...]:
    return tuple(key._replace(status=Status.NO_EFFECT) for key in keys)


def unsupported(*keys: BrokerKey) -> tuple[BrokerKey, ...]:
    return tuple(key._replace(status=Status.UNSUPPORTED) for key in keys)


def _within(most: int, rest: Rest) -> Rest:
    """A number is limited by what Kafka's type can hold, if by nothing narrower."""
    given: Rest = {"at_least": -1 - most, "at_most": most}
    given.update(rest)
    return given
