"""A sink that kills at chosen points, and one that does not look at its marker: the control.

Faults are files, so that processes that know nothing of each other agree who strikes: whoever
renames the file does, and nobody does it twice. A commit under way is a file too, which the process
that commits removes when it is done. So what a kill has hit is seen, and not only meant.
"""

import contextlib
import functools
import json
import math
import os
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import NamedTuple

from deltalake import DeltaTable
from pyiceberg.table import Table
from pyspark import TaskContext

from tidelog.spark import sink_options
from tidelog.spark.data_source import TidelogDataSource
from tidelog.spark.delivery import Delivery
from tidelog.spark.options import Options
from tidelog.spark.table_sink import TableDataSource, TableWriter, spec_of
from tidelog.spark.tables import iceberg
from tidelog.spark.writer import NUMBER, TidelogStreamWriter

FORMAT = "tidelog-faulty"
TABLE_FORMAT = "tidelog-faulty-table"
IN_TASK, BEFORE_COMMIT, BEFORE_END, AFTER_END = "task", "before commit", "before end", "after end"
WITHIN = "within"
"""Somewhere in a commit: from its first request to the answer that ends it."""
KILL_LATER = """
echo ready; read go
sleep "$1"; kill -9 $2; for each in "$3"/*.open; do [ ! -e "$each" ] || : > "$3/$4.hit"; done
"""
"""In a process of its own: libraries that commit may hold Python's lock, and die by this kill. Who
is dead finishes no commit, so one that is open after the kill was open when it came. It is started
before the commit, which may take less time than that."""


class Fault(NamedTuple):
    """Who dies when."""

    point: str
    number: int
    """Of the micro-batch."""
    victims: tuple[int, ...] = ()
    """Processes, by id."""
    itself: bool = False
    """The process that comes to the point dies."""
    above: bool = False
    """So does the JVM that it belongs to."""
    by: int = signal.SIGKILL
    """What they are sent; whom SIGSTOP holds goes on after a SIGCONT."""
    share: float = 0.5
    """How much of a commit goes by first, by the length of the shortest before. Only `within`."""


def arm(directory, fault):
    """The fault happens once, when its point is reached."""
    path = Path(directory) / f"{len(list(Path(directory).iterdir()))}.fault"
    path.with_suffix(".new").write_text(json.dumps(fault))
    path.with_suffix(".new").rename(path)


def struck(directory):
    """How many faults have happened."""
    return len(list(Path(directory).glob("*.struck")))


def hits(directory):
    """How many of them found a commit under way."""
    return len(list(Path(directory).glob("*.hit")))


def open_commits(directory):
    return set(Path(directory).glob("*.open"))


def due(directory, point, number):
    """Faults that this process is to do, each with its name."""
    for path in sorted(Path(directory).glob("*.fault")):
        fault = Fault(*json.loads(path.read_text()))
        if fault.point != point or fault.number > number:
            continue
        with contextlib.suppress(FileNotFoundError):  # somebody else was faster
            path.rename(path.with_suffix(".struck"))
            yield fault, path.stem


def strike(directory, point, number):
    for fault, name in due(directory, point, number):
        for victim in fault.victims:
            send(victim, fault.by)
        if fault.above:
            send(jvm_above(os.getpid()), fault.by)
        if open_commits(directory):
            Path(directory, f"{name}.hit").touch()
        if fault.itself:
            send(os.getpid(), fault.by)


@contextlib.contextmanager
def commit_under_way(directory, number):
    """Around a commit; starts those who kill within it, and tells who they are."""
    mine, shortest = Path(directory, f"{uuid.uuid4()}.open"), Path(directory, "shortest")
    known_s = float(shortest.read_text()) if shortest.exists() else math.inf
    killers = [
        strike_later(directory, fault, name, known_s)
        for fault, name in due(directory, WITHIN, number)
    ]
    mine.touch()
    began = time.monotonic()
    for killer in killers:
        killer.stdin.close()
    try:
        yield killers
    finally:
        mine.unlink()
        known = mine.with_suffix(".shortest")  # a kill leaves it whole, or does not leave it
        known.write_text(str(min(known_s, time.monotonic() - began)))
        known.rename(shortest)
        for killer in killers:
            killer.wait()
            killer.stdout.close()


