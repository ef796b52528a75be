"""What `tidelog pipeline deploy` prints for a standalone cluster, done as it says."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from deltalake import DeltaTable

from support.pipelines import Home
from support.spark_cluster import QUICK_START, standalone
from support.spark_story import write

WITHIN_SECONDS = 300


@pytest.mark.long
def test_what_is_printed_for_a_standalone_cluster_runs_there(cluster, tmp_path):
    topic = cluster.topic("deployed", partitions=2)
    for index in (0, 1):
        write(cluster, topic, range(50), partition=index)
    file = tmp_path / "deployed.toml"
    file.write_text(
        f'kind = "archive"\ntopics = ["{topic}"]\nto = "{tmp_path / "lake"}"\nonce = true\n'
        f'state-dir = "{tmp_path / "pipelines"}"\nbootstrap = "${{BROKERS}}"\n'
        f'[conf]\n"spark.driver.memory" = "512m"\n"spark.executor.memory" = "512m"\n'
        f'"spark.driver.extraJavaOptions" = "{QUICK_START}"\n'
    )
    home = Home(tmp_path / "pipelines")
    python_path = os.pathsep.join(filter(None, sys.path))
    deploy = ("pipeline", "deploy", str(file), "--on", "standalone")
    with standalone(tmp_path, workers=1, python_path=python_path) as url:
        printed = subprocess.run(
            [sys.executable, "-m", "tidelog", *deploy, "--master", url],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": python_path},
        ).stdout
        submit = Path(pyspark.__file__).parent / "bin"
        ran = subprocess.run(
            ["/bin/sh", "-c", printed],
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_SECONDS,
            cwd=tmp_path,
            env={
                **os.environ,
                "PATH": f"{submit}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": python_path,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "BROKERS": cluster.bootstrap_servers,
            },
        )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert " · 100 in, 100 out · committed · " in ran.stdout
    found = home.status("archive-deployed")
    assert (found["state"], found["spark"]) == ("finished", url)
    rows = (
        DeltaTable(str(tmp_path / "lake"))
        .to_pyarrow_table(columns=["partition", "offset"])
        .to_pylist()
    )
    assert sorted((each["partition"], each["offset"]) for each in rows) == [
        (index, offset) for index in (0, 1) for offset in range(50)
    ]
