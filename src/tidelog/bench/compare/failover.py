"""How long nothing is acknowledged after the leader is killed, with steady acks=all load.

Once as both systems come, once with the same timeouts. The client wants to be back soon in both
cases: it asks for metadata and connects anew within a fraction of a second.
"""

import time
from collections.abc import Mapping
from contextlib import closing
from statistics import fmean

from tidelog.bench.compare.gaps import SteadyLoad
from tidelog.bench.compare.system import Row, Running, Scale, System

SECTION = "failover"
KILLS: Mapping[Scale, int] = {Scale.TINY: 1, Scale.QUICK: 1, Scale.FULL: 2}
TOPIC_CONFIG = {"min.insync.replicas": "2"}
EQUAL: Mapping[str, str] = {
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.timeout.ms": "1000",
}
"""The session of `tidelog up`, and Kafka's own timeouts between controllers."""
SETTINGS: Mapping[str, Mapping[str, str] | None] = {"defaults": None, "equal": EQUAL}
TITLES = {
    "defaults": "no acknowledgement after SIGKILL of the leader, defaults",
    "equal": "the same, session timeout 4 s for both",
}


class FailoverSection:
    """Each value is the average of a few kills."""

    __slots__ = ("_kills",)

    name = SECTION
    rounds_max: int | None = 2
    rows = tuple(
        Row(f"failover.{key}_ms", title, "ms", more_is_better=False, section=SECTION)
        for key, title in TITLES.items()
    )

    def __init__(self, scale: Scale) -> None:
        self._kills = KILLS[scale]

    def measure(self, system: System, round_number: int) -> Mapping[str, float]:
        found = {}
        for key, settings in SETTINGS.items():
            with closing(system.start(3, settings)) as running:
                topic = f"failover-{round_number}"
                running.create_topic(topic, 1, config=TOPIC_CONFIG)
                found[f"failover.{key}_ms"] = average_gap_ms(running, topic, self._kills)
        return found


def average_gap_ms(running: Running, topic: str, kills: int) -> float:
    gaps = []
    with SteadyLoad(running.bootstrap_servers, topic) as load:
        for number in range(kills):
            leader = running.leader(topic)
            begin = time.monotonic()
            running.kill(leader)
            load.wait_steady(begin)
            gaps.append(load.gap_ms(begin))
            if number + 1 < kills:
                running.restart(leader)
                running.wait_in_sync()
    return fmean(gaps)
