"""The plugin, as somebody else's project meets it: pytest in a directory with nothing of ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.plugin_options import plugin_options

GUARD_S = 240
STRICT = """
[pytest]
addopts = --strict-markers --strict-config -p no:cacheprovider
filterwarnings = error
xfail_strict = true
"""
PRODUCING = """
import pytest
from confluent_kafka import Producer

def produce(servers, topic, count=3):
    got = []
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"x", on_delivery=lambda _, message: got.append(message.offset()))
    assert producer.flush(60) == 0
    return got
"""


@pytest.fixture
def run_pytest(tmp_path):
    def run(text, *options, **environment):
        (tmp_path / "pytest.ini").write_text(STRICT)
        (tmp_path / "test_theirs.py").write_text(PRODUCING + text)
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:xdist", *plugin_options(), *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=GUARD_S,
            stdin=subprocess.DEVNULL,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "PYTEST_ADDOPTS": "",
                **environment,
            },
        )

    return run


THE_STORY = """
seen = []

def test_orders_are_written(tidelog):
    topic = tidelog.topic("orders", partitions=1)
    seen.append((tidelog.bootstrap_servers, topic))
    assert topic.startswith("orders-")
    assert produce(tidelog.bootstrap_servers, topic) == [0, 1, 2]

def test_the_next_test_has_the_same_broker_and_none_of_its_topics(tidelog):
    servers, topic = seen[0]
    assert tidelog.bootstrap_servers == servers
    tidelog.wait(lambda: topic not in [each["topic"] for each in tidelog.state(1)["partitions"]])
    tidelog.answer_next("Produce", "INVALID_RECORD", times=100)

def test_errors_that_a_test_asked_for_end_with_it(tidelog):
    assert produce(tidelog.bootstrap_servers, tidelog.topic("orders"), 1) == [0]

def test_nobody_kills_the_broker_of_all(tidelog):
    with pytest.raises(AttributeError, match="tidelog_cluster"):
        tidelog.kill(1)

@pytest.mark.tidelog(brokers=3, config={"min.insync.replicas": 2})
def test_failover(tidelog_cluster):
    cluster = tidelog_cluster
    topic = cluster.topic("orders", replication_factor=3)
    produce(cluster.bootstrap_servers, topic)
    old = cluster.partition(topic, 0).leader
    cluster.kill(old)
    cluster.wait(lambda: cluster.partition(topic, 0).leader not in (None, old), timeout=60)
    assert cluster.partition(topic, 0).leader_epoch == 1
    assert cluster.events.saw("BrokerFenced", "IsrChanged", "LeaderElected")

@pytest.mark.tidelog(brokers=1)
class TestOfAClass:
    def test_marks_of_a_class_count(self, tidelog_cluster):
        assert tidelog_cluster.brokers == [1]

    @pytest.mark.tidelog(config={"num.partitions": 4})
    def test_and_are_joined_with_those_of_a_test(self, tidelog_cluster):
        tidelog_cluster.topic("orders", partitions=-1)
        assert tidelog_cluster.brokers == [1]
        assert len(tidelog_cluster.state(1)["partitions"]) == 4
"""


def test_a_project_with_every_warning_an_error_uses_both_fixtures(run_pytest):
    done = run_pytest(THE_STORY, "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout


THE_FAILURES = """
@pytest.mark.tidelog(brokers=2)
def test_that_fails(tidelog_cluster):
    topic = tidelog_cluster.topic("orders", assignment=[[1, 2]])
    produce(tidelog_cluster.bootstrap_servers, topic)
    assert False, "on purpose"

def lose_records(cluster):
    topic = cluster.topic("orders")
    produce(cluster.bootstrap_servers, topic)
    cluster.wait(lambda: "HighWatermarkAdvanced" in cluster.events.kinds())
    def cut(node):
        node.broker.replicas.named(topic, 0).log.truncate_to(0)
    cluster._nodes.thread(1).look(cut, 60)

@pytest.mark.tidelog(brokers=1)
def test_after_which_a_promise_is_broken(tidelog_cluster):
    lose_records(tidelog_cluster)

@pytest.mark.tidelog(brokers=1, check=False)
def test_that_nobody_checks(tidelog_cluster):
    lose_records(tidelog_cluster)

@pytest.mark.tidelog(broker=1)
def test_with_a_wrong_mark(tidelog_cluster):
    pass