def strike_later(directory, fault, name, length_s):
    victims = [*fault.victims, *([os.getpid()] if fault.itself else [])]
    delay = str(length_s * fault.share)
    given = [delay, " ".join(map(str, victims)), str(directory), name]
    command = ["sh", "-c", KILL_LATER, "kill-later", *given]
    killer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert killer.stdout.readline() == b"ready\n"
    return killer


def kill(pid):
    send(pid, signal.SIGKILL)


def send(pid, what):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, what)


def jvm_above(pid):
    """The nearest ancestor that is a JVM."""
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


class FaultyDelivery(Delivery):
    def __init__(self, *given, faults):
        super().__init__(*given)
        self.faults = faults
        self.under_way = contextlib.ExitStack()

    async def produce(self, producer, feeds):
        self.under_way.enter_context(commit_under_way(self.faults, self._batch.number))
        try:
            await super().produce(producer, feeds)
        except BaseException:
            self.under_way.close()
            raise

    async def end(self, producer):
        with self.under_way:
            strike(self.faults, BEFORE_END, self._batch.number)
            await super().end(producer)
        strike(self.faults, AFTER_END, self._batch.number)


class ForgetfulDelivery(FaultyDelivery):
    """The control: what was written before is not asked for."""

    async def read_marker(self):
        await super().read_marker()


class FaultyWriter(TidelogStreamWriter):
    def __init__(self, settings, schema, faults, kind):
        super().__init__(settings, sink_options.check_columns(schema, settings), schema)
        self.faults = faults
        self.delivery = functools.partial(kind, faults=faults)

    def write(self, iterator):
        number = int(TaskContext.get().getLocalProperty(NUMBER))

        def rows():
            for batch in iterator:
                yield batch
                strike(self.faults, IN_TASK, number)

        return super().write(rows())

    def commit(self, messages, batchId):  # noqa: N803 - Spark's name
        strike(self.faults, BEFORE_COMMIT, batchId)
        super().commit(messages, batchId)


class FaultySource(TidelogDataSource):
    @classmethod
    def name(cls):
        return FORMAT

    def streamWriter(self, schema, overwrite):  # noqa: N802 - Spark's name
        options = dict(self.options)
        faults = options.pop("faults")
        kind = FaultyDelivery if options.pop("markers") == "true" else ForgetfulDelivery
        settings = sink_options.sink_settings(Options(options))
        return FaultyWriter(settings, schema, faults, kind)


class FaultyTableWriter(TableWriter):
    """A commit is the one call by which a library commits: a PUT of Delta's log, a change of
    Iceberg's catalog. `before end` and `after end` are around it."""

    def __init__(self, spec, schema, faults, markers):
        super().__init__(spec, schema)
        self.faults = faults
        self.markers = markers

    def write(self, iterator):
        number = int(TaskContext.get().getLocalProperty(NUMBER))

        def rows():
            for batch in iterator:
                yield batch
                strike(self.faults, IN_TASK, number)

        return super().write(rows())

    def commit(self, messages, batchId):  # noqa: N803 - Spark's name
        strike(self.faults, BEFORE_COMMIT, batchId)
        with contextlib.ExitStack() as patched:
            for owner, name in ((DeltaTable, "create_write_transaction"), (Table, "_do_commit")):
                real = getattr(owner, name)
                setattr(owner, name, self._around(real, batchId))
                patched.callback(setattr, owner, name, real)
            if not self.markers:
                self._forget(patched)
            super().commit(messages, batchId)

    def _around(self, real, number):
        def committed(*given, **named):
            strike(self.faults, BEFORE_END, number)
            with commit_under_way(self.faults, number):
                done = real(*given, **named)
            strike(self.faults, AFTER_END, number)
            return done

        return committed

    def _forget(self, patched):
        """The control: which batch is in the table is not asked."""
        patched.callback(setattr, DeltaTable, "transaction_version", DeltaTable.transaction_version)
        DeltaTable.transaction_version = lambda table, query: None
        patched.callback(setattr, iceberg, "MARK", iceberg.MARK)
        iceberg.MARK = f"forgotten.{uuid.uuid4()}."


class FaultyTableSource(TableDataSource):
    @classmethod
    def name(cls):
        return TABLE_FORMAT

    def streamWriter(self, schema, overwrite):  # noqa: N802 - Spark's name
        options = dict(self.options)
        faults = options.pop("faults")
        markers = options.pop("markers") == "true"
        return FaultyTableWriter(spec_of(options), schema, faults, markers)
