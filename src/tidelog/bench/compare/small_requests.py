"""Requests per second when each carries one record: what a request costs, not its bytes."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from tidelog.bench.compare.findings import Findings
from tidelog.bench.compare.small_load import PARTITIONS, SmallLoad, answered_per_s
from tidelog.bench.compare.system import Row, Scale, System
from tidelog.bench.compare.warm_clusters import WarmClusters

SECTION = "small requests"


class Case(NamedTuple):
    connections: int
    acks: str

    @property
    def row(self) -> Row:
        noun = "connection" if self.connections == 1 else "connections"
        title = f"one record per request, {self.connections} {noun}, acks={self.acks}"
        key = f"small.{self.connections}.acks-{self.acks}"
        limit_key = f"limit-small-{self.connections}" if self.acks == "all" else None
        return Row(key, title, "requests/s", True, SECTION, limit_key)


CASES = tuple(Case(connections, acks) for acks in ("all", "1") for connections in (1, 32))


class Times(NamedTuple):
    warm_up_s: float
    seconds: float


TIMES: Mapping[Scale, Times] = {
    Scale.TINY: Times(0.1, 0.2),
    Scale.QUICK: Times(0.5, 2.0),
    Scale.FULL: Times(0.5, 3.0),
}


class SmallRequests:
    """A socket per connection, the next request when the last is answered."""

    __slots__ = ("_cases", "_scale", "_warm", "rows")

    name = SECTION

    def __init__(
        self, scale: Scale, warm: WarmClusters, keys: frozenset[str] | None = None
    ) -> None:
        self._scale = scale
        self._warm = warm
        self._cases = [each for each in CASES if keys is None or each.row.key in keys]
        self.rows = tuple(each.row for each in self._cases)

    def only(self, keys: frozenset[str]) -> "SmallRequests":
        return SmallRequests(self._scale, self._warm, keys)

    def measure(self, system: System, round_number: int) -> Mapping[str, float]:
        found = Findings()
        topic = f"small-{round_number}"
        with self._warm.running(system) as cluster:
            cluster.create_topic(topic, PARTITIONS)
            for case in self._cases:
                load = SmallLoad(topic, case.connections, case.acks, *TIMES[self._scale])
                found.take(case.row.key, partial(answered_per_s, cluster, load))
            cluster.delete_topic(topic)
        return found.values_or_raise()
