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
import statistics
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
COMMITTED = re.compile(r"^batch \d+ .* committed · (\S+) s")


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
        self.batch_seconds = []
        self._said = []
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=work, daemon=True)
            for work in (self._look, self._follow, self._listen)
        ]
        for each in self._threads:
            each.start()

    def is_running(self):
        return self.process.poll() is None

    def kill(self):
        for pid in processes_of(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def end(self):
        code = self.process.wait()
        self._ended.set()
        for each in self._threads:
            each.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    @property
    def said(self):
        return "".join(self._said)

    def _follow(self):
        for line in self.process.stdout:
            found = COMMITTED.match(line)
            if found is not None:
                self.batch_seconds.append(float(found[1]))

    def _listen(self):
        self._said.extend(self.process.stderr)

    def _look(self):
        """The most memory that a process of each kind had."""
        while not self._ended.wait(0.5):
            for kind, size in memory_of(self.process.pid):
                self.memory_bytes[kind] = max(size, self.memory_bytes.get(kind, 0))


def processes_of(session):
    """The driver first. Python's workers have a group of their own, in the same session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[3]) == session:
                found.append(int(stat.parent.name))
    return sorted(found, key=lambda pid: pid != session)


def memory_of(session):
    page = os.sysconf("SC_PAGE_SIZE")
    for pid in processes_of(session):
        with contextlib.suppress(OSError):
            size = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page
            is_java = Path(f"/proc/{pid}/comm").read_text().strip() == "java"
            yield "driver" if pid == session else "java" if is_java else "worker", size


class Outcome(NamedTuple):
    kills: int
    within: int
    """Kills that came while a batch was under way: begun, and not done."""
    seconds: float
    """From the first start to the last end."""
    batches: int
    batch_seconds: list
    """Of those that were told of. One whose driver was killed may be done and not told of."""
    memory_bytes: dict


class Checkpoint:
    """How far the one pipeline of a directory has come, as Spark will know it next time."""

    def __init__(self, home):
        self._home = home

    def begun(self):
        return max(self._moments("offsets"), default=-1)

    def done(self):
        return max(self._moments("commits"), default=-1)

    def batch_s(self):
        """How long a batch takes. One that was killed took longer than that."""
        begun, done = self._moments("offsets"), self._moments("commits")
        return statistics.median_low(done[number] - begun[number] for number in done)

    def _moments(self, log):
        """When each batch was begun, or done."""
        found = self._home.glob(f"*/checkpoint/{log}/*")
        return {int(each.name): each.stat().st_mtime for each in found if each.name.isdigit()}


def run_with_kills(given, home, kills, chance, batches):
    """Started again after each kill, until the command has ended by itself. It is killed in so many
    of its batches, a chosen share of the length of a batch after each has begun."""
    began, memory, seconds, within = time.monotonic(), {}, [], 0
    checkpoint = Checkpoint(home)
    victims = sorted(chance.sample(range(1, batches), kills))
    for number in [*victims, None]:
        driver = Driver(given, home)
        if number is not None:
            _wait_for_batch(checkpoint, number, driver)
            time.sleep(chance.random() * checkpoint.batch_s())
            driver.kill()
        code = driver.end()
        within += number is not None and checkpoint.begun() > checkpoint.done()
        seconds += driver.batch_seconds
        for kind, size in driver.memory_bytes.items():
            memory[kind] = max(size, memory.get(kind, 0))
        wanted = 0 if number is None else -signal.SIGKILL
        assert code == wanted, f"ended with {code}, not {wanted}: {driver.said[-2000:]}"
    took = time.monotonic() - began
    return Outcome(kills, within, took, checkpoint.done() + 1, seconds, memory)


def _wait_for_batch(checkpoint, number, driver):
    while checkpoint.begun() < number:
        assert driver.is_running(), f"batch {number} was not begun: {driver.said[-2000:]}"
        time.sleep(0.02)
