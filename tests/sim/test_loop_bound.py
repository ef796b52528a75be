"""No callback holds the loop of a node: 150 topics are created and deleted, and nobody is silent.

The work of a callback is counted, not timed, so the same callback is caught on every machine.
"""

import asyncio

from tidelog.broker.replication.replicas import Replicas
from tidelog.client import Admin, NewTopic
from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes import rules
from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.cluster_plan import ClusterPlan

TOPICS, PARTITIONS = 150, 4


def held_by(topics):
    """What held the loop of a node for too long while topics were made and removed."""
    kernel, held = Kernel(1), []
    cluster = NodeCluster(kernel, 1, ClusterPlan(3, 3))
    loop, client = cluster.new_client(lambda *error: held.append(error))
    for server in cluster.servers.values():
        server.work.on_too_long = held.append
        server.start()

    def until(condition):
        end_us = kernel.now_us + 60_000_000
        while not condition() and not held:
            assert kernel.now_us < end_us, "still not after a minute"
            kernel.run(kernel.now_us + 50_000, 100_000_000)

    def finish(work):
        tasks = []
        loop.perform(lambda: tasks.append(loop.create_task(work)))
        until(tasks[0].done)
        if not held:
            tasks[0].result()

    def whole():
        return rules.unfinished(cluster.servers) is None

    async def create():
        await asyncio.gather(*(Admin(client).create_topic(each) for each in topics))

    async def delete():
        await asyncio.gather(*(Admin(client).delete_topic(each.name) for each in topics))

    try:
        until(whole)
        finish(create())
        until(whole)
        if not held:
            finish(delete())
            until(whole)
    finally:
        cluster.bury()
    return held


def of_issue():
    return [NewTopic(f"topic-{number}", PARTITIONS, 3) for number in range(TOPICS)]


def test_nobody_is_silent_while_hundreds_of_logs_are_made_and_removed():
    assert held_by(of_issue()) == []


def test_a_broker_that_makes_its_logs_on_the_loop_is_caught(monkeypatch):
    """As it was before ADR 0032."""
    monkeypatch.setattr(
        Replicas, "works_beside_the_loop", property(lambda _: False, lambda *_: None)
    )
    held = held_by(of_issue())
    assert "held the loop for about" in held[0]
    assert "storage.new_logs" in held[0]


def test_a_broker_that_removes_its_logs_on_the_loop_is_caught(monkeypatch):
    def remove(_, directory, name):
        directory.delete_log(name)

    monkeypatch.setattr(Replicas, "_remove", remove)
    held = held_by(of_issue())
    assert "held the loop for about" in held[0]
    assert "delete_log" in held[0]
