"""A node's configuration: which layer counts, what is refused, and what a node gets in the end."""

import ast
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog import config as config_package
from tidelog.config.broker_keys import KEYS, SECTIONS, find_key, nearest_name, synonyms
from tidelog.config.endpoints import Address, Listener, Voter
from tidelog.config.key_types import Kind, Status
from tidelog.config.layers import Inputs, Layer, Source, environment_name
from tidelog.config.node_config import load_node_config
from tidelog.config.profiles import PROFILES
from tidelog.config.properties import parse_properties
from tidelog.config.settings import Settings, resolve
from tidelog.config.values import MisfitError, parse_value, show_value
from tidelog.core.metadata import topic_configs
from tidelog.core.metadata.lifecycle import LifecycleSettings
from tidelog.core.metadata.settings import ControllerSettings
from tidelog.core.quorum.state import QuorumSettings
from tidelog.core.replication.inputs import ReplicaSettings
from tidelog.core.replication.selector import rack_aware
from tidelog.storage.config import LogConfig

SMALLEST = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:9093
log.dirs=/var/lib/tidelog
"""

# The keys, values and order of the file that comes with Kafka 4, in our words.
KAFKA_4_COMBINED = """\
############################# Basics #############################
# One process is broker and controller.
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093

############################# Sockets #############################
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600

############################# Logs #############################
log.dirs=/var/lib/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1

############################# Internal topics #############################
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1

############################# Flushing #############################
#log.flush.interval.messages=10000
#log.flush.interval.ms=1000

############################# Retention #############################
log.retention.hours=168
#log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def load(text=SMALLEST, **extra):
    return load_node_config(Inputs(parse_properties(text, "server.properties"), **extra))


def sound(text=SMALLEST, **extra):
    loaded = load(text, **extra)
    assert loaded.config is not None, [str(problem) for problem in loaded.problems]
    return loaded.config


def with_lines(*lines, without=()):
    kept = [line for line in SMALLEST.splitlines() if not line.startswith(tuple(without) or "?")]
    return "\n".join([*kept, *lines])


# ---- the table ----


def test_no_key_is_there_twice():
    assert sum(len(keys) for _, keys in SECTIONS) == len(KEYS)


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_a_default_is_a_value_of_its_key_and_its_meaning_one_sentence(key):
    if key.default is not None:
        assert parse_value(key, show_value(key, key.default), with_units=False) == key.default
    assert key.meaning.endswith(".")
    assert key.meaning.count(". ") == 0
    assert all(name in KEYS for name in synonyms(key))
    assert key.status is Status.UNSUPPORTED or not key.refused


@pytest.mark.parametrize("name", sorted(topic_configs.KNOWN))
def test_a_default_for_topics_is_what_the_controller_believes_it_to_be(name):
    """One default in two tables: a topic without the setting must not depend on who is asked."""
    if name.endswith("throttled.replicas"):
        return  # throttles name replicas of one topic; there is nothing to inherit
    known = topic_configs.KNOWN[name]
    (key,) = (key for key in KEYS.values() if key.topic_name == name)
    expected = known.default
    inherited = Settings().value(key.name)
    assert inherited == ((expected,) if key.kind is Kind.LIST else expected)
    if isinstance(known, topic_configs.IntConfig | topic_configs.FloatConfig):
        assert (key.at_least, key.at_most) == (known.at_least, known.at_most)
    if isinstance(known, topic_configs.ChoiceConfig | topic_configs.ListConfig):
        assert key.choices == known.choices


def test_replication_defaults_are_those_of_the_specification():
    expected = {
        "replica.lag.time.max.ms": 30000,
        "min.insync.replicas": 1,
        "replica.fetch.wait.max.ms": 500,
        "unclean.leader.election.enable": False,
        "replica.fetch.min.bytes": 1,
        "default.replication.factor": 1,
        "replica.fetch.max.bytes": 1048576,
        "num.partitions": 1,
        "replica.fetch.response.max.bytes": 10485760,
        "num.replica.fetchers": 1,
        "replica.fetch.backoff.ms": 1000,
        "replica.socket.timeout.ms": 30000,
        "replica.high.watermark.checkpoint.interval.ms": 5000,
        "replica.socket.receive.buffer.bytes": 65536,
        "log.flush.offset.checkpoint.interval.ms": 60000,
        "log.flush.start.offset.checkpoint.interval.ms": 60000,
        "log.segment.bytes": 1073741824,
        "log.roll.ms": 7 * 86_400_000,
        "log.retention.ms": 7 * 86_400_000,
        "log.retention.bytes": -1,
        "log.retention.check.interval.ms": 300000,
        "num.recovery.threads.per.data.dir": 2,
        "producer.id.expiration.ms": 86400000,
        "transaction.max.timeout.ms": 900000,
        "log.dir.failure.timeout.ms": 30000,
    }
    settings = Settings()
    assert {name: settings.value(name) for name in expected} == expected


