"""Both connectors, ours and the stock one, with a password and with a certificate: they write, read
and stream; and whoever is refused is told so in Kafka's words."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from support.certificates import DAY
from support.secure_nodes import SCRAM_MODULE, SecureNodes
from tidelog.client import Admin, Client, NewTopic

ACCESS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:alice;User:broker;User:CN=node1,OU=nodes",
    "connection.failed.authentication.delay.ms": "0",
}
ENDS_WITHIN_S = 60
WAYS = ("password", "certificate")
KINDS = ("tidelog", "kafka")
SECRET = "secret"


class WithBob(SecureNodes):
    """Bob has a password and not a single right."""

    users = (*SecureNodes.users, (512, "bob", "ebb"))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with WithBob(tmp_path_factory.mktemp("matrix"), config=ACCESS) as nodes:
        names = [f"{name}-{way}" for name in ("said", "heard") for way in WAYS]
        asyncio.run(create(nodes, SECRET, *(f"{name}-{kind}" for name in names for kind in KINDS)))
        yield nodes


async def create(nodes, *topics):
    login = {name.removeprefix("kafka."): value for name, value in password(nodes).items()}
    async with Client(nodes.for_passwords, properties=login) as client:
        for topic in topics:
            await Admin(client).create_topic(NewTopic(topic, 2, 1))


# The stock connector says in another way what Java clients say in tests/e2e/test_secure_clients.py.
@pytest.fixture(params=["tidelog", pytest.param("kafka", marks=pytest.mark.long)])
def kind(request, stock_jars):
    if request.param == "kafka" and isinstance(stock_jars, str):
        pytest.skip(stock_jars)
    return request.param


# ---- logins


def password(nodes, user="alice", said="tide"):
    return {
        "kafka.bootstrap.servers": nodes.for_passwords,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{SCRAM_MODULE} required username="{user}" password="{said}";',
        **trust(nodes),
    }


def certificate(nodes, expires_in=DAY):
    name = f"alice-{expires_in.days}"
    leaf = nodes.authority.leaf({"OU": "people", "CN": "Alice"}, hosts=(), expires_in=expires_in)
    return {
        "kafka.bootstrap.servers": nodes.for_certificates,
        "kafka.security.protocol": "SSL",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.location": str(nodes.leaf_file(name, leaf)),
        **trust(nodes),
    }


def trust(nodes):
    return {
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(nodes.ca_file),
    }


# ---- what is done with them


class Side(NamedTuple):
    """One connector, with one login."""

    spark: SparkSession
    kind: str
    login: dict[str, str]

    def read(self, topic: str) -> DataFrame:
        return self.spark.read.format(self.kind).options(**self.login, subscribe=topic).load()

    def write(self, topic: str) -> None:
        rows = self.spark.range(3).selectExpr("cast(id AS string) AS value")
        rows.write.format(self.kind).options(**self.login, topic=topic).mode("append").save()

    def copy(self, source: str, target: str, checkpoint: str) -> None:
        stream = self.spark.readStream.format(self.kind).options(**self.login, subscribe=source)
        query = (
            stream.option("startingOffsets", "earliest")
            .load()
            .select("value")
            .writeStream.format(self.kind)
            .options(**self.login, topic=target, checkpointLocation=checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(ENDS_WITHIN_S), "the query does not end"


def values(frame):
    return sorted(row.value for row in frame.selectExpr("cast(value as string) AS value").collect())


@pytest.mark.parametrize("way", WAYS)
def test_batches_and_streams_are_written_and_read(spark, nodes, kind, way, tmp_path):
    login = {"password": password, "certificate": certificate}[way](nodes)
    side = Side(spark, kind, login)
    source, target = f"said-{way}-{kind}", f"heard-{way}-{kind}"
    side.write(source)
    assert values(side.read(source)) == ["0", "1", "2"]
    side.copy(source, target, str(tmp_path / "checkpoint"))
    assert values(side.read(target)) == ["0", "1", "2"]


class Refusal(NamedTuple):
    login: Callable[[SecureNodes], dict[str, str]]
    by_stock: str
    """Kafka's exception, as the stock connector shows it."""
    by_ours: str


REFUSALS = {
    "wrong-password": Refusal(
        lambda nodes: password(nodes, said="ebb"),
        "SaslAuthenticationException",
        "SASL_AUTHENTICATION_FAILED (58)",
    ),
    "expired-certificate": Refusal(
        lambda nodes: certificate(nodes, -DAY),
        "SslAuthenticationException",
        "certificate expired; check kafka.ssl.keystore.location",
    ),
    "missing-rule": Refusal(
        lambda nodes: password(nodes, "bob", "ebb"),
        "TopicAuthorizationException",
        "TOPIC_AUTHORIZATION_FAILED (29)",
    ),
}


@pytest.mark.parametrize("work", ["read", "write"])
@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_is_told_in_the_words_of_kafka(spark, nodes, kind, name, work):
    refusal = REFUSALS[name]
    side = Side(spark, kind, refusal.login(nodes))
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever Spark makes of it
        side.write(SECRET) if work == "write" else side.read(SECRET).collect()
    assert (refusal.by_ours if kind == "tidelog" else refusal.by_stock) in str(caught.value)


def test_nobody_who_was_refused_has_written(spark, nodes):
    assert values(Side(spark, "tidelog", password(nodes)).read(SECRET)) == []
