"""Controllers that are no brokers: what they carry out is in the audit topic too."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from e2e.test_secure_admin import audited
from e2e.test_secure_clients import by_password
from e2e.test_secure_refusals import ACCESS
from support.raw_tls import RawTls
from support.secure_nodes import GUARD_S, SecureNodes
from tidelog.observe.audit_topic import AUDIT_TOPIC
from tidelog.wire.protocol.schemas.describe_producers_request import (
    DescribeProducersRequest,
    TopicRequest,
)

BROKER, CONTROLLER = 1, 2
ONE_COPY = {
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
}


class Apart(SecureNodes):
    """The second node is the controller, and serves no clients."""

    def properties(self, node: int) -> dict[str, str]:
        served = ("CONTROLLER",) if node == CONTROLLER else ("CLIENTS", "CERTS", "BROKERS")
        return {
            **super().properties(node),
            **ONE_COPY,
            "process.roles": "controller" if node == CONTROLLER else "broker",
            "controller.quorum.voters": f"{CONTROLLER}@localhost:{self.port(2, 'CONTROLLER')}",
            "listeners": ",".join(f"{each}://localhost:{self.port(node, each)}" for each in served),
        }


@pytest.fixture
def nodes(tmp_path) -> Iterator[SecureNodes]:
    super_users = "User:alice;User:broker;User:CN=node1,OU=nodes;User:CN=node2,OU=nodes"
    with Apart(tmp_path, brokers=2, config={**ACCESS, "super.users": super_users}) as nodes:
        yield nodes


def test_what_a_controller_carries_out_is_in_the_audit_topic(nodes):
    admin = AdminClient(by_password(nodes))
    (created,) = admin.create_topics([NewTopic("audited", 1)]).values()
    created.result(GUARD_S)
    wanted = {("AdministrativeChange", "User:alice", "CreateTopics", "topic audited")}
    assert audited(nodes, admin, wanted) >= wanted


def test_one_producer_writes_all_that_a_node_has_to_tell(nodes):
    """A new one for every batch would use up ids, and state on every replica."""
    admin = AdminClient(by_password(nodes))
    for number in range(3):
        (created,) = admin.create_topics([NewTopic(f"audited-{number}", 1)]).values()
        created.result(GUARD_S)
        wanted = ("AdministrativeChange", "User:alice", "CreateTopics", f"topic audited-{number}")
        assert wanted in audited(nodes, admin, {wanted})
    with RawTls(nodes.port(BROKER, "CLIENTS"), nodes.ca_file) as connection:
        connection.log_in("alice", "tide")
        topic = TopicRequest(name=AUDIT_TOPIC, partition_indexes=[0])
        answer = connection.ask(DescribeProducersRequest(topics=[topic]), 0)
    ((partition,),) = (each.partitions for each in answer.topics)
    assert len(partition.active_producers) in (1, 2), "one for each node at most"
