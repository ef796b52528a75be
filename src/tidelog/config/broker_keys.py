"""Every broker key that Tidelog knows, with Kafka 4's defaults (replication.md §10).

Three kinds: what Tidelog obeys, what it understands without anything depending on it yet, and
what it cannot do. The last are here so that a file of Kafka's is judged by meaning, not by
spelling: most of them are harmless to ignore, some are not (`BrokerKey.refused`).
"""

from difflib import get_close_matches

from tidelog.config import client_keys, log_keys, node_keys, replication_keys, security_keys
from tidelog.config.key_types import BrokerKey

SECTIONS: tuple[tuple[str, tuple[BrokerKey, ...]], ...] = (
    ("Node", node_keys.IDENTITY),
    ("Listeners", node_keys.LISTENERS),
    ("Metadata quorum", node_keys.QUORUM),
    ("Metadata log", node_keys.METADATA),
    ("Life of a node", node_keys.LIFE),
    ("Tidelog's own", node_keys.OURS),
    ("Topics and leaders", replication_keys.TOPICS),
    ("Followers", replication_keys.FOLLOWERS),
    ("Throttles", replication_keys.THROTTLES),
    ("Log directories", log_keys.DIRECTORIES),
    ("Segments", log_keys.SEGMENTS),
    ("Retention", log_keys.RETENTION),
    ("Flushing", log_keys.FLUSHING),
    ("Compaction", (*log_keys.COMPACTION, *log_keys.CLEANING)),
    ("Records", log_keys.RECORDS),
    ("Remote storage", log_keys.TIERED),
    ("Connections and requests", client_keys.SOCKETS),
    ("Quotas of clients", client_keys.QUOTAS),
    ("Offsets", client_keys.OFFSETS),
    ("Groups", client_keys.GROUPS),
    ("Share groups", client_keys.SHARE_GROUPS),
    ("Transactions and producers", client_keys.TRANSACTIONS),
    (
        "Security",
        (*client_keys.AUTHORIZATION, *client_keys.SECURITY, *security_keys.PEER),
    ),
    ("TLS", security_keys.TLS),
    ("SASL", security_keys.SASL),
)

KEYS: dict[str, BrokerKey] = {key.name: key for _, keys in SECTIONS for key in keys}

BROKER_NAMES_OF_TOPIC_CONFIGS: dict[str, str] = {
    key.topic_name: key.name for key in KEYS.values() if key.topic_name is not None
}

LISTENER_PREFIX = "listener.name."


def find_key(name: str) -> BrokerKey | None:
    """Also finds `listener.name.internal.ssl.key.password`: a key for one listener alone."""
    if name.startswith(LISTENER_PREFIX):
        name = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
        if name not in KEYS:  # `listener.name.internal.plain.sasl.jaas.config`
            name = name.partition(".")[2]
    return KEYS.get(name)


def nearest_name(name: str) -> str | None:
    """The known name that somebody most likely meant."""
    if name in BROKER_NAMES_OF_TOPIC_CONFIGS:
        return BROKER_NAMES_OF_TOPIC_CONFIGS[name]
    near = get_close_matches(name[:100], KEYS, n=1, cutoff=0.6)
    return near[0] if near else None


def synonyms(key: BrokerKey) -> tuple[str, ...]:
    """Coarser keys that say the same, the finest first."""
    found: list[str] = []
    while key.falls_back_to is not None:
        found.append(key.falls_back_to)
        key = KEYS[key.falls_back_to]
    return tuple(found)
