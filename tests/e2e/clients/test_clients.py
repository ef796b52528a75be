"""The same story with every client, against one cluster of three real brokers."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tidelog
from e2e.clients import java_driver
from e2e.clients.aiokafka_driver import AiokafkaDriver
from e2e.clients.confluent_driver import ConfluentDriver
from e2e.clients.driver import Driver, NotOffered
from e2e.clients.kcat_driver import KcatDriver
from e2e.clients.story import STEPS, Stage

JAVA_VERSIONS = ("3.9.1", "4.1.0")
UP_SECONDS = 60

Make = Callable[[str, Path], Driver]


def tidelog_command(home: Path, *arguments: str) -> str:
    source = str(Path(tidelog.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "tidelog", *arguments],
        cwd=home,
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=UP_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("clients")
    ready = home / "ready.json"
    up = ("up", "--brokers", "3", "--detach", "--port", "0", "--ready-file", str(ready))
    tidelog_command(home, *up)
    try:
        yield json.loads(ready.read_text())["bootstrap_servers"]
    finally:
        down = json.loads(tidelog_command(home, "down", "--output", "json"))
    assert down["killed"] == [], "every node stops in order, the last one too"


def confluent(bootstrap: str, _: Path) -> Driver:
    return ConfluentDriver(bootstrap)


def kafka_python(bootstrap: str, _: Path) -> Driver:
    with warnings.catch_warnings():  # it loads its schemas with a call that Python will drop
        warnings.simplefilter("ignore", DeprecationWarning)
        from e2e.clients.kafka_python_driver import KafkaPythonDriver
    return KafkaPythonDriver(bootstrap)


def aiokafka(bootstrap: str, _: Path) -> Driver:
    return AiokafkaDriver(bootstrap)


def kcat(bootstrap: str, _: Path) -> Driver:
    if shutil.which("kcat") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "kcat"], capture_output=True, check=False)
    if shutil.which("kcat") is None:
        pytest.skip("there is no kcat: apt-get install kcat")
    return KcatDriver(bootstrap)


def java(version: str) -> Make:
    def make(bootstrap: str, home: Path) -> Driver:
        try:
            java_driver.built(version)
        except java_driver.JavaMissing as missing:
            pytest.skip(str(missing))
        with (home / "jvm.log").open("w") as errors:
            return java_driver.JavaDriver(bootstrap, version, errors)

    return make


CLIENTS: dict[str, Make] = {
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "kcat": kcat,
    **{f"java-{version}": java(version) for version in JAVA_VERSIONS},
}


@pytest.mark.parametrize("client", CLIENTS)
def test_the_same_story_passes_with_every_client(
    client: str, bootstrap: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    driver = CLIENTS[client](bootstrap, tmp_path)
    failures: list[str] = []
    lacking = set()
    with contextlib.closing(driver):
        stage = Stage(driver, helper=ConfluentDriver(bootstrap))
        for step in STEPS:
            begin = time.monotonic()
            try:
                step.play(stage)
            except NotOffered:
                lacking.add(step.name)
            except Exception as failure:  # the other steps are worth knowing too
                failures.append(f"{step.name}: {type(failure).__name__}: {failure}")
            record_property(step.name, round(time.monotonic() - begin, 3))
    assert not failures, "\n".join(failures)
    assert lacking == driver.lacks
