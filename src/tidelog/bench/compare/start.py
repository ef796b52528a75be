"""From the start of the first process to the first record that is acknowledged by all."""

from collections.abc import Mapping
from contextlib import closing

from tidelog.bench.compare.footprint import seconds_since_start
from tidelog.bench.compare.system import Row, System
from tidelog.bench.compare.writing import write_one

SECTION = "start"
SIZES = (1, 3)


class StartSection:
    """Directories are made and formatted before; a topic is made and written to afterwards."""

    __slots__ = ()

    name = SECTION
    rounds_max: int | None = None
    rows = tuple(
        Row(
            f"start.{nodes}_s",
            f"start to first produce, {nodes} node{'s' if nodes > 1 else ''}",
            "s",
            more_is_better=False,
            section=SECTION,
        )
        for nodes in SIZES
    )

    def measure(self, system: System, round_number: int) -> Mapping[str, float]:
        return {
            f"start.{nodes}_s": first_produce_s(system, nodes, f"start-{round_number}")
            for nodes in SIZES
        }


def first_produce_s(system: System, nodes: int, topic: str) -> float:
    with closing(system.start(nodes)) as running:
        running.create_topic(topic, 1, replication_factor=nodes)
        write_one(running.bootstrap_servers, topic)
        return seconds_since_start(running)
