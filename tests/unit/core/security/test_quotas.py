"""Quotas: which limit holds for whom, rates over windows, buckets of tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.security import quotas as module
from tidelog.core.security.quota_keys import (
    CONNECTION_CREATION_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
)
from tidelog.core.security.quotas import Bucket, Limit, Meter, Quotas, Windows

KEY = PRODUCER_BYTE_RATE
USER, CLIENT = "user", "client-id"
LEVELS = [
    (((CLIENT, "app"), (USER, "ann")), ("ann", "app")),
    (((CLIENT, None), (USER, "ann")), ("ann", "app")),
    (((USER, "ann"),), ("ann", "")),
    (((CLIENT, "app"), (USER, None)), ("ann", "app")),
    (((CLIENT, None), (USER, None)), ("ann", "app")),
    (((USER, None),), ("ann", "")),
    (((CLIENT, "app"),), ("", "app")),
    (((CLIENT, None),), ("", "app")),
]


def test_the_most_specific_limit_holds():
    quotas = Quotas()
    for bound, (entity, _) in enumerate(reversed(LEVELS), 1):
        quotas.change(entity, KEY, float(bound))
    for bound, (entity, counted) in reversed(list(enumerate(reversed(LEVELS), 1))):
        assert quotas.limit(KEY, "ann", "app") == Limit(bound, *counted)
        quotas.change(entity, KEY, None)
    assert quotas.limit(KEY, "ann", "app") is None
    assert not quotas


def test_a_limit_of_another_kind_does_not_hide_one():
    quotas = Quotas()
    quotas.load({LEVELS[0][0]: {"consumer_byte_rate": 1.0}, LEVELS[-1][0]: {KEY: 7.0}})
    assert quotas.limit(KEY, "ann", "app") == Limit(7.0, "", "app")


def test_a_burst_is_read_over_ten_seconds():
    meter = Meter(Windows())
    meter.record(10_000, 0)
    assert meter.throttle_ms(1_000, 0) == 0, "10,000 bytes in 10 s are 1,000 a second"
    meter.record(2_000, 0)
    assert meter.throttle_ms(1_000, 0) == 2_000
    assert meter.throttle_ms(1_000, 500) == 1_500, "of a window that is not over all of it counts"


def test_what_was_long_ago_is_forgotten():
    meter = Meter(Windows())
    meter.record(1_000_000, 0)
    assert meter.throttle_ms(1, 10_999) > 0
    assert meter.throttle_ms(1, 11_000) == 0


@given(
    st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 5_000)), max_size=60),
    st.sampled_from([100.0, 1_000.0]),
)
def test_whoever_waits_as_told_stays_within_the_limit(uses, bound):
    """Over any ten seconds, but for the one use that went over it: a young meter lets a burst of
    ten seconds pass, and what comes while the windows fill."""
    meter, now_ms, done = Meter(Windows()), 0, []
    for pause_ms, amount in uses:
        now_ms += pause_ms
        meter.record(amount, now_ms)
        done.append((now_ms, amount))
        recent = sum(each for at, each in done[:-1] if at > now_ms - 10_000)
        assert recent <= bound * 12 + max(each for _, each in done)
        now_ms += meter.throttle_ms(bound, now_ms)


def test_a_bucket_lets_a_burst_pass_and_then_the_rate():
    bucket = Bucket(Windows(11, 1_000), 2.0, 0)
    bucket.take(22, 2.0, 0)
    assert bucket.throttle_ms(2.0, 0) == 0
    bucket.take(3, 2.0, 0)
    assert bucket.throttle_ms(2.0, 0) == 1_500
    assert bucket.throttle_ms(2.0, 1_000) == 500
    assert bucket.throttle_ms(2.0, 60_000) == 0
    bucket.take(23, 2.0, 60_000)
    assert bucket.throttle_ms(2.0, 60_000) == 500, "never more than it holds"


def test_clients_of_one_user_count_together():
    quotas = Quotas()
    quotas.change(((USER, "ann"),), KEY, 1_000.0)
    for client in ("a", "b"):
        limit = quotas.limit(KEY, "ann", client)
        waits = quotas.use(KEY, limit, 10_000, 0)
    assert waits == 10_000
    other = quotas.limit(KEY, "bob", "a")
    assert other is None


def test_addresses_have_limits_for_connections():
    quotas = Quotas()
    assert quotas.connect("10.0.0.1", 0) == 0
    quotas.change((("ip", None),), CONNECTION_CREATION_RATE, 1.0)
    quotas.change((("ip", "10.0.0.9"),), CONNECTION_CREATION_RATE, 100.0)
    assert [quotas.connect("10.0.0.1", 0) for _ in range(12)] == [0] * 10 + [1_000, 2_000]
    assert quotas.connect("10.0.0.2", 0) == 0
    assert [quotas.connect("10.0.0.9", 0) for _ in range(12)] == [0] * 12


def test_mutations_wait_when_the_bucket_is_empty():
    quotas = Quotas(Windows(2, 1_000))
    quotas.change(((USER, "ann"),), CONTROLLER_MUTATION_RATE, 1.0)
    limit = quotas.limit(CONTROLLER_MUTATION_RATE, "ann", "tool")
    assert quotas.mutation_wait_ms(CONTROLLER_MUTATION_RATE, limit, 0) == 0
    quotas.mutate(CONTROLLER_MUTATION_RATE, limit, 5, 0)
    assert quotas.mutation_wait_ms(CONTROLLER_MUTATION_RATE, limit, 0) == 3_000
    assert quotas.mutation_wait_ms(CONTROLLER_MUTATION_RATE, limit, 3_000) == 0


def test_made_up_client_ids_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(module, "METERS_MAX", 10)
    quotas = Quotas()
    quotas.change(((CLIENT, None),), KEY, 1.0)
    for number in range(100):
        limit = quotas.limit(KEY, "ann", f"made up {number}")
        assert quotas.use(KEY, limit, 5, 0) == 0
        assert len(quotas._meters) <= 10


@pytest.mark.parametrize("count", [1, 2, 11])
def test_windows_of_any_number_measure(count):
    meter = Meter(Windows(count, 1_000))
    meter.record(100, 0)
    meter.record(100, 500)
    assert meter.throttle_ms(1.0, 500) > 0
