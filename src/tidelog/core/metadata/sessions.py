"""Leases of brokers, kept by the active controller only (kraft.md §4, §5.2).

Soft state: it is in no record, a new controller starts it afresh and gives every known
broker a full lease, because it cannot know who spoke to its predecessor. A broker lives
as long as its last contact is younger than the session timeout.

Leases of unfenced brokers stand in order of last contact, so renewing one and finding the
oldest cost the same for three brokers and for three thousand.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.core.metadata.image import BrokerRegistration, MetadataImage
from tidelog.core.metadata.records import (
    BrokerRegistrationChange,
    MetadataRecord,
    RegisterBroker,
    UnregisterBroker,
)
from tidelog.core.requests import HeartbeatRequest
from tidelog.core.types import NEVER_MS, NO_OFFSET


class Lease(NamedTuple):
    """How sure it is that the registered incarnation of a broker is alive."""

    valid: bool
    """Its last contact is younger than the session timeout."""
    connected: bool
    """A heartbeat came on a connection that has not closed since."""


class Session:
    """What the controller remembers of one incarnation of a broker."""

    __slots__ = ("broker_epoch", "connected", "contact_ms", "metadata_offset", "shutdown_offset")

    def __init__(self, broker_epoch: int, contact_ms: int) -> None:
        self.broker_epoch = broker_epoch
        self.contact_ms = contact_ms
        self.connected = False
        """Until its first heartbeat nobody knows whether it is there."""
        self.metadata_offset = NO_OFFSET
        """Last metadata offset the broker said it had applied."""
        self.shutdown_offset = NO_OFFSET
        """Newest record that took something from this broker because it is leaving."""


class Sessions:
    __slots__ = ("_leases", "_sessions", "_timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        assert timeout_ms > 0, timeout_ms
        self._timeout_ms = timeout_ms
        self._sessions: dict[int, Session] = {}
        self._leases: dict[int, Session] = {}

    def begin(self, brokers: Iterable[BrokerRegistration], newest_offset: int, now_ms: int) -> None:
        """A new claim: everybody known gets a full lease from now (k12).

        Except who was fenced on its own wish to leave: its next incarnation is welcome.
        """
        self.clear()
        for broker in brokers:
            if broker.fenced and broker.in_controlled_shutdown:
                continue
            session = self._open(broker.broker_id, broker.broker_epoch, now_ms)
            if not broker.fenced:
                self._leases[broker.broker_id] = session
            if broker.in_controlled_shutdown:
                # When it lost its last leader is forgotten; everything so far is late enough.
                session.shutdown_offset = newest_offset

    def clear(self) -> None:
        self._sessions.clear()
        self._leases.clear()

    def on_heartbeat(self, heartbeat: HeartbeatRequest, now_ms: int) -> None:
        """Renew the lease of exactly this incarnation and note how far it has come."""
        session = self._sessions.get(heartbeat.broker_id)
        if session is None or session.broker_epoch != heartbeat.broker_epoch:
            return
        self._renew(heartbeat.broker_id, session, now_ms)
        session.connected = True
        # A heartbeat that was overtaken brings an older offset.
        session.metadata_offset = max(session.metadata_offset, heartbeat.current_metadata_offset)

    def disconnected(self, broker: int, broker_epoch: int) -> None:
        """The connection that brought its heartbeats has closed. The lease goes on."""
        session = self._sessions.get(broker)
        if session is not None and session.broker_epoch == broker_epoch:
            session.connected = False

    def lease(self, broker: int, now_ms: int) -> Lease:
        session = self._sessions.get(broker)
        if session is None:
            return Lease(valid=False, connected=False)
        assert now_ms >= session.contact_ms, (now_ms, session.contact_ms)
        valid = now_ms < session.contact_ms + self._timeout_ms
        return Lease(valid, valid and session.connected)

    def session(self, broker: int) -> Session | None:
        return self._sessions.get(broker)

    def end(self, broker: int) -> None:
        """The broker said it is going, or is known to be gone: its next incarnation need not
        wait for the lease."""
        self._sessions.pop(broker, None)
        self._leases.pop(broker, None)

    def stale_broker(self, now_ms: int) -> int | None:
        """The unfenced broker that has been silent longest, if its lease has run out."""
        for broker, session in self._leases.items():
            return broker if now_ms >= session.contact_ms + self._timeout_ms else None
        return None

    @property
    def next_expiry_ms(self) -> int:
        for session in self._leases.values():
            return session.contact_ms + self._timeout_ms
        return NEVER_MS

    def lowest_active_offset(self, image: MetadataImage) -> int | None:
        """What every active broker has applied. None when there is no active broker."""
        offsets = [
            session.metadata_offset
            for broker, session in self._leases.items()
            if image.is_active(broker)
        ]
        return min(offsets) if offsets else None

    def follow(self, record: MetadataRecord, offset: int, now_ms: int) -> None:
        """Keep up with a record that was just replayed into the current image."""
        if isinstance(record, RegisterBroker):
            self._follow_registration(record, now_ms)
        elif isinstance(record, BrokerRegistrationChange):
            self._follow_change(record, offset, now_ms)
        elif isinstance(record, UnregisterBroker):
            self.end(record.broker_id)

    def _follow_registration(self, record: RegisterBroker, now_ms: int) -> None:
        session = self._sessions.get(record.broker_id)
        if session is not None and session.broker_epoch == record.broker_epoch:
            self._renew(record.broker_id, session, now_ms)  # amended, the same incarnation
            return
        assert record.fenced, record
        self.end(record.broker_id)
        self._open(record.broker_id, record.broker_epoch, now_ms)

    def _follow_change(self, record: BrokerRegistrationChange, offset: int, now_ms: int) -> None:
        if record.in_controlled_shutdown > 0:
            session = self._sessions.get(record.broker_id)
            if session is not None:
                session.shutdown_offset = offset
        if record.fenced > 0:
            self._leases.pop(record.broker_id, None)
        elif record.fenced < 0:
            # Nobody keeps the session of a broker that was taken for dead and is not.
            unfenced = self._sessions.get(record.broker_id) or self._open(
                record.broker_id, record.broker_epoch, now_ms
            )
            assert unfenced.broker_epoch == record.broker_epoch, (unfenced.broker_epoch, record)
            self._leases[record.broker_id] = unfenced

    def _renew(self, broker: int, session: Session, now_ms: int) -> None:
        assert now_ms >= session.contact_ms, (now_ms, session.contact_ms)
        session.contact_ms = now_ms
        if broker in self._leases:
            del self._leases[broker]
            self._leases[broker] = session  # the youngest stands last

    def _open(self, broker: int, broker_epoch: int, now_ms: int) -> Session:
        session = Session(broker_epoch, now_ms)
        self._sessions[broker] = session
        return session
