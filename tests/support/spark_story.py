"""What tests of sources say again and again: write records, read them with Spark, expect words."""

import contextlib

import pytest

from tidelog.client import NewRecord, Producer
from tidelog.spark.failure import words_of


def write(cluster, topic, values, *, partition=0):
    """Values as records of one partition, in one batch."""
    records = [NewRecord(str(value).encode(), partition=partition) for value in values]
    write_records(cluster, topic, records)


def write_records(cluster, topic, records):
    async def produce(client):
        await Producer(client).write(topic, records)

    cluster.ask(produce)


def loaded(spark, cluster, **options):
    """A DataFrame of a batch; `schema` is the user's."""
    return _given(spark.read, cluster, options).load()


def streamed(spark, cluster, *, kind="tidelog", **options):
    return _given(spark.readStream, cluster, options, kind).load()


def _given(reader, cluster, options, kind="tidelog"):
    reader = reader.format(kind).option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    if "schema" in options:
        reader = reader.schema(options.pop("schema"))
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader


def values_of(frame):
    return sorted(int(row["value"]) for row in frame.select("value").collect())


@contextlib.contextmanager
def refused(words):
    """Spark raises, and one line of what it says is ours and has these words."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever Spark makes of it
        yield
    line = words_of(caught.value)
    assert line is not None, str(caught.value)[:2000]
    assert words in line, line


def plans_of(spark):
    """Of every query so far, as the page of Spark and its event log have them."""
    store = spark._jsparkSession.sharedState().statusStore()
    listed = store.executionsList()
    return "\n".join(listed.apply(at).physicalPlanDescription() for at in range(int(listed.size())))
