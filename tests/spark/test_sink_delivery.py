"""The commit of a sink without Spark, against real brokers: once, whatever goes wrong."""

import asyncio

import pytest

from support.sink_bench import batch, committed, deliver, settings_for, staged
from tidelog.client import ClusterUnreachable
from tidelog.spark.delivery import Delivery
from tidelog.spark.failure import TidelogError


def numbers(first, end):
    return [b"%06d" % number for number in range(first, end)]


def test_a_batch_that_is_delivered_again_is_skipped(cluster):
    topic = cluster.topic("sink-replayed", partitions=3)
    settings = settings_for(cluster, topic)
    assert deliver(settings, batch("replayed"), staged(settings, numbers(0, 100)))
    again = staged(settings, numbers(0, 100), tasks=3)  # a replay may be split otherwise
    assert not deliver(settings, batch("replayed"), again)
    assert deliver(settings, batch("replayed", 1), staged(settings, numbers(100, 150), tasks=2))
    assert not deliver(settings, batch("replayed", 0), again)
    assert committed(cluster, topic) == numbers(0, 150)


def test_a_new_checkpoint_begins_at_batch_0_again_and_is_written(cluster):
    topic = cluster.topic("sink-anew", partitions=1)
    settings = settings_for(cluster, topic)
    for number in range(3):
        deliver(settings, batch("anew", number), staged(settings, [b"old %d" % number]))
    assert deliver(settings, batch("anew", query="other", run="2"), staged(settings, [b"new"]))
    assert committed(cluster, topic) == [b"new", b"old 0", b"old 1", b"old 2"]


def test_the_older_of_two_drivers_is_told_that_it_is_not_the_only_one(cluster):
    topic = cluster.topic("sink-two-drivers", partitions=1)
    settings = settings_for(cluster, topic)
    deliver(settings, batch("twins", run="older"), staged(settings, [b"0"]))
    deliver(settings, batch("twins", 1, run="newer"), staged(settings, [b"1"]))
    with pytest.raises(TidelogError, match="another query writes through sink twins"):
        deliver(settings, batch("twins", 2, run="older"), staged(settings, [b"2"]))
    assert deliver(settings, batch("twins", 2, run="newer"), staged(settings, [b"two"]))
    assert committed(cluster, topic) == [b"0", b"1", b"two"]


def test_who_is_overtaken_in_the_middle_of_a_commit_is_told(cluster):
    topic = cluster.topic("sink-overtaken", partitions=1)
    settings = settings_for(cluster, topic)
    newer = batch("race", query="newer", run="newer")

    class Overtaken(Delivery):
        async def end(self, producer):
            messages = await asyncio.to_thread(staged, settings, [b"newer"], query="newer")
            await Delivery(self._client, self._markers, newer, settings.client).deliver(messages)
            await super().end(producer)

    with pytest.raises(TidelogError, match="another query writes through sink race"):
        deliver(settings, batch("race", run="older"), staged(settings, [b"older"]), Overtaken)
    assert committed(cluster, topic) == [b"newer"]


class Lost(Delivery):
    """The answer to the first EndTxn is lost on its way."""

    lost = 0

    async def end(self, producer):
        await super().end(producer)
        if not Lost.lost:
            Lost.lost += 1
            raise ClusterUnreachable("somewhere", "the answer is lost")


def test_a_lost_answer_to_the_commit_is_resolved_by_the_marker(cluster):
    topic = cluster.topic("sink-lost-answer", partitions=2)
    settings = settings_for(cluster, topic)
    Lost.lost = 0
    assert not deliver(settings, batch("lost"), staged(settings, numbers(0, 50)), Lost)
    assert Lost.lost == 1
    assert committed(cluster, topic) == numbers(0, 50)


class Unsent(Delivery):
    """The first EndTxn never arrives."""

    async def end(self, producer):
        if self._batch.run_id == "run":
            self._batch = self._batch._replace(run_id="second try")
            raise ClusterUnreachable("somewhere", "the request is lost")
        await super().end(producer)


def test_a_commit_that_never_arrived_is_made_again_from_the_start(cluster):
    topic = cluster.topic("sink-unsent", partitions=2)
    settings = settings_for(cluster, topic)
    assert deliver(settings, batch("unsent"), staged(settings, numbers(0, 50)), Unsent)
    assert committed(cluster, topic) == numbers(0, 50)


class Crash(BaseException):
    pass


class Dies(Delivery):
    """Ends like a killed process: between the rows and the end of the transaction."""

    async def end(self, producer):
        raise Crash


def test_rows_of_a_crashed_commit_are_never_seen(cluster):
    topic = cluster.topic("sink-crashed", partitions=2)
    settings = settings_for(cluster, topic)
    with pytest.raises(Crash):
        deliver(settings, batch("crashed"), staged(settings, numbers(0, 30)), Dies)
    assert committed(cluster, topic) == []
    assert deliver(settings, batch("crashed"), staged(settings, numbers(0, 30), tasks=2))
    assert committed(cluster, topic) == numbers(0, 30)


class Killing(Delivery):
    """A broker dies in the middle of the commit."""

    cluster = victim = None

    async def end(self, producer):
        await asyncio.to_thread(self.cluster.kill, self.victim)
        await super().end(producer)


class KillingEarlier(Killing):
    async def produce(self, producer, feeds):
        await asyncio.to_thread(self.cluster.kill, self.victim)
        await super().produce(producer, feeds)

    async def end(self, producer):
        await Delivery.end(self, producer)


@pytest.mark.parametrize("kind", [Killing, KillingEarlier])
def test_leaders_and_coordinators_may_die_in_the_middle_of_a_commit(cluster, kind):
    topic = cluster.topic(f"sink-{kind.__name__.lower()}", partitions=6)
    settings = settings_for(cluster, topic)
    Killing.cluster = cluster
    for number, victim in enumerate(cluster.brokers[:2]):
        Killing.victim = victim
        values = numbers(1000 * number, 1000 * number + 500)
        try:
            messages = staged(settings, values, number=number)
            assert deliver(settings, batch(f"{topic}-sink", number), messages, kind)
        finally:
            cluster.restart(victim)
            cluster.wait_ready()
    assert committed(cluster, topic) == numbers(0, 500) + numbers(1000, 1500)


def test_a_transaction_that_was_aborted_for_its_age_is_told_as_such(cluster):
    topic = cluster.topic("sink-slow", partitions=1)
    settings = settings_for(cluster, topic, **{"kafka.transaction.timeout.ms": "1000"})

    class Slow(Delivery):
        async def end(self, producer):
            where = self._batch.transactional_id
            await asyncio.to_thread(cluster.wait, lambda: state_of(cluster, where) == "Empty")
            await super().end(producer)

    with pytest.raises(TidelogError, match="took longer than the 1000 ms"):
        deliver(settings, batch("slow"), staged(settings, [b"x"]), Slow)
    assert deliver(settings, batch("slow"), staged(settings, [b"x"]))
    assert committed(cluster, topic) == [b"x"]


def state_of(cluster, transactional_id):
    from tidelog.client.transactions import TransactionAdmin

    async def look(client):
        found = await TransactionAdmin(client).describe(transactional_id)
        return "Empty" if found.state in ("CompleteAbort", "Empty") else found.state

    return cluster.ask(look)
