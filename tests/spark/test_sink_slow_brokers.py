"""The commit of a sink on brokers that have far too much to do: slowly, but it goes through."""

import pytest

from support.sink_bench import batch, committed, deliver, settings_for, staged
from tidelog.spark.delivery import Delivery
from tidelog.testing import Cluster

pytestmark = pytest.mark.long

LATENCY_MS = 4_850
"""Between all brokers, so that a record is committed five to ten seconds after it was written."""
PATIENCE_MS = 600_000
"""Nobody is taken for dead because of that."""
PATIENT = {
    "broker.session.timeout.ms": PATIENCE_MS,
    "controller.quorum.fetch.timeout.ms": PATIENCE_MS,
    "replica.lag.time.max.ms": PATIENCE_MS,
}


class Killed(BaseException):
    pass


class Dies(Delivery):
    """Ends like a driver that is killed between the rows and the end of the transaction."""

    async def end(self, producer):
        raise Killed


def test_a_batch_is_committed_once_where_each_commit_takes_longer_than_five_seconds():
    with Cluster(brokers=3, config=PATIENT) as cluster:
        settings = settings_for(cluster, cluster.topic("orders", partitions=3))
        deliver(settings, batch("slow"), staged(settings, [b"first"]))
        values = [b"%02d" % number for number in range(20)]
        with pytest.raises(Killed):
            deliver(settings, batch("slow", 1), staged(settings, values, number=1), Dies)
        for broker in cluster.brokers[:2]:
            cluster.slow(broker, LATENCY_MS)
        again = staged(settings, values, number=1)
        identity = batch("slow", 1, run="the next driver")
        assert deliver(settings, identity, again, timeout_ms=60_000)
        cluster.heal()
        assert committed(cluster, "orders") == [*values, b"first"]
