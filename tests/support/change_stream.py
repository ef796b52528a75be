"""A source table that lives, the change events it leaves, and the table that follows them.

Events are as Debezium writes them for PostgreSQL: inserts, updates, deletes with a tombstone, and
some that come again later than they should, with the position that they had.
"""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from support.spark_story import write_records
from tidelog.client import NewRecord
from tidelog.spark.changes.words import BUCKET
from tidelog.spark.tables.files import open_file
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.words import TableSpec

SOURCES = Path(__file__).parents[2] / "src"
SCHEMA = "id BIGINT, name STRING, amount BIGINT, note STRING"
PARTITIONS = 2
WRITTEN_TOGETHER = 4_000
LATE_KEPT = 2_000
COMMITTED = re.compile(r"^batch (\d+) .* committed")


class Counts(NamedTuple):
    inserts: int
    updates: int
    deletes: int
    late: int


class SourceTable:
    """Rows by id, and an event for everything that happens to them."""

    def __init__(self, seed, keys):
        self._chance = random.Random(seed)
        self._keys = keys
        self._lsn = 0
        self._late = []
        self.rows = {}
        self.counts = Counts(0, 0, 0, 0)

    def events(self, count):
        """So many records, tombstones among them."""
        written = 0
        while written < count:
            for record in self._next():
                written += 1
                yield record

    def _next(self):
        chance = self._chance
        if self._late and chance.random() < 0.1:
            self._count(late=1)
            return [self._late[chance.randrange(len(self._late))]]
        self._lsn += chance.randrange(1, 50)
        key = chance.randrange(self._keys)
        before = self.rows.get(key)
        if before is not None and chance.random() < 0.2:
            del self.rows[key]
            self._count(deletes=1)
            deleted = self._event("d", key, before, None)
            return [deleted, NewRecord(None, deleted.key, partition=deleted.partition)]
        after = {
            "id": key,
            "name": f"customer {key}",
            "amount": chance.randrange(1_000_000),
            "note": None if chance.random() < 0.2 else f"note {self._lsn}",
        }
        self.rows[key] = after
        if before is None:
            self._count(inserts=1)
            return [self._event("c", key, None, after)]
        self._count(updates=1)
        return [self._event("u", key, before, after)]

    def _event(self, op, key, before, after):
        source = {"connector": "postgresql", "lsn": self._lsn, "table": "customers"}
        document = {"before": before, "after": after, "source": source, "op": op}
        record = NewRecord(
            json.dumps(document).encode(),
            json.dumps({"id": key}).encode(),
            partition=key % PARTITIONS,
        )
        if len(self._late) < LATE_KEPT:
            self._late.append(record)
        else:
            self._late[self._chance.randrange(LATE_KEPT)] = record
        return record

    def _count(self, **more):
        now = self.counts._asdict()
        self.counts = Counts(**{name: now[name] + more.get(name, 0) for name in now})


def fill(cluster, topic, source, count):
    """Write so many events."""
    some = []
    for record in source.events(count):
        some.append(record)
        if len(some) == WRITTEN_TOGETHER:
            write_records(cluster, topic, some)
            some = []
    if some:
        write_records(cluster, topic, some)


def arguments(topic, to, form, bootstrap, *, batch):
    given = ["upsert", topic, "--to", str(to), "--format", form, "--once"]
    given += ["--change-format", "debezium", "--key", "id", "--max-records", str(batch)]
    given += ["--value-format", "json", "--schema", SCHEMA, "-b", bootstrap]
    return given


def difference(source, to, form):
    """Rows that are missing, that are too many or twice, and that are not what they should be."""
    spec = TableSpec(str(to), form, (BUCKET,))
    names = ["id", "name", "amount", "note"]
    tables = []
    for file in open_table(spec).files():
        with open_file(spec, file) as opened:
            tables.append(pq.read_table(opened, columns=names))
    found = pa.concat_tables(tables).to_pylist()
    by_key = {each["id"]: each for each in found}
    wrong = [key for key, each in source.rows.items() if key in by_key and by_key[key] != each]
    missing = [key for key in source.rows if key not in by_key]
    extra = len(found) - len(source.rows) + len(missing)
    return {"missing": len(missing), "extra": extra, "wrong": len(wrong), "rows": len(found)}


class Driver:
    """The command as a process of its own, which may be killed with its Java and its workers."""

    def __init__(self, given, home):
        command = [sys.executable, "-m", "tidelog", "pipeline", *given, "--state-dir", str(home)]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.memory_bytes = {}
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()
        self._said = []
        self._errors = threading.Thread(target=self._listen, daemon=True)
        self._errors.start()

    def batches(self):
        """The number of each batch, when it is committed."""
        for line in self.process.stdout:
            found = COMMITTED.match(line)
            if found is not None:
                yield int(found[1])

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.end()

    def end(self):
        code = self.process.wait()
        self._ended.set()
        self._watch.join()
        self._errors.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    @property
    def said(self):
        return "".join(self._said)

    def _listen(self):
        self._said.extend(self.process.stderr)

    def _look(self):
        """The most memory that a process of each kind had."""
        while not self._ended.wait(0.5):
            for kind, size in memory_of_group(self.process.pid):
                self.memory_bytes[kind] = max(size, self.memory_bytes.get(kind, 0))


def memory_of_group(group):
    page = os.sysconf("SC_PAGE_SIZE")
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ProcessLookupError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) != group:
                continue
            size = int((stat.parent / "statm").read_text().split()[1]) * page
            name = "java" if b"java" in (stat.parent / "cmdline").read_bytes() else "python"
            is_driver = stat.parent.name == str(group)
            yield "driver" if is_driver else "java" if name == "java" else "worker", size


class Outcome(NamedTuple):
    kills: int
    seconds: float
    """From the first start to the last end."""
    batches: int
    difference: dict
    memory_bytes: dict


def run_with_kills(given, home, kills, chance):
    """Started again after each kill, until the command has ended by itself. The batches, and how
    long it took."""
    memory, last, begun = {}, -1, time.monotonic()
    for left in range(kills, -1, -1):
        driver = Driver(given, home)
        wait = chance.randrange(1, 3)
        for number in driver.batches():
            last = max(last, number)
            wait -= 1
            if left and wait == 0:
                time.sleep(chance.random() * 4)  # somewhere within the next batch
                driver.kill()
                break
        code = driver.end() if not driver._ended.is_set() else None
        for kind, size in driver.memory_bytes.items():
            memory[kind] = max(size, memory.get(kind, 0))
        assert code in (0, None), driver.said[-2000:]
        if code == 0:
            return Outcome(kills - left, time.monotonic() - begun, last + 1, {}, memory)
    raise AssertionError("it was killed more often than was asked")
