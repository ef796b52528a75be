"""Admin requests on their way to a controller that hangs for a while."""

from support import live
from tidelog.core.errors import Error
from tidelog.testing import Cluster
from tidelog.wire.protocol.schemas.create_topics_request import CreatableTopic, CreateTopicsRequest
from tidelog.wire.protocol.schemas.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest, MetadataRequestTopic

CONTROLLER = 101
CREATE_VERSION, DELETE_VERSION, METADATA_VERSION = 7, 6, 12
PATIENCE_MS = 30_000


def test_who_waits_for_a_slow_controller_is_not_refused_because_another_gave_up() -> None:
    """The topic that a metadata request would like to have is waited for less long."""
    create = CreateTopicsRequest(
        topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)],
        timeout_ms=PATIENCE_MS,
    )
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="old")], timeout_ms=PATIENCE_MS)
    wish = MetadataRequest(
        topics=[MetadataRequestTopic(name="wished")], allow_auto_topic_creation=True
    )
    with Cluster(brokers=1, controllers=1, separate=True) as cluster:
        cluster.topic("old")
        cluster.pause(CONTROLLER)
        wishing = live.Question(cluster, 1, wish, METADATA_VERSION)
        creating = live.Question(cluster, 1, create, CREATE_VERSION)
        deleting = live.Question(cluster, 1, delete, DELETE_VERSION)
        (refused,) = wishing.answer().topics
        assert refused.error_code == Error.LEADER_NOT_AVAILABLE
        cluster.resume(CONTROLLER)
        (created,), (deleted,) = creating.answer().topics, deleting.answer().responses
    assert created.error_code == Error.NONE
    assert deleted.error_code == Error.NONE
