"""Members join, leave, crash and hang while the coordinator of their group is killed."""

import pytest

from e2e.groups.member import LIBRARIES, crew_of, libraries, until_shared
from e2e.groups.story import story_of
from support import live
from tidelog.testing import Cluster

PARTITIONS = 6
SESSION_MS = 3_000
BRIEF = {
    "group.consumer.min.session.timeout.ms": SESSION_MS,
    "group.consumer.session.timeout.ms": SESSION_MS,
}


@pytest.fixture(scope="module")
def shared():
    with Cluster(brokers=3, config=BRIEF) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared):
    yield shared
    live.mend(shared)


@pytest.mark.parametrize(
    "name", libraries("confluent-eager", "confluent-new", "aiokafka", "java-4.1.0")
)
def test_no_record_is_skipped_while_members_come_and_go_and_the_coordinator_dies(
    name, cluster, tmp_path
):
    """And whoever was taken for dead cannot commit when it wakes up."""
    library = LIBRARIES[name]
    brief = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 300}
    topic = cluster.topic(f"comings-{name}", PARTITIONS)
    with crew_of(cluster, topic, tmp_path) as crew, story_of(cluster, crew, PARTITIONS) as story:
        first = crew.start("first", library, **brief)
        second = crew.start("second", library, **brief)
        until_shared(PARTITIONS, first, second)
        third = crew.start("third", library, **brief)
        until_shared(PARTITIONS, first, second, third)

        second.tell("hold")
        second.wait("holding")
        second.pause()
        dead = story.coordinator()
        cluster.kill(dead)
        first.kill()
        until_shared(PARTITIONS, third)
        story.progress()
        told = len(second.events)
        second.tell("go")
        second.resume()
        assert second.wait("committed", "refused", since=told)["event"] == "refused"

        cluster.restart(dead)
        fourth = crew.start("fourth", library, **brief)
        until_shared(PARTITIONS, second, third, fourth)
        third.leave()
        until_shared(PARTITIONS, second, fourth)
        story.progress()
        story.judge()
        until_shared(PARTITIONS, second, fourth)
