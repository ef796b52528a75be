"""The settings of a topic: their names, types, defaults and limits, as Kafka has them.

Settings travel and are stored as text. A value is checked when it is set (INVALID_CONFIG 40 with
the reason from here), so reading one later cannot fail: a stored value that does not fit is our
own bug. A setting that we do not know is refused too, because a typo in `retention.ms` that is
accepted silently costs somebody their data.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import NamedTuple

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

DAY_MS = 24 * 60 * 60 * 1000
HOUR_MS = 60 * 60 * 1000


class IntConfig(NamedTuple):
    default: int
    at_least: int
    at_most: int = INT64_MAX


class FloatConfig(NamedTuple):
    default: float
    at_least: float
    at_most: float


class BoolConfig(NamedTuple):
    default: bool


class ChoiceConfig(NamedTuple):
    default: str
    choices: tuple[str, ...]


class ListConfig(NamedTuple):
    """A comma-separated list of choices, each at most once, at least one."""

    default: str
    choices: tuple[str, ...]


class ThrottledReplicasConfig(NamedTuple):
    """`partition:broker,…`, or `*` for all, or nothing."""

    default: str = ""


TopicConfig = (
    IntConfig | FloatConfig | BoolConfig | ChoiceConfig | ListConfig | ThrottledReplicasConfig
)

MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION_ENABLE = "unclean.leader.election.enable"
MIN_COMPACTION_LAG_MS = "min.compaction.lag.ms"
MAX_COMPACTION_LAG_MS = "max.compaction.lag.ms"
LEADER_THROTTLED_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED_REPLICAS = "follower.replication.throttled.replicas"

KNOWN: dict[str, TopicConfig] = {
    "cleanup.policy": ListConfig("delete", ("delete", "compact")),
    "compression.gzip.level": IntConfig(-1, at_least=-1, at_most=9),
    "compression.lz4.level": IntConfig(9, at_least=1, at_most=17),
    "compression.type": ChoiceConfig(
        "producer", ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
    ),
    "compression.zstd.level": IntConfig(3, at_least=-131_072, at_most=22),
    "delete.retention.ms": IntConfig(DAY_MS, at_least=0),
    "file.delete.delay.ms": IntConfig(60_000, at_least=0),
    "flush.messages": IntConfig(INT64_MAX, at_least=1),
    "flush.ms": IntConfig(INT64_MAX, at_least=0),
    FOLLOWER_THROTTLED_REPLICAS: ThrottledReplicasConfig(),
    "index.interval.bytes": IntConfig(4096, at_least=0, at_most=INT32_MAX),
    LEADER_THROTTLED_REPLICAS: ThrottledReplicasConfig(),
    MAX_COMPACTION_LAG_MS: IntConfig(INT64_MAX, at_least=1),
    "max.message.bytes": IntConfig(1_048_588, at_least=0, at_most=INT32_MAX),
    "message.timestamp.after.max.ms": IntConfig(HOUR_MS, at_least=0),
    "message.timestamp.before.max.ms": IntConfig(INT64_MAX, at_least=0),
    "message.timestamp.type": ChoiceConfig("CreateTime", ("CreateTime", "LogAppendTime")),
    "min.cleanable.dirty.ratio": FloatConfig(0.5, at_least=0.0, at_most=1.0),
    MIN_COMPACTION_LAG_MS: IntConfig(0, at_least=0),
    MIN_INSYNC_REPLICAS: IntConfig(1, at_least=1, at_most=INT32_MAX),
    "preallocate": BoolConfig(False),
    "retention.bytes": IntConfig(-1, at_least=-1),
    "retention.ms": IntConfig(7 * DAY_MS, at_least=-1),
    # At least 1 MiB since Kafka 4.0 (KIP-1030): tiny segments exhaust file handles.
    "segment.bytes": IntConfig(1024**3, at_least=1024**2, at_most=INT32_MAX),
    "segment.index.bytes": IntConfig(10 * 1024**2, at_least=4, at_most=INT32_MAX),
    "segment.jitter.ms": IntConfig(0, at_least=0),
    "segment.ms": IntConfig(7 * DAY_MS, at_least=1),
    UNCLEAN_LEADER_ELECTION_ENABLE: BoolConfig(False),
}

WHOLE_NUMBER = re.compile(r"-?[0-9]+")
DECIMAL_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE]-?[0-9]+)?|-?\.[0-9]+([eE]-?[0-9]+)?")
THROTTLED_REPLICAS = re.compile(r"\*|([0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)?")
BOOLEANS = {"true": True, "false": False}


def check_config(name: str, value: str) -> str | None:
    """The reason why a topic cannot have this setting, or None. Helps with names nearly right."""
    known = KNOWN.get(name)
    if known is None:
        near = get_close_matches(name, KNOWN, n=1)
        return f"no topic setting {name}" + (f", did you mean {near[0]}?" if near else "")
    expected = misfit(known, value.strip())
    return f"{name} must be {expected}, not {value!r}" if expected is not None else None


def check_together(values: Mapping[str, str]) -> str | None:
    """Settings that are fine one by one and make no sense together; defaults fill the gaps."""
    shortest = int_value(MIN_COMPACTION_LAG_MS, values.get(MIN_COMPACTION_LAG_MS))
    longest = int_value(MAX_COMPACTION_LAG_MS, values.get(MAX_COMPACTION_LAG_MS))
    if shortest > longest:
        return (
            f"{MIN_COMPACTION_LAG_MS}={shortest} must not be above"
            f" {MAX_COMPACTION_LAG_MS}={longest}"
        )
    return None


def int_value(name: str, value: str | None, *, default: int | None = None) -> int:
    """A whole number; without a value `default`, else the default of the setting."""
    known = KNOWN[name]
    assert isinstance(known, IntConfig), f"{name} is {known}, not a whole number"
    if value is None:
        return known.default if default is None else default
    return int(sound(name, value))


def bool_value(name: str, value: str | None, *, default: bool | None = None) -> bool:
    known = KNOWN[name]
    assert isinstance(known, BoolConfig), f"{name} is {known}, not true or false"
    if value is None:
        return known.default if default is None else default
    return BOOLEANS[sound(name, value).lower()]


def float_value(name: str, value: str | None) -> float:
    known = KNOWN[name]
    assert isinstance(known, FloatConfig), f"{name} is {known}, not a number"
    return known.default if value is None else float(sound(name, value))


def text_value(name: str, value: str | None) -> str:
    known = KNOWN[name]
    assert isinstance(known, ChoiceConfig), f"{name} is {known}, not a choice"
    return known.default if value is None else sound(name, value)


def list_value(name: str, value: str | None) -> tuple[str, ...]:
    known = KNOWN[name]
    assert isinstance(known, ListConfig), f"{name} is {known}, not a list"
    return split_list(known.default if value is None else sound(name, value))


class ThrottledReplicas(NamedTuple):
    """`all_replicas`, or exactly the (partition, broker) pairs listed."""

    all_replicas: bool
    listed: tuple[tuple[int, int], ...]

    def includes(self, partition: int, broker: int) -> bool:
        return self.all_replicas or (partition, broker) in self.listed


def throttled_replicas(name: str, value: str | None) -> ThrottledReplicas:
    known = KNOWN[name]
    assert isinstance(known, ThrottledReplicasConfig), f"{name} is {known}, not a replica list"
    text = known.default if value is None else sound(name, value)
    if text == "*":
        return ThrottledReplicas(True, ())
    pairs = [pair.split(":") for pair in split_list(text)]
    return ThrottledReplicas(False, tuple((int(p), int(broker)) for p, broker in pairs))


def misfit(known: TopicConfig, text: str) -> str | None:
    """What the value should have been, or None when it is that."""
    match known:
        case IntConfig(_, least, most):
            fits = WHOLE_NUMBER.fullmatch(text) is not None and least <= int(text) <= most
            return None if fits else f"a whole number {limits(least, most)}"
        case FloatConfig(_, low, high):
            fits = DECIMAL_NUMBER.fullmatch(text) is not None and low <= float(text) <= high
            return None if fits else f"a number from {low} to {high}"
        case BoolConfig():
            return None if text.lower() in BOOLEANS else "true or false"
        case ChoiceConfig(_, choices):
            return None if text in choices else f"one of {', '.join(choices)}"
        case ListConfig(_, choices):
            items = split_list(text)
            fits = bool(items) and len(set(items)) == len(items) and set(items) <= set(choices)
            return None if fits else f"a list of different ones of {', '.join(choices)}"
        case ThrottledReplicasConfig():
            fits = THROTTLED_REPLICAS.fullmatch(text) is not None
            return None if fits else "partition:broker,partition:broker,… or * or empty"


def limits(least: int, most: int) -> str:
    return f"of at least {least}" if most == INT64_MAX else f"from {least} to {most}"


def split_list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",")) if text else ()


def sound(name: str, value: str) -> str:
    """Trimmed; it was checked when it was set."""
    reason = check_config(name, value)
    assert reason is None, f"stored without a check: {reason}"
    return value.strip()
