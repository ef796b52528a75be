"""Requests of one record on many connections, by a process of its own."""

from typing import Final, NamedTuple

from tidelog.bench.compare.client_process import run_client
from tidelog.bench.compare.system import Running
from tidelog.bench.compare.topics import Topics

MODULE: Final = "tidelog.bench.compare.small_client"
RECORD_BYTES = 100
PARTITIONS = 6


class SmallLoad(NamedTuple):
    topic: str
    connections: int
    acks: str
    warm_up_s: float
    """Not counted."""
    seconds: float


def answered_per_s(cluster: Running, load: SmallLoad) -> float:
    """Connections are shared out among partitions, each to the leader of its own."""
    settings = dict(cluster.client_settings)
    leaders = Topics(cluster.bootstrap_servers, settings).leader_addresses(load.topic)
    partitions = [number % PARTITIONS for number in range(load.connections)]
    job = {
        "settings": settings,
        "topic": load.topic,
        "targets": [[*leaders[partition], partition] for partition in partitions],
        "acks": -1 if load.acks == "all" else int(load.acks),
        "record_bytes": RECORD_BYTES,
        "warm_up_s": load.warm_up_s,
        "seconds": load.seconds,
    }
    return float(run_client(MODULE, job)["per_second"])
