"""Where the rows of a run go, and how somebody who has nothing to do with us finds them there."""

import queue

import confluent_kafka
import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from tidelog.spark.table_sink import sink_options
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.store_options import store_options
from tidelog.spark.tables.stores import located
from tidelog.spark.tables.words import DELTA, ICEBERG, CatalogTable, TableSpec

PARTITIONS = 3


class TopicTarget:
    """A topic of the same cluster."""

    def __init__(self, cluster, name):
        self._bootstrap = cluster.bootstrap_servers
        self.topic = cluster.topic(f"{name}-out", partitions=PARTITIONS)

    def job(self):
        return {"sink": self.topic}

    def has_rows(self):
        return ends(self._bootstrap, self.topic) > 0

    def values(self):
        return consumed(self._bootstrap, self.topic)


class TableTarget:
    """A table in a directory, or in an object store that is given."""

    def __init__(self, form, directory, store=None, catalog=None):
        name = f"{form}-{directory.name}"
        place = located(str(directory / name) if store is None else store.place(name))
        scheme, given = (store.scheme, store.options) if store else ("file", {})
        options = store_options(scheme, given, {})
        if form == ICEBERG and store is not None and catalog is None:
            catalog = CatalogTable(f"sqlite:///{directory}/catalog.db", "shop.orders")
        self.spec = TableSpec(place, form, (), options, catalog)

    def job(self):
        return {"table": sink_options(self.spec)}

    def has_rows(self):
        table = open_table(self.spec)
        return table.exists() and not table.is_empty()

    def values(self):
        return [int(each) for each in self._values().to_pylist()]

    def _values(self):
        spec = self.spec
        if spec.form == DELTA:
            table = DeltaTable(spec.path, storage_options=spec.store.delta_options())
            return pa.table(table.to_pyarrow_table())["value"]
        where, name = {"uri": f"sqlite:///{spec.path}/catalog.db"}, "tidelog.records"
        if spec.catalog is not None:
            name = spec.catalog.table
            where = dict(spec.catalog.options) or {"uri": spec.catalog.catalog}
        catalog = load_catalog("tidelog", **where, **spec.store.iceberg_properties())
        try:
            return catalog.load_table(name).scan().to_arrow()["value"]
        finally:
            catalog.close()


def _consumer(bootstrap):
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judges",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )


def ends(bootstrap, topic):
    """Sum of the offsets at which the partitions end."""
    consumer = _consumer(bootstrap)
    try:
        return sum(
            consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, index), 10)[1]
            for index in range(PARTITIONS)
        )
    finally:
        consumer.close()


def consumed(bootstrap, topic):
    """Every committed value, by a client that is not ours."""
    consumer = _consumer(bootstrap)
    wanted = [confluent_kafka.TopicPartition(topic, index, 0) for index in range(PARTITIONS)]
    consumer.assign(wanted)
    values, ended = [], set()
    try:
        while len(ended) < PARTITIONS:
            message = consumer.poll(30)
            if message is None:
                raise queue.Empty(f"{topic} does not end")
            if message.error() is None:
                values.append(int(message.value()))
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    finally:
        consumer.close()
    return values
