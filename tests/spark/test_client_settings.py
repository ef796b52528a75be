"""`kafka.…` options: what they become, and which are refused."""

import pytest

from tidelog.spark.client_settings import bootstrap_of, client_settings
from tidelog.spark.failure import InvalidOption
from tidelog.spark.options import Options


def test_known_options_reach_the_client():
    settings = client_settings(
        {"max.partition.fetch.bytes": "1000", "request.timeout.ms": "7000", "client.id": "me"},
        for_sink=False,
    )
    assert settings.partition_max_bytes == 1000
    assert settings.timeout_ms == 7000
    assert settings.client_id == "me"
    sink = client_settings({"acks": "1", "compression.type": "zstd"}, for_sink=True)
    assert (sink.acks, sink.compression) == (1, "zstd")


def test_an_option_without_effect_is_named(caplog):
    client_settings({"linger.ms": "5", "metrics.num.samples": "3"}, for_sink=False)
    assert "kafka.linger.ms has no effect on a source" in caplog.text
    assert "kafka.metrics.num.samples has no effect" in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "for_sink", "words"),
    [
        ("auto.offset.reset", "latest", False, "say startingOffsets"),
        ("value.deserializer", "X", False, "cast them in the query"),
        ("key.serializer", "X", True, "cast them in the query"),
        ("enable.auto.commit", "true", False, "commitOffsets"),
        ("interceptor.classes", "X", False, "leave it out"),
        ("transactional.id", "t", True, "sinkId"),
        ("security.protocol", "SASL_SSL", False, "PLAINTEXT"),
        ("ssl.truststore.location", "f", True, "PLAINTEXT"),
        ("fetch.max.bytes", "lots", False, "kafka.fetch.max.bytes is 'lots'"),
        ("compression.type", "rar", True, "one of gzip"),
    ],
)
def test_what_cannot_be_honoured_is_refused(name, value, for_sink, words):
    with pytest.raises(InvalidOption, match=words):
        client_settings({name: value}, for_sink=for_sink)


@pytest.mark.parametrize("text", ["", "host:port:9092", "a:0", " "])
def test_an_address_that_is_none_is_refused(text):
    with pytest.raises(InvalidOption, match=r"kafka\.bootstrap\.servers"):
        bootstrap_of(Options({"kafka.bootstrap.servers": text}))
