"""partition.metadata: which topic, by id, the records of a partition directory belong to.

A topic that is deleted and made again has the same name and another id; the id on disk keeps
old records out of the new topic (replication.md T26). So it is durable before any record is.
"""

from tidelog.host.ports import Disk
from tidelog.storage import atomic_file
from tidelog.storage.atomic_file import read_file
from tidelog.storage.errors import CorruptFile
from tidelog.storage.uuids import parse_uuid, uuid_text

FILE_NAME = "partition.metadata"


def write_topic_id(disk: Disk, path: str, topic_id: bytes) -> None:
    atomic_file.replace_file(disk, path, f"version: 0\ntopic_id: {uuid_text(topic_id)}\n".encode())


def read_topic_id(disk: Disk, path: str) -> bytes | None:
    """None if there is no such file."""
    content = read_file(disk, path)
    if content is None:
        return None
    try:
        lines = content.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise CorruptFile(path, f"byte {error.start}", "not text") from error
    if not lines or lines[0] != "version: 0":
        raise CorruptFile(path, "line 1", "expected `version: 0`")
    key, _, value = (lines[1] if len(lines) == 2 else "").partition(": ")
    topic_id = parse_uuid(value) if key == "topic_id" else None
    if topic_id is None:
        raise CorruptFile(path, "line 2", "expected `topic_id: ` and an id")
    return topic_id
