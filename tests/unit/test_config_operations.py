"""Set, delete, append, subtract and replace, as changes of single settings."""

import pytest

from tidelog.config.live_keys import check_live_config, live_list_default
from tidelog.core.errors import Error
from tidelog.core.metadata.config_operations import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    Operation,
    changes_of,
    replacement,
    topic_list_default,
)
from tidelog.core.metadata.configs import ConfigError

THROTTLED = "leader.replication.throttled.replicas"


def test_single_settings_are_set_and_deleted() -> None:
    operations = [Operation("a", SET, "1"), Operation("b", DELETE, None)]
    assert changes_of(operations, {"b": "2"}, topic_list_default) == (("a", "1"), ("b", None))


@pytest.mark.parametrize(
    ("operation", "present", "after"),
    [
        (Operation("cleanup.policy", APPEND, "compact"), {}, "delete,compact"),
        (Operation("cleanup.policy", APPEND, "delete"), {}, "delete"),
        (Operation("cleanup.policy", SUBTRACT, "delete"), {"cleanup.policy": "delete,x"}, "x"),
        (Operation("cleanup.policy", SUBTRACT, "compact"), {}, "delete"),
        (Operation(THROTTLED, APPEND, "0:1, 0:2"), {THROTTLED: "0:1"}, "0:1,0:2"),
        (Operation(THROTTLED, APPEND, "0:1"), {}, "0:1"),
        (Operation(THROTTLED, SUBTRACT, "0:1"), {THROTTLED: "0:1"}, ""),
    ],
)
def test_lists_grow_and_shrink_from_what_is_there_or_from_the_default(
    operation: Operation, present: dict[str, str], after: str
) -> None:
    assert changes_of([operation], present, topic_list_default) == ((operation.name, after),)


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (Operation("retention.ms", APPEND, "5"), Error.INVALID_CONFIG),
        (Operation("no.such.setting", SUBTRACT, "5"), Error.INVALID_CONFIG),
        (Operation("retention.ms", SET, None), Error.INVALID_REQUEST),
        (Operation("cleanup.policy", APPEND, None), Error.INVALID_REQUEST),
        (Operation("retention.ms", 9, "5"), Error.INVALID_REQUEST),
    ],
)
def test_operations_that_make_no_sense_say_so(operation: Operation, error: Error) -> None:
    with pytest.raises(ConfigError) as refused:
        changes_of([operation], {}, topic_list_default)
    assert refused.value.error is error
    assert operation.name in refused.value.reason


def test_replacing_forgets_what_is_not_named() -> None:
    present = {"a": "1", "b": "2"}
    assert replacement([("b", "3"), ("c", "4")], present) == (("b", "3"), ("c", "4"), ("a", None))
    assert replacement([], present) == (("a", None), ("b", None))
    with pytest.raises(ConfigError):
        replacement([("a", None)], present)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("leader.replication.throttled.rate", "1000"),
        ("producer.id.expiration.ms", "2"),
        ("min.insync.replicas", "2"),
        ("unclean.leader.election.enable", "true"),
        ("log.retention.ms", "-1"),
        ("log.cleanup.policy", "compact"),
        ("remote.log.reader.threads", "20"),
    ],
)
def test_what_can_change_while_a_broker_runs(name: str, value: str) -> None:
    assert check_live_config(name, value) is None


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("log.retention.mss", "5", "did you mean log.retention.ms?"),
        ("retention.ms", "5", "did you mean log.retention.ms?"),
        ("node.id", "5", "restart"),
        ("listeners", "PLAINTEXT://:9092", "restart"),
        ("principal.builder.class", "a.B", "does not support"),
        ("advertised.listeners", "PLAINTEXT://here:9092", "restart"),
        ("num.replica.fetchers", "2", "restart"),
        ("group.share.max.size", "5", "restart"),
        ("producer.id.expiration.ms", "0", "from 1 to"),
        ("producer.id.expiration.ms", "many", "'many'"),
        ("log.cleanup.policy", "", "cleanup.policy must be"),
        ("log.cleaner.min.cleanable.ratio", "1e+0", "must be a number"),
        ("listener.name.internal.min.insync.replicas", "2", "one listener"),
        ("x" * 5000, "5", "no broker setting"),
    ],
)
def test_what_cannot_is_told_with_the_reason(name: str, value: str, told: str) -> None:
    reason = check_live_config(name, value)
    assert reason is not None
    assert told in reason
    assert len(reason) < 300


def test_lists_of_brokers_have_their_defaults_too() -> None:
    assert live_list_default("log.cleanup.policy") == "delete"
    assert live_list_default("log.retention.ms") is None
    assert live_list_default("no.such.key") is None
