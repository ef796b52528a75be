"""Clusters on virtual time: the surface of every cluster of tests, in a world of their own."""

import asyncio
import gc
import logging
import warnings

import anyio
import pytest

from support.batches import batch
from tidelog.client import KafkaError, NewRecord, Producer
from tidelog.client.group_consumer import GroupConsumer
from tidelog.cluster.nodes import NodeFailed
from tidelog.core.errors import Error
from tidelog.storage.log import Log
from tidelog.testing import Cluster, InvariantBroken
from tidelog.testing.simulated.program import NotInThisWorld


@pytest.fixture
def cluster():
    with Cluster(brokers=3, seed=7, host="sim") as running:
        yield running
        running.check()


def produce(cluster, topic, *values, acks=-1):
    """The offset of the first record."""

    async def write():
        async with cluster.client() as client:
            written = await Producer(client, acks=acks).write(topic, [NewRecord(v) for v in values])
            return written[0].base_offset

    return cluster.run(write())


def values_of(cluster, topic):
    return [read.record.value for read in cluster.records(topic)]


def leader_of(cluster, topic):
    return cluster.partition(topic).leader


def wait_for_another_leader(cluster, topic, old):
    cluster.wait(lambda: leader_of(cluster, topic) not in (None, old))


def wait_in_sync(cluster, topic, count=3):
    cluster.wait(lambda: len(cluster.partition(topic).isr) == count)


# ---- the surface of every cluster


def test_a_killed_leader_is_replaced_and_comes_back(cluster):
    topic = cluster.topic("orders", replication_factor=3)
    assert produce(cluster, topic, b"a") == 0
    old = leader_of(cluster, topic)
    cluster.kill(old)
    assert old not in cluster.running()
    assert cluster.state(old) == {}
    wait_for_another_leader(cluster, topic, old)
    assert cluster.partition(topic).leader_epoch == 1
    assert cluster.events.saw("BrokerFenced", "IsrChanged", "LeaderElected")
    assert cluster.events.saw(f"(was {old}) elected")
    assert not cluster.events.saw("no node ever says this")
    assert produce(cluster, topic, b"b") == 1
    cluster.restart(old)
    wait_in_sync(cluster, topic)
    assert {node: log["log_end_offset"] for node, log in cluster.logs(topic).items()} == {
        1: 2,
        2: 2,
        3: 2,
    }
    assert values_of(cluster, topic) == [b"a", b"b"]
    assert cluster.alive() == cluster.brokers == [1, 2, 3]
    assert cluster.metrics(1)["kafka_server_replicamanager_underreplicatedpartitions"] == 0


def test_a_paused_broker_stands_still_and_knows_the_news_when_it_goes_on(cluster):
    topic = cluster.topic("orders", replication_factor=3)
    old = leader_of(cluster, topic)
    cluster.pause(old)
    assert cluster.state(old) == {}
    assert f"{old}     paused" in cluster.state_table()
    wait_for_another_leader(cluster, topic, old)
    assert produce(cluster, topic, b"a") == 0
    cluster.resume(old)
    assert cluster.replica(old, topic)["role"] == "leader", "it has not heard of it yet"
    assert leader_of(cluster, topic) != old
    wait_in_sync(cluster, topic)


def test_a_broker_that_is_cut_off_loses_its_leadership_until_it_is_healed(cluster):
    topic = cluster.topic("orders", replication_factor=3)
    old = leader_of(cluster, topic)
    cluster.partition_off([old])
    wait_for_another_leader(cluster, topic, old)
    cluster.partition_off([1], [2, 3])  # once more changes nothing
    assert any(f"the test cuts {old} from 2,3" in line for line in cluster.last_events())
    cluster.heal()
    wait_in_sync(cluster, topic)


def test_a_slow_broker_is_late_by_as_much_as_was_asked_for(cluster):
    topic = cluster.topic("orders", assignment=[[1, 2, 3]], configs={"min.insync.replicas": 3})
    produce(cluster, topic, b"a")
    before = cluster.clock.now()
    produce(cluster, topic, b"b")
    usual = cluster.clock.now() - before
    cluster.slow(3, 200)
    before = cluster.clock.now()
    produce(cluster, topic, b"c")
    assert 0.2 < cluster.clock.now() - before < 1 + usual
    cluster.heal()
    cluster.clock.advance("1s")
    before = cluster.clock.now()
    produce(cluster, topic, b"d")
    assert cluster.clock.now() - before < 0.2


