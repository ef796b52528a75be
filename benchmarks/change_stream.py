"""A stream of change events into tables, with the driver killed; the tables must be the source.

    make change-stream
    python benchmarks/change_stream.py --events 1000000 --kills 5 --form delta --form iceberg

A source table is inserted into, updated and deleted from at random, by a seed. Its events, as
Debezium writes them, with tombstones and with events that come again too late, go to a topic of a
cluster of one broker, and `tidelog pipeline upsert` keeps up with them while its processes are
killed: the driver, its Java and all workers at once.
"""

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support import change_stream as stream
from tidelog.testing import Cluster

MIB = 1 << 20


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--batch", type=int, help="records in a batch, at most; else a tenth")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--form", action="append", choices=("delta", "iceberg"))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    given.batch = given.batch or max(given.events // 10, 1)
    if given.kills >= batches_of(given):
        parser.error(f"{given.kills} kills need more batches than {batches_of(given)}")
    directory = Path(tempfile.mkdtemp(prefix="tidelog-change-stream-"))
    wrong = 0
    try:
        with Cluster(brokers=1) as cluster:
            topic = cluster.topic("customers", partitions=stream.PARTITIONS)
            source = stream.SourceTable(given.seed, given.keys)
            stream.fill(cluster, topic, source, given.events)
            counts = ", ".join(f"{each:,} {name}" for name, each in source.counts._asdict().items())
            print(f"seed {given.seed}, {given.events:,} events: {counts}; "
                  f"{len(source.rows):,} rows are left", flush=True)  # fmt: skip
            for form in given.form or ["delta", "iceberg"]:
                outcome = run(cluster, topic, directory / form, form, given)
                found = stream.difference(source, directory / form / "lake", form)
                wrong += found["missing"] + found["extra"] + found["wrong"]
                show(form, outcome, found, given)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if wrong else 0


def run(cluster, topic, directory, form, given):
    command = stream.arguments(
        topic, directory / "lake", form, cluster.bootstrap_servers, batch=given.batch
    )
    chance = random.Random(given.seed)
    home = directory / "pipelines"
    return stream.run_with_kills(command, home, given.kills, chance, batches_of(given))


def batches_of(given):
    """At least."""
    return -(-given.events // given.batch)


def show(form, outcome, found, given):
    batch_s = statistics.median(outcome.batch_seconds)
    memory = ", ".join(f"{name} {size // MIB:,}" for name, size in outcome.memory_bytes.items())
    print(
        f"{form}: {outcome.kills} kills, {outcome.within} within a batch; {outcome.batches} "
        f"batches, {outcome.seconds:.0f} s with all starts, {batch_s:.1f} s a batch; "
        f"{found['rows']:,} rows, {found['missing']} missing, {found['extra']} extra, "
        f"{found['wrong']} wrong; most MiB of one process: {memory}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
