"""Metadata that Kafka wrote: a node keeps them, or they are a reason not to start."""

from collections.abc import Iterator, Mapping

from tidelog.config.client_keys import STANDARD_AUTHORIZER
from tidelog.core.metadata.records import (
    AccessControlEntry,
    Foreign,
    RemoveAccessControlEntry,
)
from tidelog.core.quorum.voters import Voters, read_snapshot, voters_in_records
from tidelog.core.types import LogEntry
from tidelog.node.disks import CannotStart
from tidelog.quorum.entry_codec import KafkaEntryCodec
from tidelog.quorum.foreign_records import TOKEN
from tidelog.storage.meta_properties import MetaProperties
from tidelog.storage.metadata_log import MetadataLog
from tidelog.storage.uuids import uuid_text

_ENTRIES = 1_000
_CHUNK_BYTES = 1 << 20


def check_metadata(log: MetadataLog, *, authorizer: bool) -> None:
    """CannotStart if somebody had locked this cluster, which here would be open to everybody."""
    left = _left_in(log)
    tokens = sum(isinstance(record, Foreign) and record.kind == TOKEN for record in left)
    if tokens:
        raise CannotStart(
            f"the metadata, written by Kafka, has {tokens} delegation tokens, which Tidelog"
            " does not know",
            advice="remove them with Kafka first, as docs/moving.md says",
        )
    rules = sum(isinstance(record, AccessControlEntry) for record in left)
    if rules and not authorizer:
        raise CannotStart(
            f"the metadata has {rules} access rules (ACLs), and without an authorizer this node"
            " would serve everybody",
            advice=f"authorizer.class.name={STANDARD_AUTHORIZER} in its server.properties",
        )


def recorded_voters(log: MetadataLog, codec: KafkaEntryCodec) -> Voters | None:
    """The voters as the log has them: where Kafka keeps a dynamic quorum (kraft.version 1)."""
    found: Voters | None = None
    content = read_snapshot(log, _CHUNK_BYTES)
    if isinstance(content, bytes):
        found = voters_in_records(codec.decode_snapshot(content)[1])
    for entry in _entries(log):
        if entry.control:
            found = voters_in_records(entry.records) or found
    return found


def check_voters(
    recorded: Voters, configured: Mapping[int, object], identity: MetaProperties
) -> None:
    """CannotStart unless they are those of the configuration, which alone has their addresses."""
    ids = sorted(voter.node_id for voter in recorded)
    if ids != sorted(configured):
        raise CannotStart(
            f"the metadata log names the voters {', '.join(map(str, ids))},"
            f" controller.quorum.voters {', '.join(map(str, sorted(configured)))}",
            advice=f"controller.quorum.voters with the addresses of {', '.join(map(str, ids))}",
        )
    for voter in recorded:
        if voter.node_id == identity.node_id and voter.directory_id != identity.directory_id:
            other = uuid_text(voter.directory_id)
            raise CannotStart(
                f"node {voter.node_id} votes from another directory, {other}",
                advice="the metadata.log.dir that this node had under Kafka",
            )


def _left_in(log: MetadataLog) -> list[object]:
    """What Kafka alone knows, and access rules: those that are left at the end of the log."""
    found: dict[object, object] = {}
    for record in _records(log):
        if isinstance(record, Foreign):
            if record.removed:
                found.pop((record.kind, record.name), None)
            else:
                found[record.kind, record.name] = record
        elif isinstance(record, AccessControlEntry):
            found[record.acl_id] = record
        elif isinstance(record, RemoveAccessControlEntry):
            found.pop(record.acl_id, None)
    return list(found.values())


def _records(log: MetadataLog) -> Iterator[object]:
    if log.latest_snapshot is not None:
        yield from log.read_snapshot(log.latest_snapshot)
    for entry in _entries(log):
        if not entry.control:
            yield from entry.records


def _entries(log: MetadataLog) -> Iterator[LogEntry]:
    """Those that the latest snapshot does not cover."""
    offset = log.log_start_offset
    if log.latest_snapshot is not None:
        offset = max(offset, log.latest_snapshot.end_offset)
    while entries := log.entries_from(offset, _ENTRIES):
        yield from entries
        offset = entries[-1].next_offset
