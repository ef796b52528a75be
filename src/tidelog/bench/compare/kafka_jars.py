"""Apache Kafka's jars: fetched once, by Maven."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from tidelog.bench.compare.system import SystemMissing

VERSION = "4.3.0"
FETCH_WITHIN_S = 600
# What the distribution of Kafka 4 logs with; the jars alone say nothing at all.
LOG4J_VERSION = "2.24.3"

_POM = """\
<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tidelog</groupId>
  <artifactId>kafka-server</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = """\
    <dependency>
      <groupId>{group}</groupId>
      <artifactId>{artifact}</artifactId>
      <version>{version}</version>
    </dependency>"""


def pom(version: str) -> str:
    """Only names what to fetch."""
    wanted = (
        ("org.apache.kafka", "kafka_2.13", version),
        ("org.apache.kafka", "kafka-tools", version),
        ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
    )
    return _POM.format(
        dependencies="\n".join(
            _DEPENDENCY.format(group=group, artifact=artifact, version=each)
            for group, artifact, each in wanted
        )
    )


def class_path(cache: Path, version: str = VERSION) -> str:
    """Of the server and its tools, fetched if they are not there; SystemMissing says why not."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise SystemMissing(f"there is no {tool}: install a JDK, 17 or later, and Maven")
    jars = (cache / "kafka-server" / version).absolute()
    if not (jars / f"kafka_2.13-{version}.jar").exists():
        _fetch(jars, version)
    return f"{jars}/*"


def _fetch(jars: Path, version: str) -> None:
    """All at once: another process may be looking for the same."""
    jars.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=jars.parent, prefix=f"{version}-"))
    try:
        (partial / "pom.xml").write_text(pom(version), "utf-8")
        _run_maven(partial, version)
        (partial / "pom.xml").unlink()
        if not jars.exists():
            partial.rename(jars)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _run_maven(directory: Path, version: str) -> None:
    command = ["mvn", "-q", "-B", "-f", str(directory / "pom.xml")]
    command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    command += [f"-DoutputDirectory={directory}"]
    try:
        done = subprocess.run(  # noqa: S603 - a command that we write ourselves
            command, capture_output=True, text=True, timeout=FETCH_WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SystemMissing(f"Maven did not fetch Kafka {version} in {FETCH_WITHIN_S} s") from None
    if done.returncode:
        said = (done.stdout or done.stderr).strip().splitlines()
        why = said[0] if said else f"exit code {done.returncode}"
        raise SystemMissing(f"Maven cannot fetch Kafka {version}: {why}")
