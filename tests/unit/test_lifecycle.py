"""A broker's life as the broker sees it (kraft.md §5.3)."""

import pytest

from tidelog.core.errors import Error
from tidelog.core.metadata.lifecycle import (
    BrokerLifecycle,
    LifecycleSettings,
)
from tidelog.core.requests import (
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from tidelog.core.types import NEVER_MS

INCARNATION = b"incarnation-0001"
CAUGHT_UP = HeartbeatResponse(Error.NONE, is_caught_up=True, is_fenced=True)
UNFENCED = HeartbeatResponse(Error.NONE, is_caught_up=True, is_fenced=False)


def new_broker(**changes: int) -> BrokerLifecycle:
    return BrokerLifecycle(
        1, "cluster", INCARNATION, -1, LifecycleSettings(**changes), rack="a", log_dirs=(b"d" * 16,)
    )


def registered_broker() -> BrokerLifecycle:
    broker = new_broker()
    request = broker.next_request(0, -1, ready=False)
    assert request is not None
    broker.on_response(request, RegisterBrokerResponse(Error.NONE, 40), 5)
    return broker


def running_broker() -> BrokerLifecycle:
    broker = registered_broker()
    for response in (CAUGHT_UP, UNFENCED):
        request = broker.next_request(5, 50, ready=True)
        assert request is not None
        broker.on_response(request, response, 5)
    assert broker.state == "running"
    return broker


def heartbeat(broker: BrokerLifecycle, now_ms: int, ready: bool = True) -> HeartbeatRequest:
    request = broker.next_request(now_ms, 50, ready)
    assert isinstance(request, HeartbeatRequest)
    return request


def test_a_broker_registers_catches_up_loads_its_logs_and_then_serves() -> None:
    broker = new_broker()
    request = broker.next_request(0, -1, ready=False)
    assert request == RegisterBrokerRequest(1, "cluster", INCARNATION, "a", (b"d" * 16,), -1)
    assert broker.next_request(1, -1, ready=False) is None, "one request in flight"

    broker.on_response(request, RegisterBrokerResponse(Error.NONE, 40), 5)
    assert broker.broker_epoch == 40

    first = broker.next_request(5, 12, ready=False)
    assert first == HeartbeatRequest(1, 40, 12, want_fence=True)
    broker.on_response(first, HeartbeatResponse(Error.NONE), 8)
    assert broker.state == "starting", "it has not seen its own registration yet"
    assert broker.next_deadline_ms == 18, "so it asks every 10 ms"

    second = broker.next_request(18, 40, ready=False)
    assert second is not None
    broker.on_response(second, CAUGHT_UP, 20)
    assert broker.state == "recovery"

    third = broker.next_request(20, 41, ready=False)
    assert third == HeartbeatRequest(1, 40, 41, want_fence=True), "the logs are still loading"
    broker.on_response(third, CAUGHT_UP, 22)
    assert broker.next_request(500, 41, ready=False) is None
    assert broker.next_deadline_ms == 2022

    fourth = broker.next_request(700, 42, ready=True)
    assert fourth == HeartbeatRequest(1, 40, 42), "ready: it does not wait for the timer"
    broker.on_response(fourth, UNFENCED, 703)
    assert broker.state == "running"
    assert not broker.fenced
    assert broker.next_deadline_ms == 2703


def test_a_refused_registration_is_repeated_with_a_growing_pause() -> None:
    broker = new_broker()
    now_ms = 0
    pauses = []
    for _ in range(9):
        request = broker.next_request(now_ms, -1, ready=False)
        assert isinstance(request, RegisterBrokerRequest)
        broker.on_response(
            request, RegisterBrokerResponse(Error.DUPLICATE_BROKER_REGISTRATION), now_ms
        )
        pauses.append(broker.next_deadline_ms - now_ms)
        now_ms = broker.next_deadline_ms
    assert pauses == [100, 200, 400, 800, 1600, 3200, 6400, 9000, 9000]


def test_jitter_moves_the_pause_by_two_percent_at_most() -> None:
    pauses = []
    for draw in (lambda _limit: 0, lambda limit: limit - 1):
        broker = BrokerLifecycle(1, "c", INCARNATION, -1, LifecycleSettings(), draw=draw)
        assert broker.next_request(0, -1, ready=False) is not None
        broker.on_failure(0)
        pauses.append(broker.next_deadline_ms)
    assert pauses == [98, 102]


def test_a_running_broker_never_pauses_longer_than_its_heartbeat_interval() -> None:
    broker = running_broker()
    now_ms = broker.next_deadline_ms
    for _ in range(8):
        heartbeat(broker, now_ms)
        broker.on_failure(now_ms)
        assert broker.next_deadline_ms - now_ms <= 2000
        now_ms = broker.next_deadline_ms


def test_a_broker_that_was_alone_for_two_minutes_registers_when_the_others_come() -> None:
    broker = new_broker()
    now_ms = 1000
    while now_ms < 121_000:
        assert broker.next_request(now_ms, -1, ready=False) is not None
        broker.on_failure(now_ms)
        now_ms = broker.next_deadline_ms
    assert broker.unregistered_ms(now_ms) == now_ms - 1000

    request = broker.next_request(now_ms, -1, ready=False)
    assert request is not None
    broker.on_response(request, RegisterBrokerResponse(Error.NONE, 40), now_ms)
    assert broker.unregistered_ms(now_ms) == 0
    assert isinstance(broker.next_request(now_ms, 40, ready=False), HeartbeatRequest)


def refused(broker: BrokerLifecycle, now_ms: int, error: Error) -> int:
    """When it asks again."""
    request = broker.next_request(now_ms, -1, ready=False)
    assert request is not None
    broker.on_response(request, RegisterBrokerResponse(error), now_ms)
    return broker.next_deadline_ms


def test_a_rival_that_keeps_its_lease_for_two_sessions_is_alive() -> None:
    broker = new_broker()
    now_ms = 0
    while not broker.rival_outlasts():
        now_ms = refused(broker, now_ms, Error.DUPLICATE_BROKER_REGISTRATION)
    assert now_ms >= 2 * 9000


def test_a_controller_that_falls_silent_says_nothing_about_a_rival() -> None:
    broker = new_broker()
    now_ms = refused(broker, 0, Error.DUPLICATE_BROKER_REGISTRATION)
    while now_ms < 10 * 9000:
        request = broker.next_request(now_ms, -1, ready=False)
        assert request is not None
        broker.on_failure(broker.next_deadline_ms)
        now_ms = broker.next_deadline_ms
        late = RegisterBrokerResponse(Error.BROKER_NOT_AVAILABLE)
        broker.on_response(request, late, now_ms)
        assert not broker.rival_outlasts()


@pytest.mark.parametrize("answered", [True, False])
def test_a_controller_that_stood_still_says_nothing_about_a_rival(answered: bool) -> None:
    """It refuses whatever came in before it looks at the lease of the dead process."""
    broker = new_broker()
    now_ms = refused(broker, 0, Error.DUPLICATE_BROKER_REGISTRATION)
    request = broker.next_request(now_ms, -1, ready=False)
    assert request is not None
    now_ms += 2 * 9000
    if answered:
        refusal = RegisterBrokerResponse(Error.DUPLICATE_BROKER_REGISTRATION)
        broker.on_response(request, refusal, now_ms)
    else:
        broker.on_failure(now_ms)
    begin_ms = refused(broker, broker.next_deadline_ms, Error.DUPLICATE_BROKER_REGISTRATION)
    assert not broker.rival_outlasts()
    now_ms = begin_ms
    while not broker.rival_outlasts():
        now_ms = refused(broker, now_ms, Error.DUPLICATE_BROKER_REGISTRATION)
    assert now_ms - begin_ms >= 9000


def test_only_one_and_the_same_controller_can_say_that_a_rival_is_alive() -> None:
    for interruption in ("another controller", "another answer"):
        broker = new_broker()
        now_ms = refused(broker, 0, Error.DUPLICATE_BROKER_REGISTRATION)
        while now_ms < 17_000:
            now_ms = refused(broker, now_ms, Error.DUPLICATE_BROKER_REGISTRATION)
        assert not broker.rival_outlasts()
        if interruption == "another controller":
            broker.on_new_controller(now_ms)
        else:
            now_ms = refused(broker, now_ms, Error.NOT_CONTROLLER)
        refused(broker, now_ms + 2_000, Error.DUPLICATE_BROKER_REGISTRATION)
        assert not broker.rival_outlasts()


def test_a_lost_heartbeat_is_sent_again_and_its_late_answer_counts_for_nothing() -> None:
    broker = running_broker()
    now_ms = broker.next_deadline_ms
    lost = heartbeat(broker, now_ms)
    assert broker.next_deadline_ms == now_ms + 2000
    assert broker.next_request(now_ms + 2000, 50, ready=True) is None, "first the backoff"
    again = heartbeat(broker, now_ms + 2100)
    assert again == lost
    assert again is not lost

    broker.on_response(lost, HeartbeatResponse(Error.NONE, True, is_fenced=True), now_ms + 2101)
    assert not broker.fenced
    broker.on_response(again, UNFENCED, now_ms + 2102)
    broker.on_response(again, HeartbeatResponse(Error.NONE, True, is_fenced=True), now_ms + 2103)
    assert not broker.fenced, "the second copy of an answer is ignored too"


def test_a_broker_that_was_fenced_while_running_asks_to_be_unfenced() -> None:
    broker = running_broker()
    request = heartbeat(broker, broker.next_deadline_ms)
    broker.on_response(request, CAUGHT_UP, 3000)
    assert broker.state == "running"
    assert broker.fenced
    assert not heartbeat(broker, broker.next_deadline_ms, ready=False).want_fence


def test_controlled_shutdown_asks_until_the_controller_lets_the_broker_go() -> None:
    broker = running_broker()
    broker.begin_shutdown(100)
    assert broker.state == "controlled-shutdown"
    assert broker.next_deadline_ms == 100, "at once"

    request = heartbeat(broker, 100)
    assert request.want_shut_down
    assert not request.want_fence
    broker.on_response(request, UNFENCED, 110)
    assert broker.next_deadline_ms == 160, "the first retry comes soon"

    request = heartbeat(broker, 160)
    broker.on_response(request, UNFENCED, 170)
    assert broker.next_deadline_ms == 270, "and each later one waits twice as long"

    request = heartbeat(broker, 2170)
    broker.on_response(request, HeartbeatResponse(Error.NONE, True, True, True), 2180)
    assert broker.state == "shutting-down"
    assert broker.next_request(9000, 60, ready=True) is None
    assert broker.next_deadline_ms == NEVER_MS


def test_a_broker_that_never_served_has_nothing_to_hand_over() -> None:
    broker = registered_broker()
    broker.begin_shutdown(10)
    assert broker.state == "shutting-down"


def test_a_stale_epoch_does_not_end_a_broker_it_keeps_asking() -> None:
    broker = running_broker()
    now_ms = broker.next_deadline_ms
    request = heartbeat(broker, now_ms)
    broker.on_response(request, HeartbeatResponse(Error.STALE_BROKER_EPOCH), now_ms)
    assert broker.state == "running"
    assert broker.next_deadline_ms == now_ms + 100


def test_a_new_controller_is_asked_at_once_by_a_broker_that_waited_for_one() -> None:
    broker = new_broker()
    now_ms = 0
    for _ in range(4):
        assert broker.next_request(now_ms, -1, ready=False) is not None
        broker.on_failure(now_ms)
        now_ms = broker.next_deadline_ms
    assert broker.next_request(now_ms - 1, -1, ready=False) is None
    broker.on_new_controller(now_ms - 500)
    assert broker.next_request(now_ms - 500, -1, ready=False) is not None
    broker.on_failure(now_ms - 490)
    assert broker.next_deadline_ms == now_ms - 390, "and then every 100 ms again, for a while"


def test_a_new_controller_does_not_hurry_a_heartbeat_that_is_not_due() -> None:
    broker = running_broker()
    deadline_ms = broker.next_deadline_ms
    broker.on_new_controller(100)
    assert broker.next_deadline_ms == deadline_ms
