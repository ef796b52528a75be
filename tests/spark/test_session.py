"""How the Python programs start that Spark runs for us."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from tidelog.spark.session import quick_python

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