def test_a_node_without_special_wishes_runs_the_machines_with_their_own_defaults():
    """The table and the settings classes name the same numbers; neither may drift alone."""
    config = sound()
    assert config.lifecycle_settings() == LifecycleSettings()
    assert config.replica_settings() == ReplicaSettings()
    assert config.quorum_settings() == QuorumSettings()
    assert config.controller_settings("c") == ControllerSettings("c")
    usual = LogConfig()
    for field in fields(LogConfig):
        if field.name == "index_write_bytes":
            continue  # nobody sets it but proofs
        ours = config if field.name == "durability" else config.logs
        assert getattr(ours, field.name) == getattr(usual, field.name), field.name


class WatchedSettings(Settings):
    """Notes which keys somebody asked for."""

    def __init__(self, inner):
        super().__init__()
        self._given = inner._given
        self.asked = set()

    def effective(self, name):
        self.asked.update((name, *synonyms(KEYS[name])))
        return super().effective(name)


def test_whatever_is_called_implemented_reaches_the_node(monkeypatch):
    watched = []

    def resolve_watched(inputs):
        resolution = resolve(inputs)
        watched.append(WatchedSettings(resolution.settings))
        return resolution._replace(settings=watched[0])

    monkeypatch.setattr("tidelog.config.node_config.resolve", resolve_watched)
    config = sound()
    config.lifecycle_settings()
    config.replica_settings()
    config.quorum_settings()
    config.controller_settings("c")
    config.group_settings()
    config.transaction_settings()
    asked = watched[0].asked | named_by_the_broker()
    claimed = [key for key in KEYS.values() if key.status is Status.IMPLEMENTED]
    assert [key.name for key in claimed if not {key.name, key.topic_name} & asked] == []


def named_by_the_broker():
    """Settings that can change while it runs are read where they are needed."""
    modules = (Path(config_package.__file__).parents[1] / "broker").rglob("*.py")
    nodes = [node for each in modules for node in ast.walk(ast.parse(each.read_text("utf-8")))]
    return {node.value for node in nodes if isinstance(node, ast.Constant)}


@given(st.sampled_from(sorted(KEYS)), st.text(max_size=25))
def test_any_text_is_a_value_or_refused_with_what_is_allowed(name, text):
    key = KEYS[name]
    try:
        value = parse_value(key, text, with_units=True)
    except MisfitError:
        with pytest.raises(MisfitError, match=r"\w"):
            parse_value(key, text, with_units=False)
        return
    if key.kind is not Kind.PASSWORD:
        assert parse_value(key, show_value(key, value), with_units=False) == value


# ---- layers ----

LAG = "replica.lag.time.max.ms"
IN_FILE = f"{SMALLEST}{LAG}=7000\n"


@pytest.mark.parametrize(
    ("extra", "value", "source"),
    [
        ({}, 7000, Source(Layer.FILE, "server.properties:7")),
        ({"profile": "brisk"}, 3000, Source(Layer.PROFILE, "brisk")),
        (
            {"profile": "brisk", "environment": {"TIDELOG_REPLICA_LAG_TIME_MAX_MS": "4000"}},
            4000,
            Source(Layer.ENVIRONMENT, "TIDELOG_REPLICA_LAG_TIME_MAX_MS"),
        ),
        (
            {
                "profile": "brisk",
                "environment": {"TIDELOG_REPLICA_LAG_TIME_MAX_MS": "4000"},
                "overrides": [f"{LAG}=8000", f"{LAG}=9s"],
            },
            9000,
            Source(Layer.OVERRIDE),
        ),
    ],
)
def test_the_command_line_beats_the_environment_beats_the_profile_beats_the_file(
    extra, value, source
):
    config = sound(IN_FILE, **extra)
    assert (config.settings.value(LAG), config.source(LAG)) == (value, source)
    assert config.source("num.partitions").layer is Layer.DEFAULT


