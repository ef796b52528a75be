"""Checkpoints in an object store: Hadoop's own client and Spark against our server."""

import json
import os
import queue
import secrets
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError

from support import object_store
from support.pipelines import Home, quick
from support.spark_story import write
from tidelog.spark import checkpoint_in
from tidelog.spark.checkpoint_store.files import CheckpointFiles
from tidelog.spark.failure import InvalidOption, TidelogError
from tidelog.spark.tables.store_options import store_options
from tidelog.spark.tables.stores import Store

PATIENCE_S = 240
"""No story may hang for ever. Nothing is measured against it."""

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with object_store.running_or_skipped(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def place(store):
    """One that nobody has used."""
    return store.place(f"checkpoints/{secrets.token_hex(4)}")


def files_of(store, place):
    return CheckpointFiles(Store(place, store_options("s3", store.options)))


class Hadoop:
    """The client with which Spark writes checkpoints, called as Spark calls it."""

    def __init__(self, spark, location):
        self.fs = spark._jvm.org.apache.hadoop.fs
        self.location = location
        conf = spark._jsc.hadoopConfiguration()
        self.context = self.fs.FileContext.getFileContext(self.path("").toUri(), conf)
        self.rename_option = self.fs.Options.Rename
        flag = spark._jvm.org.apache.hadoop.fs.CreateFlag
        self.flags = spark._jvm.java.util.EnumSet.of(flag.CREATE, flag.OVERWRITE)
        self.array = spark.sparkContext._gateway.new_array
        self.usual = self.fs.permission.FsPermission.getDirDefault()

    def path(self, name):
        return self.fs.Path(f"{self.location}/{name}")

    def create(self, name, data):
        options = self.array(getattr(self.fs, "Options$CreateOpts"), 1)
        options[0] = getattr(self.fs, "Options$CreateOpts").checksumParam(
            getattr(self.fs, "Options$ChecksumOpt").createDisabled()
        )
        stream = self.context.create(self.path(name), self.flags, options)
        stream.write(bytearray(data))
        stream.close()

    def make_directory(self, name):
        self.context.mkdir(self.path(name), self.usual, True)

    def rename(self, name, to, option):
        options = self.array(getattr(self.fs, "Options$Rename"), 1)
        options[0] = option
        self.context.rename(self.path(name), self.path(to), options)

    def put(self, name, data, option=None):
        """As Spark writes a file at once."""
        temporary = f"{name}.{secrets.token_hex(4)}.tmp"
        self.create(temporary, data)
        self.rename(temporary, name, option or self.rename_option.NONE)

    def names(self, name):
        return sorted(
            each.getPath().getName() for each in self.context.util().listStatus(self.path(name))
        )

    def text(self, name):
        stream = self.context.open(self.path(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def exists(self, name):
        return self.context.util().exists(self.path(name))


def test_hadoops_client_finds_what_it_wrote(spark, store, place):
    hadoop = Hadoop(spark, checkpoint_in(place, store.options))
    assert not hadoop.exists("offsets")
    hadoop.make_directory("offsets")
    assert hadoop.names("offsets") == []
    hadoop.put("metadata", b"{}")
    hadoop.put("offsets/0", b"zero")
    hadoop.put("offsets/1", b"one \xc3\xa9")
    assert hadoop.names("offsets") == ["0", "1"]
    assert hadoop.names("") == ["metadata", "offsets"]
    assert hadoop.text("offsets/1") == "one é"
    assert hadoop.context.getFileStatus(hadoop.path("offsets/1")).getLen() == 6
    assert hadoop.context.delete(hadoop.path("offsets/0"), False)
    assert not hadoop.exists("offsets/0")
    assert files_of(store, place).read("offsets/1").decode() == "one é"
    assert hadoop.context.delete(hadoop.path("offsets"), True)
    assert hadoop.names("") == ["metadata"]


def test_a_file_is_not_written_over_by_another_driver(spark, store, place):
    """Whoever looks first may still be second."""
    hadoop = Hadoop(spark, checkpoint_in(place, store.options))
    hadoop.make_directory("offsets")
    other = files_of(store, place)
    hadoop.create("offsets/0.mine.tmp", b"up to 10")
    other.write("offsets/0.tmp", b"up to 20", overwrite=False)
    other.rename("offsets/0.tmp", "offsets/0", overwrite=False)
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        hadoop.rename("offsets/0.mine.tmp", "offsets/0", hadoop.rename_option.NONE)
    assert other.read("offsets/0") == b"up to 20"
    with pytest.raises(FileExistsError):
        other.write("offsets/0", b"up to 30", overwrite=False)
    other.write("offsets/0", b"up to 20", overwrite=False)  # the same again: an answer was lost
    hadoop.put("offsets/0", b"up to 10", hadoop.rename_option.OVERWRITE)
    assert other.read("offsets/0") == b"up to 10"


def test_a_temporary_file_never_reaches_the_store(spark, store, place):
    hadoop = Hadoop(spark, checkpoint_in(place, store.options))
    hadoop.make_directory("offsets")
    hadoop.create("offsets/0.tmp", b"half a plan")
    assert hadoop.text("offsets/0.tmp") == "half a plan"
    with pytest.raises(FileNotFoundError):
        files_of(store, place).status("offsets/0.tmp")
    assert hadoop.context.delete(hadoop.path("offsets/0.tmp"), False)
    assert not hadoop.exists("offsets/0.tmp")


def test_a_stranger_who_does_not_know_the_secret_is_refused(store, place):
    location = checkpoint_in(place, store.options)
    root = location.rpartition("/")[0].replace("webhdfs://", "http://")
    for path in ("metadata", "guess/metadata"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{root}/webhdfs/v1/{path}?op=OPEN")
        assert refused.value.code == 403
        told = json.loads(refused.value.read())["RemoteException"]
        assert told["message"] == "no such checkpoint"


def test_a_wrong_key_is_told_in_one_line_without_it(spark, store, place):
    options = {**store.options, "AWS_SECRET_ACCESS_KEY": "a-wrong-secret"}
    hadoop = Hadoop(spark, checkpoint_in(place, options))
    with pytest.raises(Py4JJavaError) as refused:
        hadoop.exists("offsets")
    first = str(refused.value.java_exception.getMessage()).splitlines()[0]
    assert f"cannot use the checkpoint at {place}" in first
    assert "a-wrong-secret" not in first
    files = files_of(store, place.replace("lake", "no-such-bucket"))
    with pytest.raises(TidelogError, match="cannot use the checkpoint at"):
        files.write("offsets/0", b"zero", overwrite=False)


def test_a_directory_needs_nobody_to_serve_it(tmp_path):
    with pytest.raises(InvalidOption, match="give it to Spark as it is"):
        checkpoint_in(str(tmp_path))


def counted(spark, location, batches):
    """A query with state, for so many batches. What it counted."""
    rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    name = f"counts_{secrets.token_hex(4)}"
    query = (
        rates.groupBy((rates.value % 5).alias("rest"))
        .count()
        .writeStream.outputMode("complete")
        .format("memory")
        .queryName(name)
        .option("checkpointLocation", location)
        .start()
    )
    try:
        seen = 0
        while seen < batches:
            assert not query.awaitTermination(0.1), "it goes on until it is stopped"
            seen = len({each["batchId"] for each in query.recentProgress})
        return query.lastProgress["batchId"], {
            row["rest"]: row["count"] for row in spark.table(name).collect()
        }
    finally:
        query.stop()


def test_a_query_with_state_goes_on_from_a_store(spark, store, place):
    with quick(spark):
        first, _ = counted(spark, checkpoint_in(place, store.options), 2)
        last, counts = counted(spark, checkpoint_in(place, store.options), 2)
    assert last > first
    assert set(counts) == set(range(5))
    assert min(counts.values()) > first + 1, "what the first query counted is lost"


def offsets_in(store, table):
    options = Store(table, store_options("s3", store.options)).delta_options()
    rows = DeltaTable(table, storage_options=options).to_pyarrow_table(columns=["offset"])
    return sorted(rows.column("offset").to_pylist())


@pytest.fixture
def login(store, monkeypatch):
    for name, value in store.options.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("login")
def test_a_driver_on_another_machine_goes_on_where_the_first_one_was(
    cluster, spark, store, place, tmp_path
):
    topic = cluster.topic("moved")
    table = store.place(f"tables/{topic}")
    given = ["archive", topic, "--to", table, "-b", cluster.bootstrap_servers]
    stored = [*given, "--checkpoint", place, "--once"]
    write(cluster, topic, range(5))
    with quick(spark):
        Home(tmp_path / "first").done(*stored)
        write(cluster, topic, range(5, 8))
        second = Home(tmp_path / "second")
        second.done(*stored)
        refused = Home(tmp_path / "third").run(*stored, "--partition-by", "date")
        other = Home(tmp_path / "fourth").run(*given, "--once")
    assert offsets_in(store, table) == list(range(8))
    (known,) = second.done("status", "-o", "json").document
    assert known["checkpoint"] == place
    assert refused.code != 0
    assert "belongs to other arguments: --partition-by none → date" in refused.stderr
    assert f"remove {place} to begin anew" in refused.stderr
    assert "has rows, and" in other.stderr, "the table without its checkpoint"


@pytest.mark.long
@pytest.mark.usefixtures("login")
def test_a_killed_driver_is_followed_by_one_on_another_machine(
    cluster, spark, store, place, tmp_path
):
    topic = cluster.topic("moved-after-a-kill")
    table = store.place(f"tables/{topic}")
    given = ["archive", topic, "--to", table, "-b", cluster.bootstrap_servers]
    stored = [*given, "--checkpoint", place]
    with killed_at_the_end(Home(tmp_path / "first"), [*stored, "--every", "100ms"]) as driver:
        for batch in range(3):
            write(cluster, topic, range(5 * batch, 5 * batch + 5))
            assert driver.lines.get(timeout=PATIENCE_S).startswith(f"batch {batch} ")
        write(cluster, topic, range(15, 20))  # it may be in the middle of these
    with quick(spark):
        Home(tmp_path / "second").done(*stored, "--once")
    assert offsets_in(store, table) == list(range(20))


@pytest.mark.long
@pytest.mark.usefixtures("login", "spark")
def test_two_drivers_at_once_write_each_record_once(cluster, store, place, tmp_path):
    """Each has a directory of its own, so no lock keeps them apart."""
    topic = cluster.topic("two-drivers")
    table = store.place(f"tables/{topic}")
    given = ["archive", topic, "--to", table, "-b", cluster.bootstrap_servers, "--every", "100ms"]
    stored = [*given, "--checkpoint", place]
    with ExitStack() as stack:
        drivers = [
            stack.enter_context(killed_at_the_end(Home(tmp_path / each), stored)) for each in "ab"
        ]
        written = 0

        def write_more():
            nonlocal written
            write(cluster, topic, range(written, written + 5))
            written += 5

        while not all(driver.has_begun_or_ended() for driver in drivers):
            write_more()
        for _ in range(20):
            write_more()
        while len(offsets_in(store, table)) < written:
            assert any(each.process.poll() is None for each in drivers), "nobody goes on"
    assert offsets_in(store, table) == list(range(written))


class Driver(NamedTuple):
    process: subprocess.Popen[str]
    lines: queue.SimpleQueue[str]
    """What it says of its batches."""

    def has_begun_or_ended(self):
        return not self.lines.empty() or self.process.poll() is not None


@contextmanager
def killed_at_the_end(home, arguments):
    """A command of its own, with its JVM and workers. It cannot say goodbye."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tidelog", "pipeline", *arguments, "--state-dir", home.directory],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    driver = Driver(process, queue.SimpleQueue())

    def listen():
        for line in process.stdout:
            driver.lines.put(line)

    listening = threading.Thread(target=listen)
    listening.start()
    try:
        yield driver
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        listening.join()
        process.stdout.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [("lake/checkpoints", "it is a directory"), ("hdfs://lake/one", "hdfs://")],
)
def test_a_checkpoint_that_is_in_no_store_is_told(tmp_path, text, why):
    ran = Home(tmp_path).run(
        "archive", "any", "--to", str(tmp_path / "lake"), "-b", "127.0.0.1:1", "--checkpoint", text
    )
    assert ran.code == 2
    assert f"wrong value for --checkpoint: {text}" in ran.stderr
    assert why in ran.stderr
