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
        ("security.protocol", "SASL_TLS", False, "kafka.security.protocol=SASL_TLS: one of PLAIN"),
        ("security.protocol", "SASL_SSL", True, "kafka.sasl.mechanism=GSSAPI: one of PLAIN"),
        ("ssl.truststore.location", "f", True, r"say kafka.security.protocol=SASL_SSL"),
        ("fetch.max.bytes", "lots", False, "kafka.fetch.max.bytes is 'lots'"),
        ("compression.type", "rar", True, "one of gzip"),
    ],
)
def test_what_cannot_be_honoured_is_refused(name, value, for_sink, words):
    with pytest.raises(InvalidOption, match=words):
        client_settings({name: value}, for_sink=for_sink)


SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
JAAS = 'org.example.Scram required username="alice" password="tide"'


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sasl.jaas.config": JAAS}, "kafka.sasl.jaas.config: it does not end with a semicolon"),
        ({"sasl.password": "tide"}, "needs kafka.sasl.username and kafka.sasl.password"),
        (
            {"sasl.jaas.config": f"{JAAS};", "ssl.truststore.location": "/none/tide-ca.pem"},
            "kafka.ssl.truststore.location=/none/tide-ca.pem: No such file or directory; driver",
        ),
        (
            {"sasl.jaas.config": f"{JAAS};", "ssl.truststore.location": "ca.jks"},
            "kafka.ssl.truststore.type=JKS: only PEM",
        ),
        (
            {"sasl.jaas.config": f"{JAAS};", "ssl.truststore.certificates": "tide"},
            "kafka.ssl.truststore.certificates: no certificate in PEM",
        ),
    ],
    ids=["jaas", "no user", "no file", "JKS", "no certificate"],
)
def test_a_login_that_cannot_work_is_refused_without_its_password(given, words):
    with pytest.raises(InvalidOption) as refused:
        client_settings({**SCRAM, **given}, for_sink=False)
    told = str(refused.value)
    assert words in told
    assert "tide" not in told.replace("tidelog", "").replace("tide-ca", "")


def test_a_login_reaches_the_client_and_is_shown_by_its_names_alone(caplog):
    given = {**SCRAM, "sasl.jaas.config": f"{JAAS};", "ssl.truststore.password": "sand"}
    settings = client_settings(given, for_sink=True)
    assert settings.security.properties == given
    assert "sasl.jaas.config" in repr(settings)
    assert "tide" not in repr(settings).replace("tidelog", "")
    assert "kafka.ssl.truststore.password has no effect on a sink" in caplog.text
    assert "sand" not in caplog.text + repr(settings)


def test_a_login_that_plain_connections_do_not_use_is_named(caplog):
    given = {"security.protocol": "plaintext", "sasl.password": "tide"}
    client_settings(given, for_sink=False)
    assert "kafka.sasl.password has no effect" in caplog.text


@pytest.mark.parametrize("text", ["", "host:port:9092", "a:0", " "])
def test_an_address_that_is_none_is_refused(text):
    with pytest.raises(InvalidOption, match=r"kafka\.bootstrap\.servers"):
        bootstrap_of(Options({"kafka.bootstrap.servers": text}))
