"""What Spark's Kafka connector waits for, on Tidelog and on Apache Kafka.

A Java client reads a topic as the connector's tasks do, with the connector's `fetch.max.wait.ms`
and with a short one, and says how long it polled and how long it asked for offsets.
"""

import argparse
import subprocess
from pathlib import Path

from spark import CACHE, KAFKA, PARTITIONS, TIDELOG, Load, clusters, fill
from tidelog.bench.compare import kafka_jars
from tidelog.wire.records import NONE

PROGRAM = Path(__file__).parent / "StockWaits.java"
WAITS_MS = (500, 10)
"""The default of clients, and next to nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=180_000, help="of 1 KiB")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    load = Load(arguments.rows, 1024, NONE)
    java = ["java", "-cp", kafka_jars.class_path(CACHE), str(PROGRAM)]
    with clusters(True) as places:
        for number in range(arguments.rounds):
            for place in (TIDELOG, KAFKA):
                cluster = places.run(place)
                if not number:
                    fill(cluster, load)
                for wait_ms in WAITS_MS:
                    words = [cluster.bootstrap_servers, load.topic, str(PARTITIONS), str(wait_ms)]
                    said = subprocess.run(  # noqa: S603 - a command that we write ourselves
                        [*java, *words], capture_output=True, text=True, check=False
                    )
                    assert not said.returncode, said.stderr[-2_000:]
                    told = said.stdout.strip()
                    print(f"{place:12} fetch.max.wait.ms={wait_ms:<4} {told}", flush=True)


if __name__ == "__main__":
    main()
