"""The jars of Spark's own Kafka connector, fetched once into the cache of this checkout."""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

CACHE = Path(__file__).parents[2] / ".cache" / "spark-kafka"
FETCH_TIMEOUT_S = 120.0


class Artifact(NamedTuple):
    group: str
    name: str
    version: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


# The four that Spark itself lacks, and nothing they depend on: Spark has the rest, and a second
# copy breaks its class path. The newest of each that the registry has; they work with Spark 4.3.
ARTIFACTS = (
    Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.2"),
    Artifact("org.apache.commons", "commons-pool2", "2.13.1"),
)


class JarsMissing(Exception):  # noqa: N818 - it says what is wrong
    """Why the stock connector cannot be run here."""


def jars() -> list[Path]:
    """All of them, for `spark.jars`."""
    return [_fetched(artifact) for artifact in ARTIFACTS]


def _fetched(artifact: Artifact) -> Path:
    path = CACHE / artifact.file
    if path.exists():
        return path
    if shutil.which("mvn") is None:
        raise JarsMissing(f"there is no mvn to fetch {artifact.file} with: install Maven")
    partial = CACHE / "partial"
    command = ["mvn", "-q", "-B", "dependency:copy", f"-DoutputDirectory={partial}"]
    command.append(f"-Dartifact={':'.join(artifact)}")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise JarsMissing(f"Maven did not fetch {artifact.file} in time") from late
    if done.returncode or not (partial / artifact.file).exists():
        said = (done.stdout or done.stderr).strip().splitlines()
        raise JarsMissing(f"Maven cannot fetch {artifact.file}: {said[0] if said else '?'}")
    (partial / artifact.file).rename(path)
    return path