def test_a_broker_stops_in_order_and_hands_its_leadership_over(cluster):
    topic = cluster.topic("orders", replication_factor=3)
    old = leader_of(cluster, topic)
    cluster.stop(old)
    wait_for_another_leader(cluster, topic, old)
    assert cluster.events.saw(f"broker {old} is shutting down")
    cluster.restart(old)
    wait_in_sync(cluster, topic)


def test_errors_that_a_test_asks_for_are_met_by_its_clients_alone(cluster):
    topic = cluster.topic("orders", replication_factor=3)
    cluster.answer_next("Produce", "NOT_ENOUGH_REPLICAS", times=2, topic=topic)
    assert produce(cluster, topic, b"a") == 0, "our client tries again"
    cluster.answer_next("Produce", "INVALID_RECORD", times=100)
    with pytest.raises(KafkaError) as refused:
        produce(cluster, topic, b"b")
    assert refused.value.error == Error.INVALID_RECORD
    cluster.answer_as_usual()
    assert produce(cluster, topic, b"c") == 1
    with pytest.raises(ValueError, match="Produce, if that was meant"):
        cluster.answer_next("Prodce", "INVALID_RECORD")


def test_what_was_not_synced_is_left_as_the_seed_draws_it():
    """`page-cache` acknowledges before anything is synced."""
    config = {"ack.durability": "page-cache", "log.flush.interval.messages": 1_000_000}
    left = set()
    for seed in range(8):
        with Cluster(brokers=1, seed=seed, host="sim", config=config) as cluster:
            topic = cluster.topic("risky")
            for value in (b"a", b"b", b"c"):
                produce(cluster, topic, value)
            cluster.kill(1)
            cluster.restart(1)
            left.add(len(values_of(cluster, topic)))
            cluster.check()  # the cluster said that records may be lost
    assert len(left) > 1
    assert left <= {0, 1, 2, 3}


def test_controllers_can_be_nodes_of_their_own():
    with Cluster(
        brokers=2, controllers=1, separate=True, racks=["a", "b"], seed=1, host="sim"
    ) as cluster:
        assert (cluster.brokers, cluster.controllers) == ([1, 2], [3])
        topic = cluster.topic("orders", replication_factor=2)
        assert produce(cluster, topic, b"a") == 0


# ---- virtual time


def test_time_stands_still_until_somebody_lets_it_pass(cluster):
    before = cluster.clock.now()
    assert cluster.clock.now() == before
    cluster.clock.advance("30s")
    cluster.clock.advance(0.5)
    assert cluster.clock.now() == pytest.approx(before + 30.5)
    with pytest.raises(TimeoutError, match=r"still not so after 2 s of virtual time"):
        cluster.wait(lambda: False, timeout=2)
    with pytest.raises(TimeoutError, match=r"still not so after 1min of virtual time"):
        cluster.clock.until(lambda: False, timeout="1min")
    with pytest.raises(ValueError, match="'soon' is not a duration"):
        cluster.clock.advance("soon")
    with pytest.raises(ValueError, match="-1 is not a time that can pass"):
        cluster.clock.advance(-1)


def test_asyncio_of_a_coroutine_in_the_world_is_in_virtual_time(cluster):
    seen = []

    async def wake(name, pause_s):
        await asyncio.sleep(pause_s)
        seen.append((name, asyncio.get_running_loop().time()))

    async def story():
        begin = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            group.create_task(wake("two minutes", 120), name="slow")
            group.create_task(wake("a minute", 60))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        queue: asyncio.Queue[str] = asyncio.Queue()
        await asyncio.gather(queue.put("x"), queue.get())
        await cluster.clock.advance("10s")
        return asyncio.get_running_loop().time() - begin

    assert cluster.run(story()) == pytest.approx(120 + 5 + 10)
    assert [name for name, _ in seen] == ["a minute", "two minutes"]


def test_the_program_goes_on_while_somebody_else_lets_time_pass(cluster):
    topic = cluster.topic("orders", replication_factor=3)
    left = []

    async def write_for_ever():
        try:
            async with cluster.client() as client:
                producer = Producer(client)
                while True:
                    await producer.write(topic, [NewRecord(b"x")])
                    await asyncio.sleep(1)
        finally:
            left.append("in order")

    async def begin():
        return asyncio.create_task(write_for_ever())

    task = cluster.run(begin())
    cluster.clock.advance("10s")
    assert 9 <= len(values_of(cluster, topic)) <= 11
    old = leader_of(cluster, topic)
    cluster.kill(old)
    cluster.wait(lambda: len(values_of(cluster, topic)) >= 15)
    assert not task.done()
    cluster.close()
    assert left == ["in order"]


