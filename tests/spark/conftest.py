"""One Spark session and one cluster for all tests of this folder."""

import os
import sys

import pytest

from tidelog.spark.session import open_session
from tidelog.testing import Cluster

# Compiling less makes short queries start sooner; never used where something is measured.
QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = open_session(
        "tests",
        spark_url="local[2,4]",
        conf={
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster():
    with Cluster(brokers=3) as running:
        yield running
