"""Damage to data that lies on disks, within what the other replicas can repair.

A promise holds while somebody else keeps an intact copy. So at most one node has damaged data at
any time, and only of partitions that have another holder then and always will: every acknowledged
record is on two replicas in sync, and eligible leader replicas are known. Otherwise the last
replica in sync may be the damaged one. Whether a damage is repaired is looked up, on the disk and
in the metadata, when the next one is about to be done.
"""

from contextlib import suppress
from typing import NamedTuple

from tidelog.core.metadata.contexts import ELR_FEATURE
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.sim.disk import SimDisk
from tidelog.sim.nodes.roles import Roles
from tidelog.sim.nodes.server import Server
from tidelog.storage import checkpoints
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.directory_names import METADATA, parse_directory
from tidelog.storage.errors import CorruptFile
from tidelog.wire.records.errors import InvalidBatch
from tidelog.wire.records.header import iter_batches

SEGMENT_SUFFIX = ".log"
MIN_ISR = "min.insync.replicas"


class Rot(NamedTuple):
    """A bit that has changed."""

    directory: str
    path: str
    position: int
    found: int
    """The byte with the wrong bit."""


class DamageLedger:
    """Owner of "who has damaged data"."""

    __slots__ = ("_lacking", "_roles", "_rot", "_servers")

    def __init__(self, servers: dict[int, Server], roles: Roles) -> None:
        self._servers = servers
        self._roles = roles
        self._lacking: dict[int, int] = {}
        """Nodes without records that they had, with the broker epoch of that time."""
        self._rot: dict[int, Rot] = {}

    def flip_bit(self, server: Server, choice: int) -> bool:
        """In a batch that is known to be synced: behind that damage looks like a torn tail, and
        no storage can tell the two apart. False if there is none, or too much is damaged."""
        image = self._image_before_damage(server)
        if image is None:
            return False
        rot = _flip_bit(server, _spare(image, server.node_id), choice)
        if rot is not None:
            self._rot[server.node_id] = rot
        return rot is not None

    def lose_segment(self, server: Server) -> bool:
        """The first file of a log vanishes, where the disk tells where the log starts."""
        image = self._image_before_damage(server)
        if image is None or not _lose_segment(server, _spare(image, server.node_id)):
            return False
        self._lacks_records(server, image)
        return True

    def wipe(self, server: Server) -> bool:
        """All log directories are lost, if the metadata log is on a disk of its own."""
        image = self._image_before_damage(server)
        if image is None or not server.can_lose_data:
            return False
        held = sum(server.node_id in state.replicas for state in image.partitions())
        if len(_spare(image, server.node_id)) < held:
            return False
        server.kill()
        server.replace_data()
        self._lacks_records(server, image)
        return True

    def _lacks_records(self, server: Server, image: MetadataImage) -> None:
        self._lacking[server.node_id] = image.brokers[server.node_id].broker_epoch

    def _image_before_damage(self, server: Server) -> MetadataImage | None:
        """None if there is damage already, or nobody knows enough to tell."""
        image = self._roles.image()
        if image is None or server.node_id not in image.brokers:
            return None
        self._forget_repaired(image)
        known = not self._rot and not self._lacking and image.features.get(ELR_FEATURE)
        return image if known else None

    def _forget_repaired(self, image: MetadataImage) -> None:
        self._lacking = {
            node: epoch for node, epoch in self._lacking.items() if not _is_back(image, node, epoch)
        }
        self._rot = {
            node: rot for node, rot in self._rot.items() if _is_rotten(self._servers[node], rot)
        }


def _holders(state: PartitionState) -> tuple[int, ...]:
    """Everyone who provably holds every committed record."""
    return (*state.isr, *state.elr)


def _spare(image: MetadataImage, node: int) -> list[PartitionName]:
    """The partitions of a node that can do without its copy."""
    return [
        (topic.name, state.id.partition)
        for topic in image.topics.values()
        for state in topic.partitions.values()
        if node in state.replicas
        and any(holder != node for holder in _holders(state))
        and int(image.topic_config(topic.name, MIN_ISR) or 1) > 1
    ]


def _is_back(image: MetadataImage, node: int, epoch: int) -> bool:
    """It has registered since, which cost it its seats, and has caught up everywhere."""
    registration = image.brokers.get(node)
    if registration is None or registration.broker_epoch <= epoch:
        return False
    return all(node in state.isr for state in image.partitions() if node in state.replicas)


def _is_rotten(server: Server, rot: Rot) -> bool:
    disk = server.files.open(rot.directory)
    if not disk.exists(rot.path):
        return False
    return disk.open(rot.path).read(rot.position, 1) == bytes([rot.found])


def _flip_bit(server: Server, spare: list[PartitionName], choice: int) -> Rot | None:
    batches: list[tuple[str, str, int, int]] = []
    for directory in server.log_dirs:
        disk = server.files.open(directory)
        for name, synced_end in _offsets(disk, checkpoints.RECOVERY_POINTS).items():
            for path in _segments(disk, name) if name in spare else ():
                batches += [(directory, path, *place) for place in _batches(disk, path, synced_end)]
    if not batches:
        return None
    directory, path, position, size_bytes = batches[choice % len(batches)]
    position += choice * 31 % size_bytes
    disk = server.files.open(directory)
    disk.flip_bit(path, position, choice % 8)
    return Rot(directory, path, position, disk.open(path).read(position, 1)[0])


def _batches(disk: SimDisk, path: str, end_offset: int) -> list[tuple[int, int]]:
    """Position and size of every batch of a file that ends before this offset."""
    file = disk.open(path)
    found = []
    with suppress(InvalidBatch):  # a power loss tore it
        for position, header in iter_batches(file.read(0, file.size())):
            if header.last_offset < end_offset:
                found.append((position, header.size_bytes))
    return found


def _lose_segment(server: Server, spare: list[PartitionName]) -> bool:
    for directory in server.log_dirs:
        disk = server.files.open(directory)
        for name, log_start in _offsets(disk, checkpoints.LOG_STARTS).items():
            segments = _segments(disk, name) if name in spare else []
            if len(segments) > 1 and log_start < _base_offset(segments[1]):
                disk.remove(segments[0])
                disk.sync_dir(segments[0].partition("/")[0])
                return True
    return False


def _offsets(disk: SimDisk, path: str) -> dict[PartitionName, int]:
    try:
        return checkpoints.read_offsets(disk, path)
    except CorruptFile:
        return {}  # a power loss tore it; whoever needs it does without


def _segments(disk: SimDisk, name: PartitionName) -> list[str]:
    directory = f"{name[0]}-{name[1]}"
    if name == METADATA or parse_directory(directory) != name or not disk.exists(directory):
        return []
    return [f"{directory}/{each}" for each in disk.list(directory) if each.endswith(SEGMENT_SUFFIX)]


def _base_offset(path: str) -> int:
    return int(path.rpartition("/")[2].removesuffix(SEGMENT_SUFFIX))
