"""Entries of the metadata log for people: what each record means, without anybody's secrets."""

from collections.abc import Callable, Iterator

from tidelog.core.metadata import records as r
from tidelog.core.types import NO_LEADER, LogEntry

TopicName = Callable[[bytes], str | None]


def rows(entry: LogEntry, topic_name: TopicName, most: int) -> Iterator[dict[str, object]]:
    """Of so many records at its end: one entry may create thousands of partitions."""
    skipped = max(0, len(entry.records) - most)
    for place, record in enumerate(entry.records[skipped:], skipped):
        yield {
            "offset": entry.offset + place,
            "epoch": entry.epoch,
            "record": type(record).__name__,
            "meaning": "the quorum's own" if entry.control else meaning(record, topic_name),
        }


def meaning(record: object, topic_name: TopicName) -> str:
    def topic(topic_id: bytes) -> str:
        return topic_name(topic_id) or topic_id.hex()[:6]

    match record:
        case r.RegisterBroker():
            return f"broker {record.broker_id} registers, broker epoch {record.broker_epoch}"
        case r.UnregisterBroker():
            return f"broker {record.broker_id} is no longer registered"
        case r.BrokerRegistrationChange():
            return _registration(record)
        case r.Topic():
            return f"topic {record.name} is created"
        case r.RemoveTopic():
            return f"topic {topic(record.topic_id)} is deleted"
        case r.Partition():
            return (
                f"{topic(record.topic_id)}-{record.partition} on {_ids(record.replicas)}, "
                f"ISR {_ids(record.isr)}, leader {_leader(record.leader)}"
            )
        case r.PartitionChange():
            return f"{topic(record.topic_id)}-{record.partition} {_change(record)}"
        case r.Config():
            verb = "back to its default" if record.value is None else "set"
            return f"{record.name} of {record.resource_name or 'all brokers'} {verb}"
        case r.FeatureLevel():
            return f"feature {record.name} at level {record.level}"
        case r.ProducerIds():
            return (
                f"producer ids below {record.next_producer_id} given to broker {record.broker_id}"
            )
        case r.NoOp():
            return "nothing: keeps an idle log moving"
        case r.UserScramCredential():
            return f"user {record.user} gets a password"
        case r.RemoveUserScramCredential():
            return f"user {record.user} loses a password"
        case r.AccessControlEntry():
            return "an ACL is added"
        case r.RemoveAccessControlEntry():
            return "an ACL is removed"
        case r.ClientQuota():
            return f"quota {record.key} is {'removed' if record.value is None else 'set'}"
        case _:
            return "kept as it is"


def _registration(record: r.BrokerRegistrationChange) -> str:
    words = {1: "is fenced", -1: "is unfenced", 0: "changes"}[record.fenced]
    if record.in_controlled_shutdown:
        words += ", is shutting down"
    return f"broker {record.broker_id} {words}"


def _change(record: r.PartitionChange) -> str:
    parts = []
    if record.leader != r.LEADER_UNCHANGED:
        parts.append(f"leader {_leader(record.leader)}")
    for name in ("isr", "replicas", "adding_replicas", "removing_replicas", "elr"):
        value = getattr(record, name)
        if value is not None:
            label = "ISR" if name == "isr" else name.replace("_", " ")
            parts.append(f"{label} {_ids(value)}")
    return ", ".join(parts) or "changes"


def _leader(leader: int) -> str:
    return "nobody" if leader == NO_LEADER else str(leader)


def _ids(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids)) or "none"
