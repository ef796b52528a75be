"""quorum-state: what a node of the metadata quorum must never forget (kraft.md §1.2).

One line of JSON, replaced atomically and durable before the node acts on it. Unlike a
checkpoint it has no safe default: a node that forgot its vote might vote twice in one epoch,
so a bad file is refused.
"""

import json
from typing import NamedTuple

from tidelog.core.quorum.messages import VoterKey
from tidelog.core.types import NO_LEADER
from tidelog.host.ports import Disk
from tidelog.storage import atomic_file
from tidelog.storage.atomic_file import read_file
from tidelog.storage.errors import CorruptFile
from tidelog.storage.uuids import parse_uuid, uuid_text

FILE_NAME = "quorum-state"
NOBODY = -1
_NO_DIRECTORY = bytes(16)


class StoredQuorumState(NamedTuple):
    """The fields of `core.quorum.state.QuorumState`, in its order."""

    epoch: int
    leader_id: int
    voted: VoterKey | None


State = tuple[int, int, VoterKey | None]


def write_quorum_state(disk: Disk, path: str, state: State) -> None:
    atomic_file.replace_file(disk, path, render_quorum_state(state))


def render_quorum_state(state: State) -> bytes:
    epoch, leader_id, voted = state
    assert epoch >= 0, f"quorum epoch {epoch}"
    fields = {
        "leaderId": leader_id,
        "leaderEpoch": epoch,
        "votedId": voted.node_id if voted else NOBODY,
        "votedDirectoryId": uuid_text(voted.directory_id if voted else _NO_DIRECTORY),
        "data_version": 1,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def read_quorum_state(disk: Disk, path: str) -> StoredQuorumState | None:
    """None if the node never took part in an election."""
    content = read_file(disk, path)
    if content is None:
        return None
    try:
        fields = json.loads(content)
    except ValueError as error:
        raise CorruptFile(path, "line 1", f"not JSON: {error}") from error
    if not isinstance(fields, dict) or fields.get("data_version") not in (0, 1):
        raise CorruptFile(path, "line 1", "expected an object with data_version 0 or 1")
    leader_id = _number(path, fields, "leaderId", NO_LEADER)
    epoch = _number(path, fields, "leaderEpoch", 0)
    voted_id = _number(path, fields, "votedId", NOBODY)
    directory_id: bytes | None = _NO_DIRECTORY
    if fields["data_version"] > 0:  # Kafka writes 0, without it, while its voters are static
        directory_id = parse_uuid(str(fields.get("votedDirectoryId", "")))
    if directory_id is None:
        raise CorruptFile(path, "votedDirectoryId", "missing or not an id")
    voted = VoterKey(voted_id, directory_id) if voted_id != NOBODY else None
    return StoredQuorumState(epoch, leader_id, voted)


def _number(path: str, fields: dict[str, object], key: str, least: int) -> int:
    value = fields.get(key)
    if type(value) is not int or value < least:
        raise CorruptFile(path, key, f"{value!r} is not a number of at least {least}")
    return value
