"""A node as the observing parts see it, with everything a test wants to be so."""

from tidelog.core.metadata.records import RemoveTopic, Topic
from tidelog.core.types import LogEntry
from tidelog.host.histogram import Histogram
from tidelog.observe.traffic import Traffic
from tidelog.observe.views import (
    FOLLOWER,
    LEADER,
    BrokerView,
    ConnectionsView,
    ControllerView,
    FollowerView,
    Health,
    LogDirView,
    PartitionPage,
    PartitionView,
    QuorumView,
    ReplicaView,
    WorkView,
)

WELL = Health(
    listeners_open=True,
    disks_online=True,
    metadata_caught_up=True,
    quorum_leader_known=True,
    registered=True,
    unfenced=True,
    session_alive=True,
)


def led(topic="orders", partition=0, **changes):
    isr = changes.get("isr", (1, 2, 3))
    followers = tuple(FollowerView(b, b in isr, 8, 2, 40) for b in (2, 3))
    whole = PartitionView(
        topic, partition, LEADER, 1, 4, 9, (1, 2, 3), isr, 2, 8, 0, 10, followers=followers
    )
    return whole._replace(**changes)


def followed(topic="orders", partition=1, **changes):
    return led(topic, partition)._replace(role=FOLLOWER, leader=2, followers=(), **changes)


class SeenNode:
    node_id = 1
    roles = ("broker", "controller")
    cluster_id = "c"

    def __init__(self, *partitions, health=WELL):
        self.hosted = partitions
        self.now_health = health
        self.now_findings = ()
        self.counted = Traffic()
        self.control = ControllerView(True, 3, 2, 6, 1, 2, 2, 1)

    def partitions(self):
        return iter(self.hosted)

    def partition_page(self, start, limit):
        chosen = self.hosted[start : start + limit]
        return PartitionPage(len(self.hosted), tuple(ReplicaView(each, ()) for each in chosen))

    def replica(self, topic, index):
        for each in self.hosted:
            if (each.topic, each.partition) == (topic, index):
                return ReplicaView(each, ((0, 0), (4, 6)))
        return None

    def controller(self):
        return self.control

    def quorum(self):
        return QuorumView(1, 3, "leader", 40, 41, 40)

    def metadata_entries(self, count):
        made = LogEntry(40, 3, (Topic("orders", b"o" * 16), RemoveTopic(b"x" * 16)))
        return (made,)[:count]

    def brokers(self):
        return (BrokerView(1, 7, False, False, (("PLAINTEXT", "127.0.0.1", 9092),)),)

    def traffic(self):
        return self.counted

    def requests(self):
        return {"Fetch": 5, "Produce": 2}

    def request_times(self):
        times = Histogram()
        times.note(0.003)
        return {"Produce": times}

    def connections(self):
        return ConnectionsView(
            *(3, 9, {"idle": 6}, 100, 200, 50),
            logins={"OUT": 4},
            failed_logins={"OUT": 2},
            certificates_end_ms={"OUT": 1_800_000_000_000},
        )

    def work(self):
        return WorkView(12, 0.5, 4)

    def log_dirs(self):
        return (LogDirView("/data", 5_000, False), LogDirView("/more", 0, True))

    def health(self):
        return self.now_health

    def findings(self):
        return self.now_findings

    def topic_name(self, topic_id):
        return {b"o" * 16: "orders", b"e" * 16: "__tidelog_events"}.get(topic_id)
