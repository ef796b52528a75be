"""Records of Kafka's metadata log that our nodes never write.

Some say what ours say too, in an older form. The others are about things that only Kafka has:
they are kept as they came (`core.metadata.records.Foreign`) and go into our snapshots, so that a
directory can go back to Kafka with everything it brought.
"""

from collections.abc import Callable
from typing import Any

from tidelog.core.metadata import records as r
from tidelog.wire.protocol import Message
from tidelog.wire.protocol import metadata_schemas as s
from tidelog.wire.records import UnknownRecord

TOKEN = "DelegationToken"  # noqa: S105
CONTROLLER = "RegisterController"
MIGRATION = "ZkMigrationState"


# Any: each takes the one message it is filed under.
KEPT: dict[type[Message], tuple[str, Callable[[Any], str]]] = {
    s.DelegationTokenRecord: (TOKEN, lambda message: message.token_id),
    s.RegisterControllerRecord: (CONTROLLER, lambda message: str(message.controller_id)),
    s.MigrationStateRecord: (MIGRATION, lambda message: ""),
}
REMOVED: dict[type[Message], tuple[str, Callable[[Any], str]]] = {
    s.RemoveDelegationTokenRecord: (TOKEN, lambda message: message.token_id),
}


def read_foreign(message: Message, value: bytes) -> r.MetadataRecord | None:
    """In the core's words; None if it is none of these. `value` is the message as it came."""
    kind = type(message)
    if kind in KEPT:
        name, identify = KEPT[kind]
        return r.Foreign(name, identify(message), value)
    if kind in REMOVED:
        name, identify = REMOVED[kind]
        return r.Foreign(name, identify(message), value, removed=True)
    if isinstance(message, s.FenceBrokerRecord):
        return r.BrokerRegistrationChange(message.id, message.epoch, fenced=1)
    if isinstance(message, s.UnfenceBrokerRecord):
        return r.BrokerRegistrationChange(message.id, message.epoch, fenced=-1)
    if isinstance(message, s.BeginTransactionRecord | s.EndTransactionRecord):
        return r.NoOp()  # whole: one that was given up ends with the record below
    if isinstance(message, s.AbortTransactionRecord):
        raise UnknownRecord(
            "a transaction of metadata records that Kafka gave up is not understood; "
            "a snapshot by Kafka (metadata.log.max.snapshot.interval.ms) does without it"
        )
    return None