def test_a_coarser_synonym_in_a_stronger_layer_counts():
    text = with_lines("log.retention.ms=1000", "log.retention.hours=2")
    assert sound(text).logs.retention_ms == 1000
    assert sound(text, overrides=["log.retention.hours=1"]).logs.retention_ms == 3_600_000
    forever = sound(with_lines("log.retention.minutes=-1", "log.retention.hours=2"))
    assert forever.logs.retention_ms == -1


def test_units_are_for_tidelog_alone_and_files_stay_readable_to_kafka():
    assert sound(overrides=[f"{LAG}=1min"]).replica_settings().replica_lag_time_max_ms == 60_000
    (problem,) = load(with_lines(f"{LAG}=1min")).problems
    assert str(problem) == (
        f"server.properties:7: {LAG}=1min\n"
        "  why: it must be a whole number of ms, at least 1\n"
        f"  try: {LAG}=30000, which is the default"
    )


def test_every_key_has_a_variable_of_its_own():
    assert len({environment_name(name) for name in KEYS}) == len(KEYS)


def test_the_brisk_profile_is_sound_and_forgives_a_pause_of_two_seconds():
    config = sound(profile="brisk")
    assert not load(profile="brisk").warnings
    assert config.lifecycle_settings().session_timeout_ms == 4000
    assert config.replica_settings().replica_lag_time_max_ms == 3000
    quorum = config.quorum_settings()
    assert quorum.fetch_retry_ms < quorum.fetch_timeout_ms
    assert all(name in KEYS for values in PROFILES.values() for name in values)


# ---- a file of Kafka's ----


