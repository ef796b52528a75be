"""The same story with every client, against one cluster of three real brokers."""

import contextlib
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from e2e.clients import java_driver
from e2e.clients.aiokafka_driver import AiokafkaDriver
from e2e.clients.confluent_driver import ConfluentDriver
from e2e.clients.driver import Driver, NewTopic, NotOffered
from e2e.clients.kcat_driver import KcatDriver
from e2e.clients.story import STEPS, Stage, unique
from support.programs import program
from tidelog.testing import Cluster

JAVA_VERSIONS = ("3.9.1", "4.1.0")
IDLE_SECONDS = 2.0

Make = Callable[[str, Path], Driver]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


def counted(cluster: Cluster, metric: str) -> int:
    """The sum over all brokers of a counter."""
    total = 0.0
    for node_id in cluster.brokers:
        url = f"http://127.0.0.1:{cluster.http_port(node_id)}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"{metric} "):
                    total += float(line.split()[-1])
    return int(total)


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
    program("kcat")
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
    client: str, cluster: Cluster, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    bootstrap = cluster.bootstrap_servers
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
    refused = counted(cluster, "kafka_server_brokertopicmetrics_failedproducerequests_total")
    failures += [f"(the brokers have refused {refused} produces)"] if failures else []
    assert not failures, "\n".join(failures)
    assert lacking == driver.lacks


def test_a_consumer_that_joins_no_group_does_not_ask_for_its_coordinator_in_a_loop(
    cluster: Cluster,
) -> None:
    """librdkafka looks for the coordinator of its `group.id` even when nobody joins a group."""
    requests = "kafka_network_requestmetrics_requests_total"
    asked = [f'{requests}{{request="{name}"}}' for name in ("FindCoordinator", "Metadata")]
    driver = ConfluentDriver(cluster.bootstrap_servers)
    topic = unique(driver, "idle")
    driver.create_topic(NewTopic(topic))
    before = [counted(cluster, each) for each in asked]
    with driver.consumer({"enable.partition.eof": False}) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.poll(IDLE_SECONDS) is None
    coordinators, metadata = (
        counted(cluster, each) - had for each, had in zip(asked, before, strict=True)
    )
    assert 1 <= coordinators <= 2 * IDLE_SECONDS
    assert 1 <= metadata <= 10


def test_librdkafkas_admin_client_hears_what_a_kafka_without_an_authorizer_says(
    cluster: Cluster,
) -> None:
    """The connection used to be closed, which it takes for a network problem and tries again."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    rule = AclBinding(
        ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:a", "*", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    (created,) = admin.create_acls([rule], request_timeout=10).values()
    with pytest.raises(KafkaException) as refused:
        created.result(timeout=15)
    assert refused.value.args[0].code() == KafkaError.SECURITY_DISABLED


def test_librdkafkas_admin_client_is_told_what_cannot_be_altered(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    broker = str(min(cluster.brokers))
    described = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, broker)])
    (settings,) = (future.result(timeout=15) for future in described.values())
    assert settings["listeners"].is_read_only
    assert not settings["log.retention.ms"].is_read_only
    entry = ConfigEntry("listeners", "PLAINTEXT://:1", incremental_operation=AlterConfigOpType.SET)
    wish = ConfigResource(ConfigResource.Type.BROKER, broker, incremental_configs=[entry])
    (altered,) = admin.incremental_alter_configs([wish]).values()
    with pytest.raises(KafkaException) as refused:
        altered.result(timeout=15)
    assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST
    assert "restart" in refused.value.args[0].str()