def test_a_call_that_blocks_holds_the_program_as_it_would_anywhere(cluster):
    """Nodes go on; other tasks of the program do not."""
    ticks = []

    async def tick():
        while True:
            ticks.append(cluster.clock.now())
            await asyncio.sleep(0.01)

    async def story():
        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0.1)
        count, before = len(ticks), cluster.clock.now()
        topic = cluster.topic("orders", replication_factor=3)
        cluster.wait(lambda: cluster.partition(topic).leader is not None)
        assert len(ticks) == count
        assert cluster.clock.now() > before
        await cluster.clock.until(lambda: len(ticks) > count + 3)
        ticking.cancel()
        return asyncio.current_task()

    assert cluster.run(story()).done()


def test_members_of_a_group_that_fall_silent_are_replaced(cluster):
    topic = cluster.topic("orders", partitions=2)
    produce(cluster, topic, *[b"%d" % number for number in range(10)])
    read = {"one": [], "two": []}

    async def consume(name):
        async with cluster.client(name) as client, member(client) as consumer:
            while True:
                for where, fetched in (await consumer.read(max_wait_ms=100)).items():
                    if fetched.reads:
                        read[name] += [each.record.value for each in fetched.reads]
                        last = fetched.reads[-1].record.offset
                        await consumer.commit({where: last + 1})

    def member(client):
        async def from_the_start(_topic, _partition, committed):
            return committed or 0

        return GroupConsumer(client, "billing", [topic], from_the_start)

    async def story():
        one = asyncio.create_task(consume("one"))
        await cluster.clock.until(lambda: len(read["one"]) == 10)
        two = asyncio.create_task(consume("two"))
        await cluster.clock.until(lambda: len(cluster.group("billing").members) == 2)
        one.cancel()
        await cluster.clock.until(lambda: len(cluster.group("billing").members) == 1)
        return two

    cluster.run(story())
    group = cluster.group("billing")
    assert sum(group.committed.values()) == 10
    assert set(group.lag.values()) == {0}


# ---- around it: event loops, other clusters, errors


async def enter_and_advance():
    async with Cluster(brokers=3, seed=7, host="sim") as cluster:
        before = cluster.clock.now()
        await cluster.clock.advance("30s")
        await cluster.clock.until(lambda: cluster.clock.now() > before)
        topic = cluster.topic("orders", replication_factor=3)
        offset = produce(cluster, topic, b"a")
        await asyncio.sleep(0)
        assert asyncio.current_task() is not None
        return offset, cluster.clock.now() - before > 30, cluster.digest


def test_async_tests_of_any_plugin_enter_it():
    expected = asyncio.run(enter_and_advance())
    assert expected[:2] == (0, True)
    assert anyio.run(enter_and_advance) == expected
    with asyncio.Runner(debug=True) as runner:
        assert runner.run(enter_and_advance()) == expected