def test_the_file_that_comes_with_kafka_is_accepted_as_it_is():
    loaded = load(KAFKA_4_COMBINED)
    assert loaded.problems == ()
    assert loaded.warnings == ()
    assert "num.io.threads" in loaded.without_effect
    config = loaded.config
    assert config.is_broker
    assert config.is_controller
    assert config.listeners == (
        Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),
        Listener("CONTROLLER", "", 9093, "PLAINTEXT"),
    )
    assert config.broker_endpoints == (Listener("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
    assert config.bootstrap_controllers == (Address("localhost", 9093),)
    assert config.metadata_log_dir == "/var/lib/kraft-combined-logs"
    assert config.durability == "fsync"
    assert config.topic_defaults() == {
        "segment.bytes": "1073741824",
        "retention.ms": "604800000",
    }


def test_keys_that_only_kafka_has_a_use_for_are_accepted_and_named():
    loaded = load(with_lines("remote.log.reader.threads=20", "ssl.keystore.password=secret"))
    assert loaded.config is not None
    assert loaded.warnings == ()
    assert loaded.without_effect == ("remote.log.reader.threads", "ssl.keystore.password")


def test_no_key_that_is_obeyed_is_called_without_effect():
    loaded = load(with_lines("auto.create.topics.enable=false", "message.max.bytes=2000"))
    assert loaded.without_effect == ()
    obeyed = {key for key, places in places_that_read_keys().items() if places}
    assert "auto.create.topics.enable" in obeyed
    assert {key for key in obeyed if KEYS[key].status is Status.NO_EFFECT} == set()


def places_that_read_keys():
    """For every key that becomes a field of a configuration: the modules that use the field."""
    source = Path(config_package.__file__).parent
    by_field = {}
    for name in ("node_config.py", "coordination.py"):
        for node in ast.walk(ast.parse((source / name).read_text("utf-8"))):
            match node:
                case ast.keyword(arg=str(field), value=ast.Call(args=[ast.Constant(str(key)), *_])):
                    by_field[field] = key
    by_field = {field: key for field, key in by_field.items() if key in KEYS}
    found = {key: set() for key in by_field.values()}
    for module in source.parent.rglob("*.py"):
        if module.parent != source:
            for node in ast.walk(ast.parse(module.read_text("utf-8"))):
                if isinstance(node, ast.Attribute) and node.attr in by_field:
                    found[by_field[node.attr]].add(module.name)
    return found


def test_a_node_gets_typed_values():
    text = with_lines(
        "controller.quorum.voters=1@a:9093, 2@[::1]:9093",
        "broker.rack=east",
        "log.dirs=/a, /b",
        "ack.durability=page-cache",
        "default.replication.factor=2",
        "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "leader.imbalance.check.interval.seconds=20",
        without=["controller.quorum", "log.dirs"],
    )
    config = sound(text)
    assert config.voters == (Voter(1, "a", 9093), Voter(2, "::1", 9093))
    assert (config.rack, config.log_dirs, config.metadata_log_dir) == ("east", ("/a", "/b"), "/a")
    assert config.durability == "page-cache"
    assert config.replica_settings().replica_selector is rack_aware
    assert config.controller_settings("c").leader_imbalance_check_interval_ms == 20_000
    assert config.advertised == config.listeners


def test_broker_id_and_log_dir_are_understood_as_the_older_names():
    config = sound(with_lines("broker.id=1", "log.dir=/x", without=["node.id", "log.dirs"]))
    assert (config.node_id, config.log_dirs) == (1, ("/x",))


# ---- problems ----


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        (with_lines(without=["process"]), "process.roles", "must know what it is"),
        (with_lines(without=["node.id"]), "node.id", "a number of its own"),
        (with_lines(without=["log.dirs"]), "log.dirs", "a place for its logs"),
        (with_lines("broker.id=2"), "broker.id", "node.id, which says 1"),
        (with_lines("process.roles=boss", without=["process"]), "process.roles", "ones of broker"),
        (with_lines("node.id=-1", without=["node.id"]), "node.id", "from 0 to"),
        (with_lines("node.id=one", without=["node.id"]), "node.id", "a whole number"),
        (with_lines("node.id=3", without=["node.id"]), "controller.quorum.voters", "voters 1"),
        (with_lines("log.segment.bytes=100"), "log.segment.bytes", "from 1048576 to 2147483647"),
        (with_lines("ack.durability=maybe"), "ack.durability", "one of fsync, page-cache"),
        (with_lines("auto.create.topics.enable=yes"), "auto.create.topics.enable", "true or false"),
        (
            with_lines("log.cleaner.min.cleanable.ratio=1.5"),
            "log.cleaner.min.cleanable.ratio",
            "a number, from 0.0 to 1.0",
        ),
        (
            with_lines("listeners=PLAINTEXT:9092", without=["listeners"]),
            "listeners",
            "'PLAINTEXT:9092' is not NAME://host:port",
        ),
        (
            with_lines("listeners=PLAINTEXT://:70000", without=["listeners"]),
            "listeners",
            "a port up to 65535",
        ),
        (
            with_lines("listeners=PLAINTEXT://:1,CONTROLLER://:1", without=["listeners"]),
            "listeners",
            "the same address",
        ),
        (
            with_lines("listeners=PLAINTEXT://:9092", without=["listeners"]),
            "listeners",
            "a controller must listen on one of CONTROLLER",
        ),
        (
            with_lines("listeners=OUT://:9092,CONTROLLER://:9093", without=["listeners"]),
            "listeners",
            "no security protocol is given for OUT",
        ),
        (
            with_lines("listener.security.protocol.map=PLAINTEXT:NONE"),
            "listener.security.protocol.map",
            "'PLAINTEXT:NONE' is not NAME:PROTOCOL",
        ),
        (
            with_lines("advertised.listeners=PLAINTEXT://0.0.0.0:9092"),
            "advertised.listeners",
            "nobody can connect to 0.0.0.0",
        ),
        (
            with_lines("advertised.listeners=PLAINTEXT://a:1,OTHER://b:2"),
            "advertised.listeners",
            "OTHER is not among the listeners",
        ),
        (
            with_lines(
                "listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093", without=["listeners"]
            ),
            "listeners",
            "so it cannot be advertised",
        ),
        (
            with_lines("inter.broker.listener.name=CONTROLLER"),
            "inter.broker.listener.name",
            "brokers talk over CONTROLLER",
        ),
        (
            with_lines(without=["controller.listener"]),
            "controller.listener.names",
            "over which listener to reach the controller",
        ),
        (
            with_lines(without=["controller.quorum"]),
            "controller.quorum.voters",
            "where the metadata quorum is",
        ),
        (
            with_lines("controller.quorum.voters=1@a", without=["controller.quorum"]),
            "controller.quorum.voters",
            "'1@a' is not id@host:port",
        ),
        (
            with_lines("controller.quorum.voters=1@a:1,1@b:1", without=["controller.quorum"]),
            "controller.quorum.voters",
            "a voter is there twice",
        ),
        (
            with_lines("process.roles=broker", without=["process"]),
            "node.id",
            "is no controller, but one of the voters",
        ),
        (
            with_lines("broker.heartbeat.interval.ms=9000"),
            "broker.heartbeat.interval.ms",
            "less than broker.session.timeout.ms=9000 (default)",
        ),
        (
            with_lines("replica.lag.time.max.ms=500"),
            "replica.lag.time.max.ms",
            "more than replica.fetch.wait.max.ms=500 (default)",
        ),
        (
            with_lines("replica.fetch.wait.max.ms=30001"),
            "replica.fetch.wait.max.ms",
            "at most replica.socket.timeout.ms=30000",
        ),
        (
            with_lines("offsets.topic.segment.bytes=1000"),
            "offsets.topic.segment.bytes",
            "from 1048576",
        ),
        (
            with_lines("transaction.state.log.segment.bytes=1000"),
            "transaction.state.log.segment.bytes",
            "from 1048576",
        ),
        (
            with_lines("authorizer.class.name=org.example.Gate"),
            "authorizer.class.name",
            "StandardAuthorizer",
        ),
        (with_lines("super.users=User:admin;bob"), "super.users", "KIND:NAME"),
    ],
)
def test_a_problem_names_the_key_and_the_reason(text, name, why):
    loaded = load(text)
    assert loaded.config is None
    assert [problem for problem in loaded.problems if problem.name == name and why in problem.why]


