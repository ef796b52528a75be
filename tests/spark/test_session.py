"""How the Python programs start that Spark runs for us."""

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tidelog.spark import quiet_daemon
from tidelog.spark.session import STREAMING_WORKER, quick_python, sockets_in

PACKAGE = Path(pyspark.__file__).parent
ARCHIVE = PACKAGE / "python" / "lib" / "pyspark.zip"
WHERE = "import sys, pyspark; print(sys.executable, pyspark.__file__, *sys.argv[1:])"


def said_by(program, code, *arguments, python_path):
    answer = subprocess.run(
        [program, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": python_path},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return answer.stdout.split()


def test_workers_take_pyspark_as_it_is_installed_and_not_from_its_archive(tmp_path):
    program = quick_python(tmp_path / "python")
    assert said_by(program, WHERE, "a b", "*", python_path=f"{ARCHIVE}:{tmp_path}") == [
        sys.executable,
        str(PACKAGE / "__init__.py"),
        "a",
        "b",
        "*",
    ]


def test_spark_gets_a_path_and_not_a_name_to_look_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert quick_python(Path("python")) == tmp_path / "python"


def test_whatever_else_is_on_the_path_of_workers_stays_there_in_its_order(tmp_path):
    program = quick_python(tmp_path / "python")
    others = [str(tmp_path / name) for name in ("jobs.zip", "other spark", "lib-*")]
    path = ":".join([str(ARCHIVE), others[0], f"{PACKAGE}/jars/spark.jar", *others[1:]])
    code = "import os; print(os.environ['PYTHONPATH'])"
    assert " ".join(said_by(program, code, python_path=path)) == ":".join(others)


def test_a_session_here_has_workers_that_start_quickly(spark):
    used = spark.range(1).rdd.map(lambda _: sys.path).first()
    assert not [each for each in used if each == str(ARCHIVE)]
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == os.environ["PYSPARK_PYTHON"]


def test_rows_do_not_go_through_tcp_between_java_and_python_on_one_machine(spark):
    used = spark.range(1).rdd.map(lambda _: os.environ["PYTHON_UNIX_DOMAIN_ENABLED"]).first()
    assert used == "True"
    directory = Path(spark.conf.get("spark.python.unix.domain.socket.dir"))
    assert [each for each in directory.iterdir() if each.is_socket()]


def test_a_worker_whose_rows_nobody_wants_any_more_ends_without_a_word():
    told = []

    def worker(*connection):
        told.append(connection)
        if connection == ("gone", True):
            raise BrokenPipeError
        return 0

    assert quiet_daemon.quiet(worker)("here", True) == 0
    assert quiet_daemon.quiet(worker)("gone", True) == quiet_daemon.ENDED
    assert told == [("here", True), ("gone", True)]


def test_a_path_that_is_too_long_for_a_socket_leaves_spark_with_tcp(tmp_path):
    assert sockets_in(Path("sockets"))
    assert sockets_in(tmp_path / ("long" * 20)) == {}


# ---- a streaming query connects before it loads anything ----

GUARD_S = 120
LOADS_WHEN_TOLD = """
with open({gate!r}) as gate:  # nothing is loaded before somebody opens it for writing
    gate.read()
"""
ASKS_FOR_A_CONNECTION = """
import os, struct
import pyspark.util
stream, connection = pyspark.util.local_connect_and_auth(None, None)
connection.settimeout(None)
stream.write(struct.pack("!i", os.getpid()))
stream.flush()
"""


def slow_pyspark(home, gate):
    """A package of that name, which takes as long to load as the test wants."""
    place = home / STREAMING_WORKER.replace(".", "/")
    place.parent.mkdir(parents=True)
    place.with_suffix(".py").write_text(ASKS_FOR_A_CONNECTION)
    for package in ("pyspark", "pyspark/sql", "pyspark/sql/streaming"):
        (home / package / "__init__.py").touch()
    (home / "pyspark/__init__.py").write_text(LOADS_WHEN_TOLD.format(gate=str(gate)))
    (home / "pyspark/util.py").write_text("def local_connect_and_auth(port, secret): 1 / 0\n")


def test_a_worker_of_a_stream_has_connected_before_pyspark_is_loaded(tmp_path):
    """Spark waits ten seconds for the connection, and for the rest as long as it takes."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    slow_pyspark(tmp_path, gate)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(GUARD_S)
        given = {
            "PYTHONPATH": str(tmp_path),
            "PYTHON_WORKER_FACTORY_PORT": str(server.getsockname()[1]),
            "PYTHON_WORKER_FACTORY_SECRET": "secret",
        }
        worker = subprocess.Popen(
            [quick_python(tmp_path / "python"), "-m", STREAMING_WORKER],
            env={**os.environ, **given},
        )
        connection, _ = server.accept()
    with connection, connection.makefile("rwb") as stream:
        connection.settimeout(GUARD_S)
        assert stream.read(4 + 6) == struct.pack("!i", 6) + b"secret"
        stream.write(struct.pack("!i", 2) + b"ok")
        stream.flush()
        gate.write_text("load")
        assert struct.unpack("!i", stream.read(4)) == (worker.pid,)
    assert worker.wait(GUARD_S) == 0


# ---- formats are looked for with the same Python ----

FINDS_THE_FORMAT = """
from tidelog.spark.session import open_session
spark = open_session("driver python", conf={"spark.driver.extraJavaOptions": "-XX:+UseSerialGC"})
topic = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"}
print(spark.read.format("tidelog").options(**topic).load().columns[0])
"""


@pytest.mark.long
def test_the_format_is_found_whatever_runs_the_driver(tmp_path):
    """In a notebook `PYSPARK_DRIVER_PYTHON` is `jupyter`, which cannot run a worker."""
    given = {"PYSPARK_DRIVER_PYTHON": "jupyter-of-somebody", "SPARK_LOCAL_IP": "127.0.0.1"}
    environment = {**os.environ, **given}
    environment.pop("PYSPARK_PYTHON", None)
    found = subprocess.run(
        [sys.executable, "-c", FINDS_THE_FORMAT],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert found.stdout.split() == ["key"], found.stderr[-2000:]
