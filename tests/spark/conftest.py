"""One Spark session and one cluster for all tests of this folder."""

import os

import pytest

from support import stock_connector
from support.two_connectors import OURS, STOCK, Side
from tidelog.spark.session import open_session
from tidelog.testing import Cluster

# Compiling less makes short queries start sooner; never used where something is measured.
QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@pytest.fixture(scope="session")
def stock_jars():
    """Jars are known to a session from its start, so those of the stock connector are there for
    all tests; who needs them asks for this and is skipped where they cannot be had."""
    try:
        return stock_connector.jars()
    except stock_connector.JarsMissing as missing:
        return str(missing)


@pytest.fixture(scope="session")
def spark(tmp_path_factory, stock_jars):
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ.pop(name, None)  # whatever they are, workers run what the tests run
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = open_session(
        "tests",
        spark_url="local[2,4]",
        conf={
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.jars": ",".join(map(str, stock_jars)) if isinstance(stock_jars, list) else "",
        },
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster():
    with Cluster(brokers=3) as running:
        yield running


@pytest.fixture(params=[STOCK, OURS])
def connector(request, stock_jars):
    if isinstance(stock_jars, str):
        pytest.skip(stock_jars)
    return request.param


@pytest.fixture
def side(spark, cluster, connector):
    """One of the two connectors."""
    return Side(connector, spark, cluster)


@pytest.fixture
def sides(spark, cluster, stock_jars):
    """The stock connector and ours, to be compared."""
    if isinstance(stock_jars, str):
        pytest.skip(stock_jars)
    return Side(STOCK, spark, cluster), Side(OURS, spark, cluster)
