"""The broker's side of its own life: register, catch up, serve, leave (kraft.md §5.3).

    starting --caught up--> recovery --unfenced--> running --begin_shutdown--> controlled-shutdown
        \\_______________________|____begin_shutdown____|                           |
                                                       \\--> shutting-down <--------/

One request is in flight at most. The network loses, duplicates and reorders, so a request
that was not answered in time is sent again, and only the answer to the request in flight
counts. A repeated registration is harmless: the controller knows the incarnation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.requests import (
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from tidelog.core.types import NEVER_MS, NO_EPOCH

STARTING = "starting"
RECOVERY = "recovery"
RUNNING = "running"
CONTROLLED_SHUTDOWN = "controlled-shutdown"
SHUTTING_DOWN = "shutting-down"

CATCH_UP_INTERVAL_MS = 10
"""Until the broker has seen its own registration, nothing else can go on: ask often."""

FIRST_SHUTDOWN_RETRY_MS = 50
"""Moving leaders away usually takes one commit; further questions wait twice as long each."""

JITTER_PERCENT = 2
"""Many brokers lose one controller at the same moment; they should not return in step."""


RIVAL_SESSIONS = 2
"""After so many session timeouts a rival that still has its lease renews it."""


class Registration(NamedTuple):
    """What the broker says of itself."""

    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    previous_broker_epoch: int
    rack: str | None
    log_dirs: tuple[bytes, ...]
    endpoints: tuple[tuple[str, str, int], ...]


@dataclass(slots=True)
class LifecycleSettings:
    heartbeat_interval_ms: int = 2000
    session_timeout_ms: int = 9000
    retry_backoff_ms: int = 100
    request_timeout_ms: int = 2000


def no_jitter(limit: int) -> int:
    """The middle of the range: exactly the nominal backoff."""
    return limit // 2


class BrokerLifecycle:
    """Decides what this broker tells the active controller next, and when.

    `previous_broker_epoch` is -1 unless every log directory was closed cleanly by the
    incarnation with that epoch: it is how the controller learns that nothing was lost.
    """

    __slots__ = (
        "_attempts",
        "_draw",
        "_first_attempt_ms",
        "_in_flight",
        "_next_send_ms",
        "_ready_told",
        "_refused_ms",
        "_registration",
        "_rival_since_ms",
        "_sent_ms",
        "_settings",
        "_shutdown_answers",
        "broker_epoch",
        "fenced",
        "state",
    )

    def __init__(
        self,
        broker_id: int,
        cluster_id: str,
        incarnation_id: bytes,
        previous_broker_epoch: int,
        settings: LifecycleSettings,
        *,
        rack: str | None = None,
        log_dirs: tuple[bytes, ...] = (),
        endpoints: tuple[tuple[str, str, int], ...] = (),
        draw: Callable[[int], int] = no_jitter,
    ) -> None:
        self._registration = Registration(
            broker_id, cluster_id, incarnation_id, previous_broker_epoch, rack, log_dirs, endpoints
        )
        self._settings = settings
        self._draw = draw
        self.state = STARTING
        self.broker_epoch = NO_EPOCH
        self.fenced = True
        self._in_flight: RegisterBrokerRequest | HeartbeatRequest | None = None
        self._sent_ms = 0
        self._next_send_ms = 0
        self._first_attempt_ms = -1
        self._rival_since_ms = -1
        self._refused_ms = -1
        self._attempts = 0
        self._ready_told = False
        self._shutdown_answers = 0

    @property
    def incarnation_id(self) -> bytes:
        return self._registration.incarnation_id

    @property
    def registered(self) -> bool:
        return self.broker_epoch != NO_EPOCH

    def unregistered_ms(self, now_ms: int) -> int:
        """How long this broker has been trying to register; 0 once it has.

        It tries for as long as it lives. Kafka's broker exits after a while; here a node that
        was started long before the others has to become a broker when they come.
        """
        if self.registered or self._first_attempt_ms < 0:
            return 0
        assert now_ms >= self._first_attempt_ms, (now_ms, self._first_attempt_ms)
        return now_ms - self._first_attempt_ms

    def rival_outlasts(self) -> bool:
        """One controller has refused us for longer than the lease of a dead process lasts: the
        process that is registered under our id is alive. The time after its last refusal does
        not count: a controller that says nothing says nothing about a rival."""
        longest_ms = RIVAL_SESSIONS * self._settings.session_timeout_ms
        return self._rival_since_ms >= 0 and self._refused_ms - self._rival_since_ms >= longest_ms

    @property
    def next_deadline_ms(self) -> int:
        """When to call `next_request` again if nothing arrives."""
        if self.state == SHUTTING_DOWN:
            return NEVER_MS
        if self._in_flight is not None:
            return self._sent_ms + self._settings.request_timeout_ms
        return self._next_send_ms

    def next_request(
        self, now_ms: int, metadata_offset: int, ready: bool
    ) -> RegisterBrokerRequest | HeartbeatRequest | None:
        """What to send now, if anything. `metadata_offset` is the last *applied* offset;
        `ready` says that the logs are loaded and the broker could serve."""
        if self._in_flight is not None and now_ms >= self.next_deadline_ms:
            self.on_failure(now_ms)
        if self.state == SHUTTING_DOWN or self._in_flight is not None:
            return None
        if self._first_attempt_ms < 0:
            self._first_attempt_ms = now_ms
        if ready and not self._ready_told and self.state == RECOVERY:
            self._next_send_ms = now_ms  # being able to serve should not wait for a timer
        if now_ms < self._next_send_ms:
            return None
        return self._send(now_ms, metadata_offset, ready)

    def on_response(
        self,
        request: RegisterBrokerRequest | HeartbeatRequest,
        response: RegisterBrokerResponse | HeartbeatResponse,
        now_ms: int,
    ) -> None:
        """`request` is the very object that `next_request` returned for this answer."""
        if request is not self._in_flight:
            return  # a late or second answer to something already given up
        if response.error == Error.DUPLICATE_BROKER_REGISTRATION:
            # A controller that stood still did not end the lease of a dead process meanwhile.
            stood_still = now_ms - self._sent_ms > self._settings.session_timeout_ms // 2
            if self._rival_since_ms < 0 or stood_still:
                self._rival_since_ms = now_ms
            self._refused_ms = now_ms
        else:
            self._rival_since_ms = -1
        if response.error != Error.NONE:
            self._try_later(now_ms)
            return
        self._in_flight = None
        self._attempts = 0
        if isinstance(response, RegisterBrokerResponse):
            assert not self.registered, (self.broker_epoch, response.broker_epoch)
            self.broker_epoch = response.broker_epoch
            self._next_send_ms = now_ms
        else:
            self._on_heartbeat(response, now_ms)

    def on_failure(self, now_ms: int) -> None:
        """No answer: try again later. Whether a rival has kept its lease meanwhile is not known."""
        if self._in_flight is not None:
            self._rival_since_ms = -1
            self._try_later(now_ms)

    def _try_later(self, now_ms: int) -> None:
        """Each time a little later."""
        self._in_flight = None
        self._next_send_ms = now_ms + self._backoff_ms()
        self._attempts += 1

    def on_new_controller(self, now_ms: int) -> None:
        """A hint: somebody else may answer now. What waits only because nobody did goes at once."""
        if self._attempts and self._in_flight is None:
            self._next_send_ms = now_ms
        self._attempts = 0
        self._rival_since_ms = -1  # it has given everybody a fresh lease, also the dead

    def begin_shutdown(self, now_ms: int) -> None:
        """Ask the controller to move our leaders first; without it there is nothing to move."""
        if self.state == RUNNING:
            self.state = CONTROLLED_SHUTDOWN
            self._next_send_ms = now_ms
        elif self.state in (STARTING, RECOVERY):
            self.state = SHUTTING_DOWN

    def _send(
        self, now_ms: int, metadata_offset: int, ready: bool
    ) -> RegisterBrokerRequest | HeartbeatRequest:
        self._sent_ms = now_ms
        if not self.registered:
            self._in_flight = self._register_request()
            return self._in_flight
        heartbeat = HeartbeatRequest(
            self._registration.broker_id,
            self.broker_epoch,
            metadata_offset,
            want_fence=self._wants_fence(ready),
            want_shut_down=self.state == CONTROLLED_SHUTDOWN,
        )
        self._ready_told = not heartbeat.want_fence
        self._in_flight = heartbeat
        return heartbeat

    def _wants_fence(self, ready: bool) -> bool:
        """Stay fenced until the logs are loaded; once running only the controller fences."""
        if self.state == STARTING:
            return True
        return self.state == RECOVERY and not ready

    def _register_request(self) -> RegisterBrokerRequest:
        own = self._registration
        return RegisterBrokerRequest(
            own.broker_id,
            own.cluster_id,
            own.incarnation_id,
            rack=own.rack,
            log_dirs=own.log_dirs,
            previous_broker_epoch=own.previous_broker_epoch,
            endpoints=own.endpoints,
        )

    def _on_heartbeat(self, response: HeartbeatResponse, now_ms: int) -> None:
        assert self.registered, (self.broker_epoch, response)
        self.fenced = response.is_fenced
        self._next_send_ms = now_ms + self._settings.heartbeat_interval_ms
        if self.state == STARTING:
            if response.is_caught_up:
                self.state = RECOVERY
                self._next_send_ms = now_ms
            else:
                self._next_send_ms = now_ms + CATCH_UP_INTERVAL_MS
        elif self.state == RECOVERY:
            if not response.is_fenced:
                self.state = RUNNING
        elif self.state == CONTROLLED_SHUTDOWN:
            self._on_shutdown_answer(response, now_ms)

    def _on_shutdown_answer(self, response: HeartbeatResponse, now_ms: int) -> None:
        if response.should_shut_down:
            self.state = SHUTTING_DOWN
            return
        retry_ms = FIRST_SHUTDOWN_RETRY_MS << min(self._shutdown_answers, 16)
        self._shutdown_answers += 1
        self._next_send_ms = now_ms + min(retry_ms, self._settings.heartbeat_interval_ms)

    def _backoff_ms(self) -> int:
        """100 ms, doubled up to the session timeout, moved by at most 2 % either way.

        A registered broker waits no longer than its heartbeat interval: a new controller
        gives it one fresh lease, and a long backoff must not sleep through it.
        """
        settings = self._settings
        longest_ms = (
            settings.heartbeat_interval_ms if self.registered else settings.session_timeout_ms
        )
        # The shift is capped because a broker may wait for days: 100 << 40 helps nobody.
        backoff_ms = min(settings.retry_backoff_ms << min(self._attempts, 16), longest_ms)
        spread_ms = backoff_ms * JITTER_PERCENT // 100
        jittered_ms = backoff_ms - spread_ms + self._draw(2 * spread_ms + 1)
        assert jittered_ms >= 0, (jittered_ms, backoff_ms)
        return jittered_ms