def test_all_problems_are_found_at_once_with_their_lines():
    text = with_lines("replica.lag.time.max.ms=x", "num.partitions=0", "log.segment.bytes=1")
    loaded = load(text, overrides=["nonsense", "broker.session.timeout.ms=soon"])
    assert [(problem.name, str(problem.source)) for problem in loaded.problems] == [
        ("nonsense", "-X"),
        ("broker.session.timeout.ms", "-X"),
        ("replica.lag.time.max.ms", "server.properties:7"),
        ("num.partitions", "server.properties:8"),
        ("log.segment.bytes", "server.properties:9"),
    ]


def test_an_empty_configuration_is_a_list_of_what_is_needed():
    names = [problem.name for problem in load_node_config(Inputs()).problems]
    assert names == ["process.roles", "node.id", "log.dirs"]


# ---- warnings ----


@pytest.mark.parametrize(
    ("line", "name", "why"),
    [
        ("min.insync.replicas=2", "min.insync.replicas", "at most default.replication.factor=1"),
        ("broker.heartbeat.interval.ms=5000", "broker.heartbeat.interval.ms", "one lost heartbeat"),
        ("ack.durability=page-cache", "ack.durability", "a topic with one replica"),
        ("principal.builder.class=a.B", "principal.builder.class", "does not support this"),
        ("zookeeper.connect=a:2181", "zookeeper.connect", "does not support this"),
        ("message.max.bytes=200000000", "message.max.bytes", "at most socket.request.max.bytes"),
        ("node.id=1", "node.id", "stands in line 2 already"),
        (
            "listener.name.plaintext.max.connections=5",
            "listener.name.plaintext.max.connections",
            "no settings for one listener alone",
        ),
    ],
)
def test_a_warning_does_not_stop_the_node(line, name, why):
    loaded = load(with_lines(line))
    assert loaded.config is not None
    (warning,) = (warning for warning in loaded.warnings if warning.name == name)
    assert why in warning.why


def test_a_voter_that_is_expected_elsewhere_is_warned():
    text = with_lines("controller.quorum.voters=1@localhost:9999", without=["controller.quorum"])
    (warning,) = load(text).warnings
    assert warning.advice == "1@localhost:9093"


def test_an_unknown_name_gives_one_warning_with_the_nearest_known_one():
    loaded = load(
        with_lines("broker.sesion.timeout.ms=1", "retention.ms=5"),
        overrides=["broker.sesion.timeout.ms=2"],
        environment={"TIDELOG_NOD_ID": "4", "PATH": "/bin"},
    )
    assert [(warning.name, warning.advice) for warning in loaded.warnings] == [
        ("broker.sesion.timeout.ms", "broker.session.timeout.ms, if that was meant"),
        ("nod.id", "TIDELOG_NODE_ID, if that was meant"),
        ("retention.ms", "log.retention.ms, if that was meant"),
    ]
    assert loaded.config is not None
    assert nearest_name("qqqqqq") is None


def test_a_secret_is_never_shown_not_even_under_a_misspelled_name():
    loaded = load(with_lines("delegation.token.secret.key=geheim", "ssl.keystore.pasword=geheim"))
    assert len(loaded.warnings) == 2
    assert "geheim" not in "".join(map(str, loaded.warnings))
    assert find_key("listener.name.out.plain.sasl.jaas.config") is KEYS["sasl.jaas.config"]
