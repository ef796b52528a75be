"""Moving in, moving out (docs/moving.md): directories of Kafka 4.3 under Tidelog, and the reverse.

Three nodes, whole data directories, nothing converted. What clients can see is compared over the
wire before and after; then the same producers and groups go on, and everything moves back.
"""

import subprocess
from pathlib import Path

import pytest

from support.moving import census, life
from support.moving.homes import NODES, Kafka, copied, run_by_kafka, run_by_tidelog
from tidelog.bench.compare import kafka_jars
from tidelog.bench.compare.system import SystemMissing
from tidelog.cluster import layout
from tidelog.cluster.free_ports import free_ports
from tidelog.cluster.layout import Shape

pytestmark = pytest.mark.long

CACHE = Path(__file__).parents[2] / ".cache"


@pytest.fixture(scope="module")
def class_path():
    try:
        return kafka_jars.class_path(CACHE)
    except SystemMissing as missing:
        pytest.skip(str(missing))


def assert_same(before: census.Census, after: census.Census) -> None:
    for name, one, other in zip(before._fields, before, after, strict=True):
        assert one.keys() == other.keys(), name
        for key in one:
            assert one[key] == other[key], f"{name} of {key}"


def mismatches_of(class_path: str, home: dict[int, Path]) -> str:
    """What Kafka's own check of index files says about every log of these directories."""
    files = [
        str(path)
        for data in home.values()
        for pattern in ("*/*.index", "*/*.timeindex")
        for path in sorted(data.glob(pattern))
        if path.stat().st_size and path.with_suffix(".log").stat().st_size
    ]
    assert len(files) > 20
    tool = ("java", "-cp", class_path, "org.apache.kafka.tools.DumpLogSegments")
    done = subprocess.run(
        [*tool, "--verify-index-only", "--files", ",".join(files)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return "\n".join(
        line
        for line in done.stdout.splitlines()
        if line.strip() and not line.startswith("Dumping ")
    )


def new_home(directory: Path) -> dict[int, Path]:
    layout.create(directory, "moving", Shape(brokers=3))
    return {node: layout.data_directory(directory, node) for node in NODES}


def test_a_cluster_of_tidelog_moves_to_kafka_and_back(class_path, tmp_path):
    home = new_home(tmp_path / "tidelog")
    with run_by_tidelog(home, tmp_path) as servers:
        life.live(servers)
        before = census.take(servers)
    assert mismatches_of(class_path, home) == ""
    kafka = Kafka(class_path)
    with run_by_kafka(kafka, home, tmp_path / "kafka") as servers:
        assert_same(before, census.take(servers))
        life.go_on(servers)
        later = census.take(servers)
    left = {node: tmp_path / "kafka" / str(node) / "data" for node in NODES}
    with run_by_tidelog(copied(left, tmp_path / "back"), tmp_path) as servers:
        assert_same(later, census.take(servers))
        life.go_on(servers)


def test_a_cluster_of_kafka_moves_to_tidelog_and_back(class_path, tmp_path):
    """Its voters are in its log, as Kafka's own instructions for a new cluster have it."""
    kafka = Kafka(class_path, ports=tuple(free_ports(2 * len(NODES))))
    with run_by_kafka(kafka, None, tmp_path / "kafka") as servers:
        life.live(servers)
        life.until_compacted(servers)
        before = census.take(servers)
    left = {node: tmp_path / "kafka" / str(node) / "data" for node in NODES}
    home = copied(left, tmp_path / "moved")
    with run_by_tidelog(home, tmp_path) as servers:
        assert_same(before, census.take(servers))
        life.go_on(servers)
        later = census.take(servers)
    with run_by_kafka(kafka, home, tmp_path / "again") as servers:
        assert_same(later, census.take(servers))
        life.go_on(servers)
