"""A broker's conversation with the active controller: its lifecycle, its ISR proposals, and the
admin requests of clients that it passes on.

`core` decides what is said and when; this module finds the controller, puts it on the wire and
hands the answers back, each together with the very request it answers. Three purposes have
connections of their own, because answers come in order and one must not hold up another. The one
for heartbeats is never closed while the broker lives: the controller takes its end for a hint
that the broker died.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.control import controller_messages as messages
from tidelog.broker.control.registering import Registering
from tidelog.broker.transactions.producer_ids import ProducerIds
from tidelog.core.errors import NO_ERROR
from tidelog.core.metadata.lifecycle import SHUTTING_DOWN, STARTING, BrokerLifecycle
from tidelog.core.replication.proposals import IsrProposals
from tidelog.core.requests import AlterPartitionRequest, AlterPartitionResponse, IsrProposal
from tidelog.core.types import NEVER_MS, PartitionId
from tidelog.host.ports import Network, NetworkError, RequestTimedOut
from tidelog.host.timers import pause
from tidelog.rpc import Answer, Call, Peer, envelope
from tidelog.storage.errors import DirectoryOffline
from tidelog.wire.protocol.schemas.envelope_response import EnvelopeResponse

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.config.node_config import NodeConfig
    from tidelog.host.node_host import NodeHost
    from tidelog.host.timers import Timer
    from tidelog.wire.protocol import Message

Address = tuple[str, int]
FindController = Callable[[], tuple[int, Address] | None]

FORWARD_RETRY_MS = 50
"""An election takes a few hundred; asking a voter that is none costs next to nothing."""

FORMER_CONTROLLER_MS = 5_000
"""How long what was asked of a controller is left with it when another one has been elected. It
answers as soon as it hears what became of its records, which is at once; unless it is cut off."""


class BrokerIdentity(NamedTuple):
    """What a broker is told about itself and its surroundings."""

    config: NodeConfig
    cluster_id: str
    find_controller: FindController
    previous_broker_epoch: int


class ControllerLink:
    """One per broker."""

    __slots__ = (
        "_alter_line",
        "_armed",
        "_armed_ms",
        "_find_controller",
        "_former_timer",
        "_forward_line",
        "_heartbeat_line",
        "_host",
        "_metadata",
        "_next_voter",
        "_now_ms",
        "_proposal_timer",
        "_protocols",
        "_replicas",
        "_request_timeout_ms",
        "_voters",
        "heard_ms",
        "lifecycle",
        "on_serving",
        "producer_ids",
        "proposals",
        "registering",
        "stopped",
    )

    def __init__(
        self,
        identity: BrokerIdentity,
        metadata: LocalMetadata,
        replicas: Replicas,
        host: NodeHost,
    ) -> None:
        config = identity.config
        settings, endpoints = config.lifecycle_settings(), config.broker_endpoints
        self._metadata = metadata
        self._replicas = replicas
        self._host = host
        self._now_ms = host.clock.monotonic_ms
        self._find_controller = identity.find_controller
        self.lifecycle = _lifecycle(identity, replicas, host)
        self.registering = Registering(self.lifecycle, metadata, host)
        self.on_serving: Callable[[], None] = _nothing
        """Called once, when our own registration is part of our metadata."""
        self.heard_ms = 0
        """When the active controller last granted us a session."""
        self.proposals = IsrProposals()
        self.producer_ids = ProducerIds(config.node_id, self)
        self.stopped = asyncio.Event()
        """Set when there is nothing left to say: stop."""
        self._protocols = {
            each.name: messages.PROTOCOL_NUMBERS[each.protocol or "PLAINTEXT"] for each in endpoints
        }
        self._request_timeout_ms = settings.request_timeout_ms
        self._voters: list[Address] = [
            (each.host, each.port) for each in config.voters or config.bootstrap_controllers
        ]
        assert self._voters, "a node without a controller to ask was not refused"
        self._next_voter = host.entropy.below(len(self._voters))
        name = f"broker-{config.node_id}"
        self._heartbeat_line = Line(host.to_controllers, f"{name}-heartbeat")
        self._alter_line = Line(host.to_controllers, f"{name}-alter-partition")
        self._forward_line = Line(host.to_controllers, f"{name}-forward")
        self._armed: Timer | None = None
        self._armed_ms = 0
        self._proposal_timer: Timer | None = None
        self._former_timer: Timer | None = None

    @property
    def broker_epoch(self) -> int:
        return self.lifecycle.broker_epoch

    # ---- lifecycle

    def poke(self) -> None:
        """Say what is due, and come back when the next thing is."""
        now = self._now_ms()
        applied = self._metadata.offset - 1
        request = self.lifecycle.next_request(now, applied, ready=True)
        if request is not None:
            self._send_lifecycle(request)
        self._send_proposals()
        if self.lifecycle.state == SHUTTING_DOWN:
            self.stopped.set()
            return
        self._arm(self.lifecycle.next_deadline_ms)

    def on_new_controller(self) -> None:
        """Its election is committed, so it answers."""
        self.lifecycle.on_new_controller(self._now_ms())
        if self._former_timer is not None:
            self._former_timer.cancel()
        self._former_timer = self._host.timers.after(
            FORMER_CONTROLLER_MS, self._leave_former_controllers
        )

    def begin_shutdown(self) -> None:
        """Let the controller move our leaders away; `stopped` is set when it has."""
        self.lifecycle.begin_shutdown(self._now_ms())
        self.poke()

    def close(self) -> None:
        """The end of every conversation. Who waits for a forwarded answer gets a NetworkError."""
        for timer in (self._armed, self._proposal_timer, self._former_timer):
            if timer is not None:
                timer.cancel()
        self.producer_ids.close()
        for line in (self._heartbeat_line, self._alter_line, self._forward_line):
            line.close()

    def _send_lifecycle(self, request: messages.LifecycleRequest) -> None:
        message, version = messages.lifecycle_message(request, self._protocols)
        address = self._controller()
        self._heartbeat_line.to(address).send(
            message,
            version,
            partial(self._on_lifecycle_answer, request, address),
            timeout_ms=self._request_timeout_ms,
        )

    def _on_lifecycle_answer(
        self, request: messages.LifecycleRequest, address: Address, answer: Answer
    ) -> None:
        if self._heartbeat_line.closed:
            return
        lifecycle = self.lifecycle
        if isinstance(answer, NetworkError):
            response = messages.not_answered(request)
        else:
            response = messages.lifecycle_response(answer)
        was_starting, was_registered = lifecycle.state == STARTING, lifecycle.registered
        now_ms = self._now_ms()
        if response.error is NO_ERROR:
            self.heard_ms = now_ms
        lifecycle.on_response(request, response, now_ms)
        self.registering.look(address, answer, response.error)
        if lifecycle.registered and not was_registered:
            self._note_registered(lifecycle.broker_epoch)
        if was_starting and lifecycle.state not in (STARTING, SHUTTING_DOWN):
            self.on_serving()
        self.poke()

    def _note_registered(self, broker_epoch: int) -> None:
        """From here on a crash loses nothing that others count on, if acknowledging syncs."""
        directories = self._replicas.directories
        for directory in directories.all:
            try:
                directory.note_registered(broker_epoch)
            except DirectoryOffline as error:
                directories.on_error(directory, error)

    def _arm(self, at_ms: int) -> None:
        """Keep one timer at or before the deadline; one that comes too early arms again."""
        now = self._now_ms()
        if now < self._armed_ms <= at_ms or at_ms == NEVER_MS:
            return
        if self._armed is not None:
            self._armed.cancel()
        self._armed_ms = max(at_ms, now + 1)
        self._armed = self._host.timers.add(self._armed_ms, self._timer)

    def _timer(self) -> None:
        self._armed_ms = 0
        self.poke()

    # ---- in-sync sets

    def propose(self, proposal: IsrProposal) -> None:
        self.proposals.add(proposal)
        self._send_proposals()

    def withdraw(self, partition: PartitionId) -> None:
        """This broker no longer leads the partition."""
        self.proposals.withdraw(partition)

    def _send_proposals(self) -> None:
        if not self.lifecycle.registered or self._alter_line.closed:
            return
        now = self._now_ms()
        request = self.proposals.next_request(self._metadata.own_id, self.broker_epoch, now)
        if request is not None:
            self.alter_partitions(request, partial(self._on_isr_answer, request))

    def alter_partitions(
        self,
        request: AlterPartitionRequest,
        on_response: Callable[[AlterPartitionResponse | None], None],
    ) -> None:
        """Called back once, with None if no answer came; not at all after `close`."""

        def on_answer(answer: Answer) -> None:
            if self._alter_line.closed:
                return
            if isinstance(answer, NetworkError):
                on_response(None)
            else:
                on_response(messages.alter_partition_response(answer))

        message, version = messages.alter_partition_message(request)
        self._alter_line.to(self._controller()).send(
            message, version, on_answer, timeout_ms=self._request_timeout_ms
        )

    def _on_isr_answer(
        self, request: AlterPartitionRequest, response: AlterPartitionResponse | None
    ) -> None:
        now = self._now_ms()
        if response is None:
            self.proposals.on_failure(request, now)
        else:
            replicas = self._replicas
            for result in self.proposals.on_response(request, response, now):
                hosted = replicas.hosted.get(result.partition)
                role = hosted.leader if hosted is not None else None
                if hosted is not None and role is not None:
                    replicas.perform(hosted, role.on_isr_result(result, now))
        self._retry_proposals()
        self.poke()

    def _retry_proposals(self) -> None:
        """Nothing else would come back for what has to be sent again."""
        if self.proposals.retry_at_ms > self._now_ms():
            if self._proposal_timer is not None:
                self._proposal_timer.cancel()
            self._proposal_timer = self._host.timers.add(
                self.proposals.retry_at_ms, self._send_proposals
            )

    # ---- forwarding

    async def forward(
        self, request: Message, version: int, timeout_ms: int, asker: Call | None = None
    ) -> Message:
        """The answer of the active controller. Nodes that are not it, or cannot be reached, are
        asked again until the time is over; then a NetworkError says what happened last.

        While its connection is whole, a request is sent once and waited for: also a controller that
        lost its office answers when it knows what became of it. One whose connection broke, or that
        a former controller cut off from the others still has, may have been performed: the second
        answer then says, for instance, that the topic exists. Kafka's brokers do the same.

        `asker` is whom it is for: the controller is told in an envelope. Without one this broker
        asks for itself.
        """
        asked, asked_version = request, version
        if asker is not None:
            asked, asked_version = envelope.wrapped(request, version, asker), 0
        deadline_ms = self._now_ms() + timeout_ms
        failure = NetworkError("no controller was asked")
        while (left_ms := deadline_ms - self._now_ms()) > 0:
            if self._forward_line.closed:
                raise NetworkError("this broker has stopped talking to the controller")
            address = self._controller()
            try:
                answer = await self._forward_line.to(address).ask(
                    asked, asked_version, timeout_ms=left_ms
                )
                if isinstance(answer, EnvelopeResponse):
                    answer = _opened(answer, request, version)
            except NetworkError as error:
                failure = error
            else:
                if not messages.was_not_controller(answer):
                    return answer
                failure = NetworkError(f"{address[0]}:{address[1]} is not the active controller")
            left_ms = max(deadline_ms - self._now_ms(), 1)
            await pause(self._host.timers, min(FORWARD_RETRY_MS, left_ms))
        raise RequestTimedOut(f"no answer of a controller within {timeout_ms} ms: {failure}")

    def _leave_former_controllers(self) -> None:
        """Whoever still waits there asks again: nothing says when a node that is cut off hears."""
        found = self._find_controller()
        if found is not None:
            self._forward_line.leave_all_but(found[1])

    def _controller(self) -> Address:
        """The quorum's leader if we know it, else one voter after the other."""
        found = self._find_controller()
        if found is not None:
            return found[1]
        self._next_voter = (self._next_voter + 1) % len(self._voters)
        return self._voters[self._next_voter]


