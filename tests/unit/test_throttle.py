"""Throttled replication: catching up may be slowed down, being in sync never."""

import pytest

from tidelog.core.replication.throttle import (
    UNKNOWN_LAG,
    ReplicationThrottle,
    parse_throttled_replicas,
    should_throttle_follower,
    should_throttle_leader,
)


def test_an_unused_meter_is_within_its_quota() -> None:
    assert not ReplicationThrottle(1).over_quota(0)


def test_one_burst_is_not_a_rate() -> None:
    throttle = ReplicationThrottle(1_000)
    throttle.record(10_000, 0)
    assert not throttle.over_quota(0)
    throttle.record(1, 0)
    assert throttle.over_quota(0)


def test_a_steady_stream_at_the_limit_passes_and_above_it_does_not() -> None:
    steady, fast = ReplicationThrottle(1_000), ReplicationThrottle(1_000)
    for second in range(60):
        now_ms = second * 1_000
        steady.record(900, now_ms)
        fast.record(1_200, now_ms)
        assert not steady.over_quota(now_ms + 999)
    assert fast.over_quota(60_000)


def test_old_windows_are_forgotten() -> None:
    throttle = ReplicationThrottle(1_000)
    throttle.record(1_000_000, 500)
    assert throttle.over_quota(10_999)
    assert not throttle.over_quota(11_000)


def test_the_rate_can_be_changed_live() -> None:
    throttle = ReplicationThrottle()
    throttle.record(1 << 40, 0)
    assert not throttle.over_quota(0)
    throttle.rate_bytes = 1_000
    assert throttle.over_quota(0)


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("over_quota", [True, False])
def test_the_leader_slows_down_listed_replicas_that_are_not_in_sync(
    listed: bool, over_quota: bool
) -> None:
    assert not should_throttle_leader(listed=listed, over_quota=over_quota, in_sync=True)
    slowed = should_throttle_leader(listed=listed, over_quota=over_quota, in_sync=False)
    assert slowed == (listed and over_quota)


@pytest.mark.parametrize(("lag", "lags"), [(0, False), (1, True), (UNKNOWN_LAG, True)])
def test_a_follower_slows_down_only_while_it_lags(lag: int, lags: bool) -> None:
    assert should_throttle_follower(listed=True, over_quota=True, lag=lag) == lags
    assert not should_throttle_follower(listed=False, over_quota=True, lag=lag)
    assert not should_throttle_follower(listed=True, over_quota=False, lag=lag)


def test_lists_name_partition_and_broker() -> None:
    throttled = parse_throttled_replicas("0:101, 3:102")
    assert (0, 101) in throttled
    assert (3, 102) in throttled
    assert (0, 102) not in throttled
    assert (7, 1) in parse_throttled_replicas(" * ")
    assert (7, 1) not in parse_throttled_replicas("")


@pytest.mark.parametrize("text", ["0", "0:", "x:1", "0:1;1:2", ","])
def test_other_lists_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        parse_throttled_replicas(text)
