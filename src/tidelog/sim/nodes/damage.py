"""Damage to data that lies on disks, within what the other replicas can repair.

A promise holds while somebody else keeps an intact copy. So at most one node has damaged data of
a partition at any time, and only of partitions that have another holder then and always will:
every acknowledged record is on two replicas in sync, and eligible leader replicas are known.
Otherwise the last replica in sync may be the damaged one. Whether a damage is repaired is looked
up, on the disk and in the metadata, when the next one is about to be done.
"""

from collections.abc import Callable
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


class Lack(NamedTuple):
    """Records that a node had and has no more."""

    broker_epoch: int
    """Of the node at that time."""
    partitions: tuple[PartitionName, ...]


class DamageLedger:
    """Owner of "who has damaged data"."""

    __slots__ = ("_lacking", "_roles", "_rot", "_servers")

    def __init__(self, servers: dict[int, Server], roles: Roles) -> None:
        self._servers = servers
        self._roles = roles
        self._lacking: dict[int, Lack] = {}
        self._rot: dict[tuple[int, PartitionName], Rot] = {}

    def flip_bit(self, server: Server, choice: int) -> bool:
        """In a batch that is known to be synced: behind that damage looks like a torn tail, and
        no storage can tell the two apart. False if there is none, or too much is damaged."""
        image = self._image_before_damage(server)
        if image is None:
            return False
        found = _flip_bit(server, self._spare(image, server, self._can_repair), choice)
        if found is not None:
            name, rot = found
            self._rot[server.node_id, name] = rot
        return found is not None

    def lose_segment(self, server: Server) -> bool:
        """The first file of a log vanishes, where the disk tells where the log starts."""
        image = self._image_before_damage(server)
        if image is None or server.node_id in self._lacking:
            return False
        lost = _lose_segment(server, self._spare(image, server, self._can_replace))
        if lost is not None:
            self._lacks_records(server, image, (lost,))
        return lost is not None

    def wipe(self, server: Server) -> bool:
        """All log directories are lost, if the metadata log is on a disk of its own."""
        image = self._image_before_damage(server)
        if image is None or not server.can_lose_data:
            return False
        held = [name for name, state in _partitions(image) if server.node_id in state.replicas]
        if set(held) - set(self._spare(image, server, self._can_replace)):
            return False
        server.kill()
        server.replace_data()
        self._lacks_records(server, image, tuple(held))
        return True

    def _lacks_records(
        self, server: Server, image: MetadataImage, names: tuple[PartitionName, ...]
    ) -> None:
        broker_epoch = image.brokers[server.node_id].broker_epoch
        self._lacking[server.node_id] = Lack(broker_epoch, names)

    def _image_before_damage(self, server: Server) -> MetadataImage | None:
        """None if nobody knows enough to tell what may be damaged, or the disk fails as it is."""
        image = self._roles.image()
        if image is None or server.node_id not in image.brokers or server.files.fails:
            return None
        self._forget_repaired(image)
        return image if image.features.get(ELR_FEATURE) else None

    def _forget_repaired(self, image: MetadataImage) -> None:
        states = dict(_partitions(image))
        self._lacking = {
            node: lack
            for node, lack in self._lacking.items()
            if not _is_back(image, states, node, lack)
        }
        self._rot = {
            (node, name): rot
            for (node, name), rot in self._rot.items()
            if name in states and _is_rotten(self._servers[node], rot)
        }

    def _spare(
        self, image: MetadataImage, server: Server, others_do: Callable[[PartitionState, int], bool]
    ) -> list[PartitionName]:
        """The partitions of a node that are whole everywhere, and can do without its copy."""
        damaged = {name for _, name in self._rot}
        damaged.update(name for lack in self._lacking.values() for name in lack.partitions)
        usual_min_isr = server.config.replica_settings().min_insync_replicas
        return [
            name
            for name, state in _partitions(image)
            if server.node_id in state.replicas
            and name not in damaged
            and others_do(state, server.node_id)
            and int(image.topic_config(name[0], MIN_ISR) or usual_min_isr) > 1
        ]

    def _can_repair(self, state: PartitionState, node: int) -> bool:
        """Somebody else holds every committed record."""
        return any(holder != node for holder in (*state.isr, *state.elr))

    def _can_replace(self, state: PartitionState, node: int) -> bool:
        """Somebody else is in sync, and known to be so as long as it runs: an unclean restart
        costs it its seat, and then nobody can know that it holds everything. For a leader there
        are two of them, because one may be gone before it is the next leader."""
        if self._roles.controller() is None:
            return False
        servers = self._servers
        others = [each for each in state.isr if each != node and servers[each].works]
        ready = sum(servers[each].ready for each in others)
        return ready >= (2 if state.leader == node else 1)


def _partitions(image: MetadataImage) -> list[tuple[PartitionName, PartitionState]]:
    return [
        ((topic.name, state.id.partition), state)
        for topic in image.topics.values()
        for state in topic.partitions.values()
    ]


def _is_back(
    image: MetadataImage, states: dict[PartitionName, PartitionState], node: int, lack: Lack
) -> bool:
    """It has registered since, which cost it its seats, and has caught up everywhere."""
    registration = image.brokers.get(node)
    if registration is None or registration.broker_epoch <= lack.broker_epoch:
        return False
    held = [states[name] for name in lack.partitions if name in states]
    return all(node in state.isr for state in held if node in state.replicas)


def _is_rotten(server: Server, rot: Rot) -> bool:
    disk = server.files.open(rot.directory)
    if not disk.exists(rot.path):
        return False
    return disk.open(rot.path).content()[rot.position : rot.position + 1] == bytes([rot.found])


def _flip_bit(
    server: Server, spare: list[PartitionName], choice: int
) -> tuple[PartitionName, Rot] | None:
    batches: list[tuple[PartitionName, str, str, int, int]] = []
    for directory in server.log_dirs:
        disk = server.files.open(directory)
        for name, synced_end in _offsets(disk, checkpoints.RECOVERY_POINTS).items():
            for path in _segments(disk, name) if name in spare else ():
                places = _batches(disk, path, synced_end)
                batches += [(name, directory, path, *place) for place in places]
    if not batches:
        return None
    name, directory, path, position, size_bytes = batches[choice % len(batches)]
    position += choice * 31 % size_bytes
    disk = server.files.open(directory)
    disk.flip_bit(path, position, choice % 8)
    return name, Rot(directory, path, position, disk.open(path).read(position, 1)[0])


def _batches(disk: SimDisk, path: str, end_offset: int) -> list[tuple[int, int]]:
    """Position and size of every batch of a file that ends before this offset."""
    file = disk.open(path)
    found = []
    with suppress(InvalidBatch):  # a power loss tore it
        for position, header in iter_batches(file.read(0, file.size())):
            if header.last_offset < end_offset:
                found.append((position, header.size_bytes))
    return found


def _lose_segment(server: Server, spare: list[PartitionName]) -> PartitionName | None:
    for directory in server.log_dirs:
        disk = server.files.open(directory)
        for name, log_start in _offsets(disk, checkpoints.LOG_STARTS).items():
            segments = _segments(disk, name) if name in spare else []
            if len(segments) > 1 and log_start < _base_offset(segments[1]):
                disk.remove(segments[0])
                disk.sync_dir(segments[0].partition("/")[0])
                return name
    return None


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