def test_it_leaves_nothing_behind_and_nothing_patched():
    before = dict(vars(Log))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with (
            Cluster(brokers=3, seed=1, host="sim") as one,
            Cluster(brokers=1, host="thread") as real,
            Cluster(brokers=3, seed=1, host="sim") as other,
        ):
            for each in (one, real, other):
                each.topic("orders")
            assert produce(one, "orders", b"a") == 0
            one.kill(1)
            assert values_of(other, "orders") == []
            assert values_of(real, "orders") == []
            other.clock.advance("5s")
            assert dict(vars(Log)) == before
            for each in (one, real, other):
                each.check()
        gc.collect()
    assert [str(each.message) for each in warned] == []
    assert logging.getLogger("tidelog").handlers == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"host": "sim", "secure": True}, "no TLS"),
        ({"host": "sim", "disk": "/x"}, "simulated"),
        ({"host": "sim", "brokers": 0}, "at least one"),
        ({"host": "sim", "seed": -1}, "from 0 on"),
        ({"host": "thread", "seed": 7}, "seed=7 needs host"),
    ],
)
def test_what_cannot_be_had_is_refused(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        Cluster(**arguments)


def test_settings_that_no_node_takes_are_refused():
    with pytest.raises(ValueError, match=r"num.partitions=none"):
        Cluster(brokers=1, host="sim", config={"num.partitions": "none"})


def test_only_our_own_client_reaches_it(cluster):
    with pytest.raises(NotInThisWorld, match=r'cluster.client\(\).*host="thread"'):
        cluster.bootstrap_servers  # noqa: B018
    with pytest.raises(NotInThisWorld, match="client_properties"):
        cluster.client_properties  # noqa: B018
    with pytest.raises(NotInThisWorld, match="http_port"):
        cluster.http_port(1)
    with pytest.raises(NotInThisWorld, match="address"):
        cluster.address(1)
    with pytest.raises(ValueError, match="simulated"):
        cluster.data_dir(1)
    assert cluster.pid(1) is None


def test_what_belongs_into_another_world_says_so(cluster):
    async def wait_for_a_thread():
        await asyncio.to_thread(print)

    async def run_again():
        cluster.run(asyncio.sleep(1))

    async def use_a_client():
        await client.topics(["orders"])

    async def never():
        await asyncio.Event().wait()

    client = cluster.client()
    with pytest.raises(NotInThisWorld, match=r"run_in_executor: .* virtual time"):
        cluster.run(wait_for_a_thread())
    with pytest.raises(NotInThisWorld, match="await the coroutine"):
        cluster.run(run_again())
    with pytest.raises(NotInThisWorld, match=r"cluster.run\(\)"):
        asyncio.run(use_a_client())
    with pytest.raises(TimeoutError, match=r"after 3s of virtual time, it waits in .*never, line"):
        cluster.run(never(), limit="3s")
    with pytest.raises(TypeError, match=r"run\(story\(\)\)"):
        cluster.run(never)
    cluster.run(use_a_client())
    with pytest.raises(ValueError, match="clock needs a cluster with virtual time"):
        Cluster(brokers=1, host="thread").clock  # noqa: B018


def test_outside_of_its_block_it_says_that_it_is_gone():
    with Cluster(brokers=1, host="sim") as cluster:
        pass
    with pytest.raises(RuntimeError, match="with block"):
        cluster.topic("orders")
    with pytest.raises(RuntimeError, match="with block"):
        cluster.run(asyncio.sleep(1))
    cluster.close()


def test_a_failing_test_is_told_the_seed_and_what_the_nodes_said():
    def fails():
        with Cluster(brokers=1, seed=13, host="sim"):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        fails()
    told = caught.value.__notes__[-1]
    assert "--- node 1, running" in told
    assert "broker 1 unfenced" in told
    assert 'Cluster(host="sim", seed=13, …) does the same again' in told


# ---- what it checks


def on_node(cluster, node, work):
    """Whatever a test of ours must do to a node that no user can."""
    return cluster._nodes.look(node, work)


def log_of(node, topic):
    return node.broker.replicas.named(topic, 0).log


def test_a_replica_that_has_other_records_than_its_leader_is_found():
    def replace(node):
        log_of(node, topic).truncate_to(0)
        log_of(node, topic).append_as_follower([batch(b"another", epoch=0)])

    with Cluster(brokers=2, seed=3, host="sim") as cluster:
        topic = cluster.topic("orders", assignment=[[1, 2]])
        produce(cluster, topic, b"ours")
        cluster.wait(lambda: cluster.logs(topic)[2]["high_watermark"] == 1)
        cluster.check()
        on_node(cluster, 2, replace)
        with pytest.raises(InvariantBroken, match="broker 2 differs from its leader 1 at offset 0"):
            cluster.check()


def test_a_leader_that_lost_what_was_committed_is_found():
    with Cluster(brokers=1, seed=3, host="sim") as cluster:
        topic = cluster.topic("orders")
        produce(cluster, topic, b"a", b"b")
        cluster.wait(lambda: "HighWatermarkAdvanced" in cluster.events.kinds())
        on_node(cluster, 1, lambda node: log_of(node, topic).truncate_to(0))
        with pytest.raises(InvariantBroken, match=r"up to 1 were committed, .* ends at 0"):
            cluster.check()


def test_a_callback_of_a_node_that_fails_breaks_a_promise():
    def fail(node):
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)

    with Cluster(brokers=1, seed=3, host="sim") as cluster:
        on_node(cluster, 1, fail)
        cluster.clock.advance("1ms")
        with pytest.raises(InvariantBroken, match=r"at 0\.\d+ s, node 1: .*ZeroDivisionError"):
            cluster.check()
        assert "BROKEN node 1" in cluster.last_events()[-1]


def test_a_node_that_cannot_start_says_why():
    with Cluster(brokers=1, seed=3, host="sim") as cluster:
        cluster.stop(1)
        cluster._nodes.server(1).files.open("/data").remove("meta.properties")
        with pytest.raises(NodeFailed, match=r"node 1 at .* cannot start: "):
            cluster.restart(1)
