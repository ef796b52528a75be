"""Tests that were written for containers, without any; and clusters for unittest."""

import unittest

import pytest
from confluent_kafka import Producer

from tidelog.testing import ClusterTestCase, InvariantBroken
from tidelog.testing.containers import KafkaContainer

GUARD_S = 60


def send(servers, topic):
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    producer.produce(topic, b"a")
    assert producer.flush(GUARD_S) == 0


def test_a_test_for_a_container_needs_none():
    container = KafkaContainer("confluentinc/cp-kafka:7.6.0").with_kraft()
    container = container.with_env("KAFKA_NUM_PARTITIONS", "4").with_env(
        "KAFKA_HEAP_OPTS", "-Xmx1g"
    )
    container = container.with_name("kafka").with_exposed_ports(9093).with_cluster_id("any")
    with container as kafka:
        servers = kafka.get_bootstrap_server()
        host, port = kafka.get_container_host_ip(), kafka.get_exposed_port(9093)
        assert servers == f"{host}:{port}"
        send(servers, "made-by-the-producer")
        topics = kafka.cluster.state(1)["partitions"]
        assert len([each for each in topics if each["topic"] == "made-by-the-producer"]) == 4
        assert b"broker 1 unfenced" in kafka.get_logs()[0]
    with pytest.raises(RuntimeError, match="does not run"):
        kafka.get_bootstrap_server()


@pytest.mark.parametrize(
    ("call", "arguments", "reason"),
    [
        ("with_network", ("any",), "other containers cannot reach"),
        ("with_network_aliases", ("any",), "other containers cannot reach"),
        ("with_volume_mapping", ("/a", "/b"), "disk="),
        ("with_command", ("run",), "no image"),
        ("with_bind_ports", (9093, 9093), "chosen by the system"),
        ("exec", ("ls",), "no container"),
    ],
)
def test_what_only_a_container_can_do_is_refused_with_a_reason(call, arguments, reason):
    with pytest.raises(NotImplementedError, match=reason):
        getattr(KafkaContainer(), call)(*arguments)


def run(case):
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return result


def test_a_unittest_class_has_one_cluster():
    class OrdersTest(ClusterTestCase):
        seen: tuple = ()

        def test_orders(self):
            send(self.cluster.bootstrap_servers, self.cluster.topic("orders"))

        def test_bills(self):
            send(self.cluster.bootstrap_servers, self.cluster.topic("bills"))

        def tearDown(self):
            type(self).seen += (self.cluster,)

    result = run(OrdersTest)
    assert (result.testsRun, result.failures, result.errors) == (2, [], [])
    assert len(set(OrdersTest.seen)) == 1
    assert OrdersTest.seen[0].running() == []


def test_a_unittest_that_breaks_a_promise_of_the_cluster_fails():
    class BrokenTest(ClusterTestCase):
        def test_orders(self):
            topic = self.cluster.topic("orders")
            send(self.cluster.bootstrap_servers, topic)
            kinds = self.cluster.events.kinds
            self.cluster.wait(lambda: "HighWatermarkAdvanced" in kinds(), GUARD_S)

            def cut(node):
                node.broker.replicas.named(topic, 0).log.truncate_to(0)

            self.cluster._nodes.thread(1).look(cut, GUARD_S)

    result = run(BrokenTest)
    assert [InvariantBroken.__name__ in text for _, text in result.failures] == [True]
