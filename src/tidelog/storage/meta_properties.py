"""meta.properties: whose log directory this is. Written once, by `format`.

A directory of another cluster, or of another node of ours, is refused before anything in it
is touched: starting on the wrong disk must not look like an empty or a recovered node.
"""

from typing import NamedTuple, Protocol

from tidelog.host.ports import Disk
from tidelog.storage import atomic_file
from tidelog.storage.atomic_file import read_file
from tidelog.storage.errors import CorruptFile, ForeignDirectory, NotFormatted
from tidelog.storage.uuids import parse_uuid, uuid_text

FILE_NAME = "meta.properties"


class Lock(Protocol):
    """Keeps other processes out, as `host.directory_lock` does."""

    def acquire(self) -> bool: ...
    def release(self) -> None: ...


class MetaProperties(NamedTuple):
    cluster_id: str
    node_id: int
    directory_id: bytes


def format_directory(disk: Disk, properties: MetaProperties) -> None:
    """Make it ours. A second run with the same ids changes nothing; other ids are refused."""
    existing = read_meta_properties(disk)
    if existing is not None:
        check_owner(existing, cluster_id=properties.cluster_id, node_id=properties.node_id)
        return
    text = (
        "#\n"
        f"cluster.id={properties.cluster_id}\n"
        f"directory.id={uuid_text(properties.directory_id)}\n"
        f"node.id={properties.node_id}\n"
        "version=1\n"
    )
    atomic_file.replace_file(disk, FILE_NAME, text.encode())


def require_owner(disk: Disk, *, cluster_id: str, node_id: int) -> MetaProperties:
    """What the directory says it is, if that is us."""
    properties = read_meta_properties(disk)
    if properties is None:
        raise NotFormatted(f"there is no {FILE_NAME}: run `tidelog format` for this directory")
    check_owner(properties, cluster_id=cluster_id, node_id=node_id)
    return properties


def check_owner(properties: MetaProperties, *, cluster_id: str, node_id: int) -> None:
    if properties.cluster_id != cluster_id:
        raise ForeignDirectory(
            f"{FILE_NAME} belongs to cluster {properties.cluster_id}, this is {cluster_id}"
        )
    if properties.node_id != node_id:
        raise ForeignDirectory(
            f"{FILE_NAME} belongs to node {properties.node_id}, this is node {node_id}"
        )


def read_meta_properties(disk: Disk) -> MetaProperties | None:
    """None if there is no such file."""
    content = read_file(disk, FILE_NAME)
    if content is None:
        return None
    values = _parse(content)
    if values.get("version") != "1":
        raise CorruptFile(FILE_NAME, "version", f"{values.get('version')!r}, only 1 is known")
    cluster_id = values.get("cluster.id", "")
    if not cluster_id:
        raise CorruptFile(FILE_NAME, "cluster.id", "missing")
    node_id = values.get("node.id", "")
    if not (node_id.isascii() and node_id.isdigit()):
        raise CorruptFile(FILE_NAME, "node.id", f"{node_id!r} is not a number")
    directory_id = parse_uuid(values.get("directory.id", ""))
    if directory_id is None:
        raise CorruptFile(FILE_NAME, "directory.id", "missing or not an id")
    return MetaProperties(cluster_id, int(node_id), directory_id)


def _parse(content: bytes) -> dict[str, str]:
    values: dict[str, str] = {}
    for number, raw in enumerate(content.split(b"\n"), 1):
        try:
            line = raw.decode("ascii").strip()
        except UnicodeDecodeError as error:
            raise CorruptFile(FILE_NAME, f"line {number}", "not text") from error
        if not line or line.startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise CorruptFile(FILE_NAME, f"line {number}", "expected a key, `=` and a value")
        values[key.strip()] = value.strip()
    return values
