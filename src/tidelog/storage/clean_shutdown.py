"""`.kafka_cleanshutdown`: proof that a directory was closed in order, good for one start.

It is written last on an orderly stop and deleted before anything else on the next start. The
broker epoch in it lets the broker keep its seats in the ISR (KIP-966).
"""

import json
from collections.abc import Sequence

from tidelog.host.ports import Disk
from tidelog.storage import atomic_file
from tidelog.storage.atomic_file import parent_of, read_file
from tidelog.storage.errors import CorruptFile
from tidelog.storage.repairs import Repair, Repairs

FILE_NAME = ".kafka_cleanshutdown"
NO_BROKER_EPOCH = -1


def write_marker(disk: Disk, broker_epoch: int) -> None:
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    atomic_file.replace_file(disk, FILE_NAME, content.encode())


def take_marker(disk: Disk, repairs: Repairs) -> int | None:
    """The broker epoch of an orderly stop, None if there was none. The marker is gone for good
    when this returns. One that cannot be read proves nothing."""
    content = read_file(disk, FILE_NAME)
    if content is None:
        return None
    disk.remove(FILE_NAME)
    disk.sync_dir(parent_of(FILE_NAME))
    broker_epoch = _parse(content)
    if broker_epoch is None:
        fault = CorruptFile(FILE_NAME, "byte 0", "it cannot be read, so it proves no orderly stop")
        repairs.append(Repair(fault, "removed, and every log is looked at as after a crash"))
    return broker_epoch


def read_marker(disk: Disk) -> int | None:
    """The same, and the marker stays."""
    return _parse(read_file(disk, FILE_NAME) or b"")


def _parse(content: bytes) -> int | None:
    try:
        fields = json.loads(content)
    except ValueError:
        return None
    if not isinstance(fields, dict) or fields.get("version") != 0:
        return None
    broker_epoch = fields.get("brokerEpoch")
    return broker_epoch if type(broker_epoch) is int else None


def previous_broker_epoch(markers: Sequence[int | None]) -> int:
    """The epoch all log directories of a node agree on; -1 if one was not closed in order."""
    first = markers[0] if markers else None
    if first is None or any(marker != first for marker in markers):
        return NO_BROKER_EPOCH
    return first
