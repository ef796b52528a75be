"""One look at a whole cluster, for `describe` and `health`."""

from typing import NamedTuple

from tidelog.client import Admin, Client, ClusterView, KafkaError, PartitionView
from tidelog.client.admin import QuorumView, RegisteredBroker
from tidelog.client.disks import FullDisk, full_disks
from tidelog.client.errors import ClientError
from tidelog.host.ports import NetworkError
from tidelog.survey.partition_state import HEALTHY, Judgement, judge
from tidelog.survey.topics import min_isr_in, topic_settings


class SeenBroker(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None
    alive: bool
    disk_bytes: int | None
    full_disks: tuple[FullDisk, ...] = ()


class Survey(NamedTuple):
    view: ClusterView
    brokers: list[SeenBroker]
    quorum: QuorumView | None
    """None where the cluster does not tell."""
    partitions: list[tuple[PartitionView, Judgement]]

    @property
    def unwell(self) -> list[tuple[PartitionView, Judgement]]:
        return [pair for pair in self.partitions if pair[1].state != HEALTHY]

    def led_by(self, broker_id: int) -> int:
        return sum(each.leader == broker_id for each, _ in self.partitions)

    def preferred_at(self, broker_id: int) -> int:
        return sum(each.preferred == broker_id for each, _ in self.partitions)

    def replicas_at(self, broker_id: int) -> int:
        return sum(broker_id in each.replicas for each, _ in self.partitions)

    def quorum_role(self, broker_id: int) -> str | None:
        """`leader`, `voter, lag 0`, `observer, lag 2`."""
        quorum = self.quorum
        if quorum is None:
            return None
        if quorum.leader == broker_id:
            return "leader"
        for role, replicas in (("voter", quorum.voters), ("observer", quorum.observers)):
            for each in replicas:
                if each.id == broker_id:
                    lag = quorum.high_watermark - each.log_end_offset
                    return f"{role}, lag {max(0, lag)}"
        return None


async def survey(client: Client) -> Survey:
    view = await client.view()
    registered = await _registered(client, view)
    partitions = []
    for topic in view.topics.values():
        min_isr = min_isr_in(await topic_settings(client, topic.name))
        partitions += [(each, judge(each, view.brokers, min_isr)) for each in topic.partitions]
    brokers = [await _look_at(client, view, each) for each in registered]
    return Survey(view, brokers, await _quorum(client), partitions)


async def _registered(client: Client, view: ClusterView) -> list[RegisteredBroker]:
    """Also those that are down, which a cluster may or may not tell; replicas tell the rest."""
    try:
        known = {each.id: each for each in await Admin(client).registered_brokers()}
    except KafkaError:
        known = {}
    for broker in view.brokers.values():
        known.setdefault(
            broker.id, RegisteredBroker(broker.id, broker.host, broker.port, broker.rack, False)
        )
    for topic in view.topics.values():
        for partition in topic.partitions:
            for each in partition.replicas:
                known.setdefault(each, RegisteredBroker(each, "-", 0, None, True))
    return [known[each] for each in sorted(known)]


async def _look_at(client: Client, view: ClusterView, broker: RegisteredBroker) -> SeenBroker:
    alive = broker.id in view.brokers and not broker.fenced
    disk_bytes = None
    full: tuple[FullDisk, ...] = ()
    if alive:
        full = await full_disks(client, broker.id)
        try:
            on_disk = await Admin(client).log_dirs(broker.id)
            disk_bytes = sum(each.size_bytes for each in on_disk)
        except (ClientError, NetworkError):
            disk_bytes = None
    return SeenBroker(broker.id, broker.host, broker.port, broker.rack, alive, disk_bytes, full)


async def _quorum(client: Client) -> QuorumView | None:
    try:
        return await Admin(client).quorum()
    except KafkaError:
        return None
