"""Who loses its seat in a group and who keeps it, with sessions as long as they are by default."""

import time

import pytest

from e2e.groups.member import LIBRARIES, crew_of, libraries, until, until_shared
from e2e.groups.story import quiet, story_of
from support import live
from tidelog.testing import Cluster

PARTITIONS = 6
CALM = {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 300}
LONG_BEFORE_ITS_SESSION_ENDS_S = 15
HANGS_S = 2.5
"""Five times as long as a broker waits for a client whose connection broke."""


@pytest.fixture(scope="module")
def shared():
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared):
    yield shared
    live.mend(shared)


@pytest.mark.parametrize(
    "name", libraries("confluent-cooperative", "kafka-python", "java-4.1.0-new")
)
def test_a_dead_member_is_replaced_at_once_and_neither_a_hanging_one_nor_a_dead_coordinator_matters(
    name, cluster, tmp_path
):
    library = LIBRARIES[name]
    topic = cluster.topic(f"seats-{name}", PARTITIONS)
    with crew_of(cluster, topic, tmp_path) as crew, story_of(cluster, crew, PARTITIONS) as story:
        first, second, third = (crew.start(each, library, **CALM) for each in ("1st", "2nd", "3rd"))
        until_shared(PARTITIONS, first, second, third)
        story.until_settled(first, second, third)

        with quiet(first, second, third):
            second.pause()
            time.sleep(HANGS_S)  # the length of the pause is the story
            second.resume()
            story.progress()

        third.kill()
        until_shared(PARTITIONS, first, second, timeout_s=LONG_BEFORE_ITS_SESSION_ENDS_S)
        seated = story.until_settled(first, second)

        with quiet(first, second):
            dead = story.coordinator()
            cluster.kill(dead)
            story.progress()
            assert story.coordinator() != dead
            assert story.until_settled(first, second) == seated
        story.judge()


# One of each protocol and each way to write a client; the others differ in nothing of this.
@pytest.mark.parametrize(
    "name", ["confluent-cooperative", "kafka-python", "java-4.1.0", "java-4.1.0-new"]
)
def test_a_static_member_that_starts_again_has_its_partitions_and_nobody_else_notices(
    name, cluster, tmp_path
):
    library = LIBRARIES[name]
    topic = cluster.topic(f"static-{name}", PARTITIONS)
    with crew_of(cluster, topic, tmp_path) as crew, story_of(cluster, crew, PARTITIONS) as story:
        stays = crew.start("stays", library, group_instance_id="one", **CALM)
        goes = crew.start("goes", library, group_instance_id="two", **CALM)
        until_shared(PARTITIONS, stays, goes)
        story.until_settled(stays, goes)

        with quiet(stays):
            if library.is_new:  # KIP-848: nobody takes the place of one that did not say goodbye
                goes.leave()
            else:
                goes.kill()
            had = goes.owned() if not library.is_new else set(range(PARTITIONS)) - stays.owned()
            again = crew.start("again", library, group_instance_id="two", **CALM)
            until(lambda: again.owned() == had, f"it owns {had} again")
            story.progress()
        story.judge()


@pytest.mark.parametrize(
    "name",
    ["confluent-cooperative", "aiokafka", pytest.param("java-4.1.0-new", marks=pytest.mark.long)],
)
def test_a_group_outlives_the_whole_cluster(name, cluster, tmp_path):
    library = LIBRARIES[name]
    topic = cluster.topic(f"crash-{name}", PARTITIONS)
    with crew_of(cluster, topic, tmp_path) as crew, story_of(cluster, crew, PARTITIONS) as story:
        first, second = (crew.start(each, library, **CALM) for each in ("first", "second"))
        until_shared(PARTITIONS, first, second)
        story.until_settled(first, second)
        story.progress()
        with quiet(first, second):
            before = story.watcher.committed()
            for broker in cluster.brokers:
                cluster.kill(broker)
            cluster.start(*cluster.brokers)
            cluster.wait_ready()
            after = story.watcher.committed()
            assert all(after[partition] >= offset for partition, offset in before.items())
            story.progress()
        story.judge()


def test_different_libraries_share_one_group(cluster, tmp_path):
    """All of them know the range assignor, and whoever leads assigns for all."""
    topic = cluster.topic("mixed", PARTITIONS)
    names = ("confluent-eager", "kafka-python", "aiokafka", "java-3.9.1")
    with crew_of(cluster, topic, tmp_path) as crew, story_of(cluster, crew, PARTITIONS) as story:
        members = [crew.start(name, LIBRARIES[name], **CALM) for name in names]
        until_shared(PARTITIONS, *members)
        story.progress()
        while len(members) > 1:
            leader = members.pop(0)
            leader.kill()
            until_shared(PARTITIONS, *members, timeout_s=LONG_BEFORE_ITS_SESSION_ENDS_S)
            story.progress()
        story.judge()