def _lifecycle(identity: BrokerIdentity, replicas: Replicas, host: NodeHost) -> BrokerLifecycle:
    config = identity.config
    return BrokerLifecycle(
        config.node_id,
        identity.cluster_id,
        host.entropy.uuid(),
        identity.previous_broker_epoch,
        config.lifecycle_settings(),
        rack=config.rack,
        log_dirs=tuple(each.properties.directory_id for each in replicas.directories.all),
        endpoints=tuple((each.name, each.host, each.port) for each in config.broker_endpoints),
        draw=host.entropy.below,
    )


def _nothing() -> None: ...


def _opened(answer: EnvelopeResponse, request: Message, version: int) -> Message:
    """NetworkError if the controller did not even look at what is in the envelope."""
    if answer.error_code != NO_ERROR:
        raise NetworkError(f"the controller refuses envelopes of this broker: {answer.error_code}")
    return envelope.unwrapped(answer, request.__api_key__, version)


class Line:
    """The connections of one purpose: one to each controller that was ever asked, kept open."""

    __slots__ = ("_client_id", "_network", "_peers", "closed")

    def __init__(self, network: Network, client_id: str) -> None:
        self._network = network
        self._client_id = client_id
        self._peers: dict[Address, Peer] = {}
        self.closed = False

    def to(self, address: Address) -> Peer:
        assert not self.closed, f"{self._client_id} is closed"
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = Peer(self._network, address, self._client_id)
        return peer

    def leave_all_but(self, address: Address) -> None:
        """What waits elsewhere gets a NetworkError."""
        for other, peer in self._peers.items():
            if other != address:
                peer.close()

    def close(self) -> None:
        self.closed = True
        for peer in self._peers.values():
            peer.close()
