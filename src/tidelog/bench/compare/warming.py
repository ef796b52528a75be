"""Brokers are warm before they are measured.

A Java machine compiles what runs often, and takes its time: on two cores, what Kafka's nodes spent
on a request fell from 1.2 ms of processor time to 0.15 ms within 75 seconds, and was still falling
after 60, while Tidelog's stayed the same. So requests are sent until their cost does not fall any
more, or the time for it is over; then large requests are sent and read. The same is done to both
systems.
"""

from collections.abc import Mapping, Sequence

from tidelog.bench.compare.librdkafka import Librdkafka
from tidelog.bench.compare.load_clients import ConsumeJob, ProduceJob
from tidelog.bench.compare.produce_cases import BASE, KIB
from tidelog.bench.compare.small_load import PARTITIONS, SmallLoad, answered_per_s
from tidelog.bench.compare.system import Running, Scale

TOPIC = "warming"
LARGE_TOPIC = "warming-large"
CONNECTIONS = 32
STEADY_WINDOWS = 2
GAIN = 0.9
"""A window counts as cheaper if its requests cost less than this part of the cheapest before."""
WINDOW_S: Mapping[Scale, float] = {Scale.TINY: 0.1, Scale.QUICK: 3.0, Scale.FULL: 5.0}
WINDOWS_MIN: Mapping[Scale, int] = {Scale.TINY: 1, Scale.QUICK: 5, Scale.FULL: 18}
"""A cost may stand still for some seconds and fall again: the next compiler has its turn."""
WINDOWS_MAX: Mapping[Scale, int] = {Scale.TINY: 1, Scale.QUICK: 20, Scale.FULL: 36}


def warm_up(cluster: Running, scale: Scale) -> None:
    """Until requests cost what they will cost."""
    _send_small(cluster, scale)
    _send_large(cluster, scale)


def _send_small(cluster: Running, scale: Scale) -> None:
    cluster.create_topic(TOPIC, PARTITIONS)
    load = SmallLoad(TOPIC, CONNECTIONS, "all", 0.0, WINDOW_S[scale])
    costs: list[float] = []
    while len(costs) < WINDOWS_MAX[scale]:
        if len(costs) >= WINDOWS_MIN[scale] and is_steady(costs):
            break
        before = cluster.cpu_seconds()
        answers = answered_per_s(cluster, load) * load.seconds
        costs.append((cluster.cpu_seconds() - before) / max(1.0, answers))
    cluster.delete_topic(TOPIC)


def _send_large(cluster: Running, scale: Scale) -> None:
    client, records = Librdkafka(), BASE.records(scale)
    cluster.create_topic(LARGE_TOPIC, BASE.partitions)
    servers = cluster.bootstrap_servers
    settings = cluster.client_settings
    writing = {**BASE.settings, **settings}
    client.produce(ProduceJob(servers, LARGE_TOPIC, records, KIB, writing))
    client.consume(ConsumeJob(servers, LARGE_TOPIC, BASE.partitions, records, settings))
    cluster.delete_topic(LARGE_TOPIC)


def is_steady(costs: Sequence[float]) -> bool:
    """Whether the last windows were not cheaper than those before them."""
    earlier, last = costs[:-STEADY_WINDOWS], costs[-STEADY_WINDOWS:]
    return bool(earlier) and min(last) > GAIN * min(earlier)