"""


def test_failures_come_with_the_state_the_events_and_a_trace(run_pytest):
    done = run_pytest(THE_FAILURES, "-q", TIDELOG_CONSOLE="1")
    told = done.stdout
    assert "1 failed, 2 passed, 2 errors" in told, told + done.stderr
    assert "orders-0   1       0      1,2       1,2" in told
    assert "--- the last " in told
    assert "LeaderElected: " in told
    trace = next(line for line in told.splitlines() if line.startswith("all events: "))
    lines = Path(trace.removeprefix("all events: ")).read_text().splitlines()
    assert any('"kind": "BecameLeader"' in line for line in lines)
    assert "offsets up to 2 were committed, and the log of its leader 1 ends at 0" in told
    assert "@pytest.mark.tidelog of test_with_a_wrong_mark: " in told
    assert "unexpected keyword argument 'broker'" in told
    assert "TIDELOG_CONSOLE: " in told, "it is there, or it says that it is not"


ON_VIRTUAL_TIME = """
import asyncio
from tidelog.client import NewRecord, Producer

async def write(cluster, topic, value):
    async with cluster.client() as client:
        return (await Producer(client).write(topic, [NewRecord(value)]))[0].base_offset

@pytest.mark.tidelog(host="sim", seed=3, seeds=4, config={"min.insync.replicas": 2})
async def test_failover(tidelog_cluster, tmp_path):
    cluster = tidelog_cluster
    topic = cluster.topic("orders", assignment=[[1, 2, 3]])
    assert await write(cluster, topic, b"a") == 0
    old = cluster.partition(topic).leader
    cluster.kill(old)
    await asyncio.sleep(60)
    assert cluster.clock.now() > 60
    assert await write(cluster, topic, b"b") == 1
    assert cluster.seed != 5, "on purpose"

@pytest.mark.tidelog(host="sim", limit="2s")
class TestOfAClass:
    def test_that_is_not_async_has_the_whole_surface(self, tidelog_cluster):
        topic = tidelog_cluster.topic("orders")
        assert tidelog_cluster.run(write(tidelog_cluster, topic, b"a")) == 0

    async def test_that_never_ends(self, tidelog_cluster):
        await asyncio.sleep(3)

    @pytest.mark.anyio
    async def test_that_another_plugin_would_run(self, tidelog_cluster):
        before = tidelog_cluster.clock.now()
        await asyncio.sleep(1)
        assert tidelog_cluster.clock.now() >= before + 1

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.tidelog(seeds=4)
def test_with_a_wrong_mark(tidelog_cluster):
    pass
"""


def test_an_async_test_runs_on_virtual_time_once_for_every_seed(run_pytest):
    done = run_pytest(ON_VIRTUAL_TIME, "-q", TIDELOG_CONSOLE="1")
    told = done.stdout
    assert "2 failed, 5 passed, 1 error" in told, told + done.stderr
    assert "test_failover[seed5]" in told
    assert "orders-0   2       1      1,2,3" in told
    assert "s  ✗ ♛ .   orders-0 broker 2 leads, leader epoch 1" in told
    assert 'Cluster(host="sim", seed=5, …) does the same again' in told
    again = "once more: pytest 'test_theirs.py::test_failover[seed5]'"
    assert again in told
    assert f"TIDELOG_CONSOLE: no console reaches virtual time; {again}" in told
    assert "not done after 2s of virtual time, it waits in " in told
    assert "seeds=4 needs host='sim'" in told


def test_a_story_is_run_with_more_seeds_when_somebody_has_the_time(run_pytest):
    done = run_pytest(ON_VIRTUAL_TIME, "-q", "--tidelog-seeds", "2", "-k", "failover")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout, "the two before the one that fails"


def test_workers_of_xdist_have_a_broker_each(run_pytest):
    done = run_pytest(THE_STORY, "-q", "-p", "xdist", "-n", "2", "-k", "orders_are or failover")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


IMPORTING = """
import sys
import tidelog.testing.plugin
ours = sorted(name for name in sys.modules if name.partition(".")[0] == "tidelog")
assert ours == ["tidelog", "tidelog.testing", "tidelog.testing.plugin"], ours
"""


def test_a_run_that_does_not_use_it_imports_three_small_modules():
    subprocess.run([sys.executable, "-c", IMPORTING], check=True, timeout=GUARD_S)
