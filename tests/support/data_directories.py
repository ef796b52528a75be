"""Data directories of nodes, written by the storage itself and read from outside."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tidelog.host.disk import FileDisk
from tidelog.storage import Log, LogConfig, LogDirectory
from tidelog.storage.meta_properties import MetaProperties, format_directory

CLUSTER = "test-cluster"
NOW_MS = 1_000_000
TOPIC_ID = bytes(range(16))
SMALL = LogConfig(segment_bytes=4000, index_interval_bytes=200)


class NodeDirectory:
    """`with NodeDirectory(tmp_path, 1) as node: node.log("orders", 0).append_as_leader(…)`"""

    def __init__(self, root: Path, node_id: int, config: LogConfig = SMALL) -> None:
        self.path = root / f"node-{node_id}"
        self.path.mkdir(parents=True, exist_ok=True)
        disk = FileDisk(str(self.path))
        format_directory(disk, MetaProperties(CLUSTER, node_id, bytes([node_id]) * 16))
        self._open = LogDirectory.open(disk, lambda _: config, cluster_id=CLUSTER, node_id=node_id)

    def log(self, topic: str, partition: int = 0, *, topic_id: bytes = TOPIC_ID) -> Log:
        name = (topic, partition)
        return self._open.logs.get(name) or self._open.create_log(name, topic_id)

    def checkpoint(self, high_watermarks: Mapping[tuple[str, int], int]) -> None:
        """As a broker does now and then."""
        self._open.unstored.store_all()
        self._open.checkpoint_high_watermarks(dict(high_watermarks))
        self._open.checkpoint_log_starts()

    def compact(self) -> None:
        """Until there is nothing to be cleaned any more."""
        ends = {name: log.log_end_offset for name, log in self._open.logs.items()}
        now = {"wall_ms": NOW_MS, "monotonic_ms": NOW_MS}
        while self._open.compact_once(**now, high_watermarks=ends) is not None:
            pass

    def close(self) -> None:
        for log in self._open.logs.values():
            log.sync()
            log.close()

    def __enter__(self) -> "NodeDirectory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def fill(log: Log, batches: Iterable[bytearray], epoch: int = 0) -> None:
    for each in batches:
        log.append_as_leader(each, epoch)


def segment_files(node: NodeDirectory, partition: str) -> list[Path]:
    return sorted((node.path / partition).glob("*.log"))


def flip(path: Path, position: int, bit: int = 1) -> None:
    """One bit of a file at rest."""
    data = bytearray(path.read_bytes())
    data[position] ^= bit
    path.write_bytes(data)
