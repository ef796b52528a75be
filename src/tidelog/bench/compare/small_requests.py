"""Requests per second when each carries one record: what a request costs, not its bytes."""

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from tidelog.bench.compare.client_process import run_client
from tidelog.bench.compare.findings import Findings
from tidelog.bench.compare.system import Row, Running, Scale, System
from tidelog.bench.compare.topics import Topics

MODULE: Final = "tidelog.bench.compare.small_client"
SECTION = "small requests"
RECORD_BYTES = 100
PARTITIONS = 6
TOPIC = "small"


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
    heat_s: float
    """Before the first case, on all connections: the Java machine compiles what runs often."""
    warm_up_s: float
    """Before each case, on its own connections."""
    seconds: float


TIMES: Mapping[Scale, Times] = {
    Scale.TINY: Times(0.1, 0.1, 0.2),
    Scale.QUICK: Times(3.0, 0.5, 2.0),
    Scale.FULL: Times(5.0, 1.0, 3.0),
}


class SmallRequests:
    """A socket per connection, the next request when the last is answered."""

    __slots__ = ("_cases", "_scale", "rows")

    name = SECTION

    def __init__(self, scale: Scale, keys: frozenset[str] | None = None) -> None:
        self._scale = scale
        self._cases = [each for each in CASES if keys is None or each.row.key in keys]
        self.rows = tuple(each.row for each in self._cases)

    def only(self, keys: frozenset[str]) -> "SmallRequests":
        return SmallRequests(self._scale, keys)

    def measure(self, system: System, round_number: int) -> Mapping[str, float]:
        found = Findings()
        with system.start() as cluster:
            cluster.create_topic(TOPIC, PARTITIONS)
            times = TIMES[self._scale]
            self._per_second(cluster, Case(32, "all"), times.heat_s)
            for case in self._cases:
                found.take(case.row.key, partial(self._per_second, cluster, case, times.seconds))
        return found.values_or_raise()

    def _per_second(self, cluster: Running, case: Case, seconds: float) -> float:
        """Connections are shared out among partitions, each to the leader of its own."""
        leaders = Topics(cluster.bootstrap_servers).leader_addresses(TOPIC)
        partitions = [number % PARTITIONS for number in range(case.connections)]
        job = {
            "topic": TOPIC,
            "targets": [[*leaders[partition], partition] for partition in partitions],
            "acks": -1 if case.acks == "all" else int(case.acks),
            "record_bytes": RECORD_BYTES,
            "warm_up_s": TIMES[self._scale].warm_up_s,
            "seconds": seconds,
        }
        return float(run_client(MODULE, job)["per_second"])
