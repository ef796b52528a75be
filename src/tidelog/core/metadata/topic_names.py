"""Which names a topic may have (INVALID_TOPIC_EXCEPTION 17 otherwise).

A name becomes part of directory names and of metric names. Metric names turn `.` into `_`, so
two topics that differ only there would be one to anybody who watches them.
"""

import re
from collections.abc import Iterable

MAX_LENGTH = 249
"""A directory is named after the topic and the partition, and must stay below 256 bytes."""

RESERVED = ("__cluster_metadata",)

LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
ILLEGAL_LETTER = re.compile(r"[^a-zA-Z0-9._-]")


def check_topic_name(name: str) -> str | None:
    """The reason why no topic can have this name, or None."""
    if not name:
        return "a topic needs a name"
    if name in (".", ".."):
        return f"a topic cannot be named {name!r}, that is a directory already"
    if name in RESERVED:
        return f"{name} is the metadata log and cannot be created"
    if len(name) > MAX_LENGTH:
        return f"the name has {len(name)} characters, {MAX_LENGTH} are possible"
    if LEGAL.fullmatch(name) is None:
        illegal = dict.fromkeys(ILLEGAL_LETTER.findall(name))
        return (
            f"the name {name!r} contains {' '.join(map(repr, illegal))}; letters, digits and . _ -"
            " are possible"
        )
    return None


def collision_key(name: str) -> str:
    """Names with the same key share their metrics."""
    return name.replace(".", "_")


def may_collide(name: str) -> bool:
    return "." in name or "_" in name


def colliding_topic(name: str, existing: Iterable[str]) -> str | None:
    """Another existing topic that could not be told from this one, or None."""
    if not may_collide(name):
        return None
    key = collision_key(name)
    for other in existing:
        if other != name and collision_key(other) == key:
            return other
    return None
