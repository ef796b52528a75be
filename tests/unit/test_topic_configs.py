"""What a topic may be called and how it may be set up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.metadata import topic_configs
from tidelog.core.metadata.topic_configs import check_config, check_together
from tidelog.core.metadata.topic_names import check_topic_name, colliding_topic


def default_text(known: topic_configs.TopicConfig) -> str:
    return str(known.default).lower() if isinstance(known.default, bool) else str(known.default)


@pytest.mark.parametrize("name", topic_configs.KNOWN)
def test_every_default_is_a_value_one_could_set(name: str) -> None:
    assert check_config(name, default_text(topic_configs.KNOWN[name])) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min.insync.replicas", "2"),
        ("unclean.leader.election.enable", "TRUE"),
        ("retention.ms", "-1"),
        ("retention.bytes", " 1048576 "),
        ("segment.bytes", "1048576"),
        ("cleanup.policy", "compact,delete"),
        ("compression.type", "zstd"),
        ("message.timestamp.type", "LogAppendTime"),
        ("min.cleanable.dirty.ratio", "1"),
        ("leader.replication.throttled.replicas", "*"),
        ("follower.replication.throttled.replicas", "0:101,12:3"),
        ("follower.replication.throttled.replicas", ""),
    ],
)
def test_sensible_values_are_accepted(name: str, value: str) -> None:
    assert check_config(name, value) is None


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("min.insync.replicas", "0", "from 1 to 2147483647"),
        ("min.insync.replicas", "two", "whole number"),
        ("retention.ms", "-2", "at least -1"),
        ("retention.ms", str(2**63), "at least -1"),
        ("retention.ms", "9" * 5000, "whole number"),
        ("segment.bytes", "1048575", "from 1048576"),
        ("segment.bytes", str(2**31), "to 2147483647"),
        ("unclean.leader.election.enable", "yes", "true or false"),
        ("cleanup.policy", "", "delete, compact"),
        ("cleanup.policy", "delete,delete", "different"),
        ("cleanup.policy", "shred", "delete, compact"),
        ("compression.type", "LZ4", "lz4"),
        ("min.cleanable.dirty.ratio", "1.01", "0.0 to 1.0"),
        ("min.cleanable.dirty.ratio", "nan", "0.0 to 1.0"),
        ("min.cleanable.dirty.ratio", "1e999", "0.0 to 1.0"),
        ("leader.replication.throttled.replicas", "1:2,", "partition:broker"),
        ("leader.replication.throttled.replicas", "all", "partition:broker"),
    ],
)
def test_a_refused_value_comes_with_what_would_fit(name: str, value: str, hint: str) -> None:
    reason = check_config(name, value)
    assert reason is not None
    assert name in reason
    assert hint in reason
    assert len(reason) < 300


def test_a_typo_is_answered_with_the_nearest_name() -> None:
    assert check_config("min.insync.replica", "2") == (
        "no topic setting 'min.insync.replica', did you mean min.insync.replicas?"
    )
    assert check_config("retention.mss", "2") is not None
    assert check_config("colour", "blue") == "no topic setting 'colour'"


@given(st.sampled_from(sorted(topic_configs.KNOWN)), st.text())
def test_no_text_can_break_the_check(name: str, value: str) -> None:
    reason = check_config(name, value)
    assert reason is None or name in reason
    assert check_config(value, name) is not None or value in topic_configs.KNOWN


@given(st.integers())
def test_a_whole_number_is_read_back_as_it_was_set(number: int) -> None:
    if check_config("retention.bytes", str(number)) is None:
        assert topic_configs.int_value("retention.bytes", str(number)) == number
        assert number >= -1
    else:
        assert not -1 <= number <= 2**63 - 1


def test_values_are_read_with_their_types_and_defaults() -> None:
    assert topic_configs.int_value("min.insync.replicas", None) == 1
    assert topic_configs.int_value("min.insync.replicas", None, default=2) == 2
    assert topic_configs.int_value("min.insync.replicas", "3", default=2) == 3
    assert topic_configs.bool_value("unclean.leader.election.enable", "True") is True
    assert topic_configs.bool_value("unclean.leader.election.enable", None) is False
    assert topic_configs.bool_value("unclean.leader.election.enable", None, default=True) is True
    assert topic_configs.float_value("min.cleanable.dirty.ratio", ".25") == 0.25
    assert topic_configs.text_value("compression.type", None) == "producer"
    assert topic_configs.list_value("cleanup.policy", "compact, delete") == ("compact", "delete")


def test_a_stored_value_that_was_never_checked_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="stored without a check"):
        topic_configs.int_value("min.insync.replicas", "none")
    with pytest.raises(AssertionError, match="not a whole number"):
        topic_configs.int_value("preallocate", "1")


def test_throttled_replicas_are_listed_or_all() -> None:
    name = "leader.replication.throttled.replicas"
    listed = topic_configs.throttled_replicas(name, "0:101,1:102")
    assert listed.includes(0, 101)
    assert not listed.includes(1, 101)
    assert topic_configs.throttled_replicas(name, "*").includes(7, 7)
    assert not topic_configs.throttled_replicas(name, None).includes(0, 101)


def test_settings_that_contradict_each_other_are_refused_together() -> None:
    assert check_together({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "10"}) is None
    reason = check_together({"min.compaction.lag.ms": "11", "max.compaction.lag.ms": "10"})
    assert reason is not None
    assert "11" in reason


@pytest.mark.parametrize("name", ["a", "orders-2024.eu_west", "A" * 249, "...", "__internal"])
def test_ordinary_topic_names(name: str) -> None:
    assert check_topic_name(name) is None


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("", "needs a name"),
        (".", "directory"),
        ("..", "directory"),
        ("a" * 250, "250"),
        ("a/b", "'/'"),
        ("größe", "'ß'"),
        ("with space", "' '"),
        ("line\n", "'\\n'"),
        ("__cluster_metadata", "metadata log"),
    ],
)
def test_impossible_topic_names_come_with_a_reason(name: str, hint: str) -> None:
    reason = check_topic_name(name)
    assert reason is not None
    assert hint in reason


def test_names_that_differ_only_in_dots_and_underscores_collide() -> None:
    existing = ["orders.eu", "payments"]
    assert colliding_topic("orders_eu", existing) == "orders.eu"
    assert colliding_topic("orders.eu", existing) is None
    assert colliding_topic("orderseu", existing) is None
    assert colliding_topic("payments", existing) is None


@given(st.text("ab._", max_size=5), st.lists(st.text("ab._", max_size=5)))
def test_a_collision_is_what_replacing_every_dot_shows(name: str, existing: list[str]) -> None:
    found = colliding_topic(name, existing)
    obvious = [o for o in existing if o != name and o.replace(".", "_") == name.replace(".", "_")]
    assert (found is None) == (not obvious)
    assert found is None or found in obvious
