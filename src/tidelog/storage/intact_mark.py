"""`.intact-since-epoch`: every record this broker acknowledged as that incarnation is here.

Where acknowledged means synced, a crash loses nothing that others count on. So the mark is
written when an incarnation begins, and a killed broker that presents it keeps its eligibility to
lead (ADR 0006). It names the broker epoch it vouches for and the directory it was written in: a
copy of it in another directory proves nothing, and neither does one that cannot be read.

Whoever finds that synced records are gone removes the mark before doing anything about it.
"""

import json
from contextlib import suppress

from tidelog.host.ports import Disk
from tidelog.storage import atomic_file
from tidelog.storage.atomic_file import parent_of, read_file
from tidelog.storage.errors import CorruptFile
from tidelog.storage.repairs import Repair, Repairs
from tidelog.storage.uuids import uuid_text

FILE_NAME = ".intact-since-epoch"


def write_mark(disk: Disk, broker_epoch: int, directory_id: bytes) -> None:
    assert broker_epoch >= 0, f"broker epoch {broker_epoch}"
    fields = {
        "version": 0,
        "brokerEpoch": broker_epoch,
        "directoryId": uuid_text(directory_id),
    }
    content = json.dumps(fields, separators=(",", ":"))
    atomic_file.replace_file(disk, FILE_NAME, content.encode())


def read_mark(disk: Disk, directory_id: bytes, repairs: Repairs) -> int | None:
    """The broker epoch it vouches for; None if there is no mark, or none to believe."""
    content = read_file(disk, FILE_NAME)
    if content is None:
        return None
    broker_epoch = _parse(content, directory_id)
    if broker_epoch is None:
        fault = CorruptFile(FILE_NAME, "byte 0", "it cannot be read, or is of another directory")
        done = "not believed: this broker leaves its in-sync replicas until it has caught up"
        repairs.append(Repair(fault, done))
    return broker_epoch


def _parse(content: bytes, directory_id: bytes) -> int | None:
    try:
        fields = json.loads(content)
    except ValueError:
        return None
    if not isinstance(fields, dict) or fields.get("version") != 0:
        return None
    if fields.get("directoryId") != uuid_text(directory_id):
        return None
    broker_epoch = fields.get("brokerEpoch")
    return broker_epoch if type(broker_epoch) is int and broker_epoch >= 0 else None


def remove_mark(disk: Disk) -> None:
    """Gone for good when this returns."""
    with suppress(FileNotFoundError):
        disk.remove(FILE_NAME)
        disk.sync_dir(parent_of(FILE_NAME))
