"""A second, deliberately plain replay of the metadata log, to judge the first one by.

It shares no code with `core.metadata.replay` and asserts nothing: whatever was committed is
taken as it is, and the rules say what is wrong with it.
"""

from typing import NamedTuple

from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.security.acls import Acl
from tidelog.core.security.quota_keys import Entity
from tidelog.core.security.scram import ScramCredential
from tidelog.core.types import NO_LEADER, LogEntry, PartitionId


class Committed(NamedTuple):
    """One partition's metadata as of one partition epoch."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    recovery_state: int
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]


NOTHING_COMMITTED = Committed(NO_LEADER, -1, -1, (), (), (), (), 0, (), ())


class Registration(NamedTuple):
    incarnation_id: bytes
    broker_epoch: int
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[bytes, ...]

    @property
    def active(self) -> bool:
        return not self.fenced and not self.in_controlled_shutdown


class PlainImage:
    """What all records so far amount to."""

    __slots__ = (
        "acls",
        "brokers",
        "configs",
        "features",
        "next_producer_id",
        "partitions",
        "quotas",
        "topics",
        "users",
    )

    def __init__(self) -> None:
        self.brokers: dict[int, Registration] = {}
        self.topics: dict[bytes, str] = {}
        self.partitions: dict[PartitionId, Committed] = {}
        self.configs: dict[tuple[int, str, str], str] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.acls: dict[bytes, Acl] = {}
        self.quotas: dict[tuple[Entity, str], float] = {}
        self.users: dict[tuple[str, int], ScramCredential] = {}

    def apply(self, record: object) -> None:
        if isinstance(record, r.PartitionChange):
            self._change_partition(record)
        elif isinstance(record, r.Partition):
            self.partitions[PartitionId(record.topic_id, record.partition)] = Committed(
                record.leader,
                record.leader_epoch,
                record.partition_epoch,
                record.replicas,
                record.isr,
                record.adding_replicas,
                record.removing_replicas,
                record.leader_recovery_state,
                record.elr,
                record.last_known_elr,
            )
        elif isinstance(record, r.RegisterBroker):
            self.brokers[record.broker_id] = Registration(
                record.incarnation_id,
                record.broker_epoch,
                record.rack,
                record.fenced,
                record.in_controlled_shutdown,
                record.log_dirs,
            )
        elif isinstance(record, r.BrokerRegistrationChange):
            self._change_registration(record)
        elif isinstance(record, r.UnregisterBroker):
            self.brokers.pop(record.broker_id, None)
        else:
            self._apply_rare(record)

    def _apply_rare(self, record: object) -> None:
        if isinstance(record, r.Topic):
            self.topics[record.topic_id] = record.name
        elif isinstance(record, r.RemoveTopic):
            self._remove_topic(record.topic_id)
        elif isinstance(record, r.Config):
            key = (record.resource_type, record.resource_name, record.name)
            if record.value is None:
                self.configs.pop(key, None)
            else:
                self.configs[key] = record.value
        elif isinstance(record, r.FeatureLevel):
            if record.level:
                self.features[record.name] = record.level
            else:
                self.features.pop(record.name, None)
        elif isinstance(record, r.ProducerIds):
            self.next_producer_id = record.next_producer_id
        else:
            self._apply_security(record)

    def _apply_security(self, record: object) -> None:
        if isinstance(record, r.AccessControlEntry):
            self.acls[record.acl_id] = record.acl
        elif isinstance(record, r.RemoveAccessControlEntry):
            self.acls.pop(record.acl_id, None)
        elif isinstance(record, r.UserScramCredential):
            self.users[record.user, record.mechanism] = record.credential
        elif isinstance(record, r.RemoveUserScramCredential):
            self.users.pop((record.user, record.mechanism), None)
        elif isinstance(record, r.ClientQuota):
            if record.value is None:
                self.quotas.pop((record.entity, record.key), None)
            else:
                self.quotas[record.entity, record.key] = record.value

    def _change_partition(self, record: r.PartitionChange) -> None:
        partition = PartitionId(record.topic_id, record.partition)
        before = self.partitions.get(partition, NOTHING_COMMITTED)
        elected = record.leader != r.LEADER_UNCHANGED
        self.partitions[partition] = Committed(
            record.leader if elected else before.leader,
            before.leader_epoch + elected,
            before.partition_epoch + 1,
            kept(record.replicas, before.replicas),
            kept(record.isr, before.isr),
            kept(record.adding_replicas, before.adding),
            kept(record.removing_replicas, before.removing),
            before.recovery_state
            if record.leader_recovery_state is None
            else record.leader_recovery_state,
            kept(record.elr, before.elr),
            kept(record.last_known_elr, before.last_known_elr),
        )

    def _change_registration(self, record: r.BrokerRegistrationChange) -> None:
        before = self.brokers.get(record.broker_id)
        if before is None:
            return
        after = before
        if record.fenced:
            after = after._replace(fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            after = after._replace(in_controlled_shutdown=True)
        if record.log_dirs is not None:
            after = after._replace(log_dirs=record.log_dirs)
        self.brokers[record.broker_id] = after

    def _remove_topic(self, topic_id: bytes) -> None:
        name = self.topics.pop(topic_id, None)
        for partition in [p for p in self.partitions if p.topic_id == topic_id]:
            del self.partitions[partition]
        for key in [k for k in self.configs if k[:2] == (r.RESOURCE_TOPIC, name)]:
            del self.configs[key]

    def copy(self) -> "PlainImage":
        twin = PlainImage()
        twin.brokers = dict(self.brokers)
        twin.topics = dict(self.topics)
        twin.partitions = dict(self.partitions)
        twin.configs = dict(self.configs)
        twin.features = dict(self.features)
        twin.next_producer_id = self.next_producer_id
        twin.acls = dict(self.acls)
        twin.quotas = dict(self.quotas)
        twin.users = dict(self.users)
        return twin

    def difference(self, other: "PlainImage") -> str | None:
        """The first field in which two images differ, None when they are equal."""
        for field in self.__slots__:
            one, two = getattr(self, field), getattr(other, field)
            if one != two:
                return f"{field}: {_first_difference(one, two)}"
        return None


def kept(new: tuple[int, ...] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else new


def plain(image: MetadataImage) -> PlainImage:
    """The production image in plain words."""
    same = PlainImage()
    for broker in image.brokers.values():
        same.brokers[broker.broker_id] = Registration(
            broker.incarnation_id,
            broker.broker_epoch,
            broker.rack,
            broker.fenced,
            broker.in_controlled_shutdown,
            broker.log_dirs,
        )
    for topic in image.topics.values():
        same.topics[topic.topic_id] = topic.name
    for state in image.partitions():
        same.partitions[state.id] = Committed(
            state.leader,
            state.leader_epoch,
            state.partition_epoch,
            state.replicas,
            state.isr,
            state.adding_replicas,
            state.removing_replicas,
            state.leader_recovery_state,
            state.elr,
            state.last_known_elr,
        )
    for (resource_type, resource_name), values in image.configs.items():
        for name, value in values.items():
            same.configs[(resource_type, resource_name, name)] = value
    same.features.update(image.features)
    same.next_producer_id = image.next_producer_id
    same.acls.update(image.acls)
    for (mechanism, user), credential in image.scram_credentials.items():
        same.users[user, mechanism] = credential
    for entity, quotas in image.client_quotas.items():
        for key, quota in quotas.items():
            same.quotas[entity, key] = quota
    return same


class Replayer:
    """Replays a growing list of entries up to any offset; cheap while the offsets rise."""

    __slots__ = ("_entries", "_image", "_index", "_offset")

    def __init__(self, entries: list[LogEntry]) -> None:
        self._entries = entries
        self._image = PlainImage()
        self._index = 0
        self._offset = 0

    def image_at(self, end_offset: int) -> PlainImage:
        """State after everything below `end_offset`. Valid until the next call."""
        if end_offset < self._offset:
            self._image, self._index = PlainImage(), 0
        self._offset = end_offset
        while self._index < len(self._entries):
            entry = self._entries[self._index]
            if entry.offset >= end_offset:
                break
            self._index += 1
            if not entry.control:
                for record in entry.records:
                    self._image.apply(record)
        return self._image


def _first_difference(one: object, two: object) -> str:
    if isinstance(one, dict) and isinstance(two, dict):
        for key in [*one, *two]:
            if one.get(key) != two.get(key):
                return f"{key} is {one.get(key)}, not {two.get(key)}"
    return f"{one}, not {two}"
