"""What a node says about metadata that Kafka wrote: kept, or a reason not to start."""

import logging
from collections import Counter
from collections.abc import Iterator

from tidelog.core.metadata.records import Foreign
from tidelog.node.disks import CannotStart
from tidelog.quorum.foreign_records import ACCESS_RULE, PASSWORD, QUOTA, TOKEN
from tidelog.storage.metadata_log import MetadataLog

SECURITY = {
    ACCESS_RULE: "access rules (ACLs)",
    PASSWORD: "SCRAM credentials",
    TOKEN: "delegation tokens",
}
_ENTRIES = 1_000

_LOGGER = logging.getLogger("tidelog.node")


def check_metadata(log: MetadataLog) -> None:
    """CannotStart if somebody had locked this cluster, which here would be open to everybody."""
    counts = Counter(kind for kind, _ in _foreign_in(log))
    locks = [f"{counts[kind]} {name}" for kind, name in SECURITY.items() if counts[kind]]
    if locks:
        raise CannotStart(
            f"the metadata, written by Kafka, has {' and '.join(locks)}; Tidelog has no authorizer,"
            " and would serve everybody",
            advice="remove them with Kafka first, as docs/moving.md says",
        )
    if counts[QUOTA]:
        _LOGGER.warning("%d client quotas of Kafka are kept and not enforced", counts[QUOTA])


def _foreign_in(log: MetadataLog) -> dict[tuple[str, str], Foreign]:
    """What is left of it at the end of the log."""
    found: dict[tuple[str, str], Foreign] = {}
    for record in _records(log):
        if isinstance(record, Foreign):
            if record.removed:
                found.pop((record.kind, record.name), None)
            else:
                found[record.kind, record.name] = record
    return found


def _records(log: MetadataLog) -> Iterator[object]:
    offset = log.log_start_offset
    if log.latest_snapshot is not None:
        yield from log.read_snapshot(log.latest_snapshot)
        offset = max(offset, log.latest_snapshot.end_offset)
    while entries := log.entries_from(offset, _ENTRIES):
        for entry in entries:
            if not entry.control:
                yield from entry.records
        offset = entries[-1].next_offset
