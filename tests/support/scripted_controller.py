"""A controller on a real listener that says what the test tells it to say."""

import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable

from support.loopback import loopback
from tidelog.controller.controller import ENVELOPE
from tidelog.controller.handlers import envelope
from tidelog.controller.handlers.envelope import FORWARDABLE
from tidelog.host.ports import CloseReason, PeerConnection
from tidelog.rpc import ApiTable, Call, serve
from tidelog.wire.protocol import Listener, Message
from tidelog.wire.protocol.schemas.broker_heartbeat_request import BrokerHeartbeatRequest
from tidelog.wire.protocol.schemas.broker_heartbeat_response import BrokerHeartbeatResponse
from tidelog.wire.protocol.schemas.broker_registration_request import BrokerRegistrationRequest
from tidelog.wire.protocol.schemas.broker_registration_response import BrokerRegistrationResponse

CREATE_TOPICS, ALTER_PARTITION, REGISTRATION, HEARTBEAT, ALLOCATE = 19, 56, 62, 63, 67
BROKER_EPOCH = 42

Reply = Message | Callable[[Call], None]


class ScriptedController:
    """What it was asked, and what it answers: the script of an API first, then the usual."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.closed: list[PeerConnection] = []
        self.script: dict[int, deque[Reply]] = {}
        self.usual: dict[int, Reply] = {
            REGISTRATION: BrokerRegistrationResponse(broker_epoch=BROKER_EPOCH),
            HEARTBEAT: BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False),
        }
        self.port = 0

    def says(self, api: int, *replies: Reply) -> None:
        self.script.setdefault(api, deque()).extend(replies)

    def asked(self, api: int) -> list[Message]:
        return [call.request for call in self.calls if call.header.api_key == api]

    def registrations(self) -> list[BrokerRegistrationRequest]:
        return [
            each for each in self.asked(REGISTRATION) if isinstance(each, BrokerRegistrationRequest)
        ]

    def heartbeats(self) -> list[BrokerHeartbeatRequest]:
        asked = self.asked(HEARTBEAT)
        return [each for each in asked if isinstance(each, BrokerHeartbeatRequest)]

    def connections(self, *apis: int) -> set[PeerConnection]:
        return {call.connection for call in self.calls if call.header.api_key in apis}

    def serve(self, call: Call) -> None:
        if call.header.api_key == ENVELOPE:
            every = dict.fromkeys(FORWARDABLE, self.serve)
            envelope.handle(every, call)
            return
        self.calls.append(call)
        waiting = self.script.get(call.header.api_key)
        reply = waiting.popleft() if waiting else self.usual.get(call.header.api_key, silence)
        if isinstance(reply, Message):
            call.answer(reply)
        else:
            reply(call)

    def on_closed(self, connection: PeerConnection, _: CloseReason) -> None:
        self.closed.append(connection)


def silence(_: Call) -> None:
    """No answer comes."""


def hang_up(call: Call) -> None:
    call.close()


@contextlib.asynccontextmanager
async def scripted_controller() -> AsyncIterator[ScriptedController]:
    """Closed at the end, or earlier by leaving the block."""
    controller = ScriptedController()
    apis = (ENVELOPE, CREATE_TOPICS, ALTER_PARTITION, REGISTRATION, HEARTBEAT, ALLOCATE)
    table = ApiTable(Listener.CLUSTER, dict.fromkeys(apis, controller.serve))
    async with loopback() as network:
        listener = await network.listen(
            "127.0.0.1", 0, serve(table, "CONTROLLER", on_closed=controller.on_closed)
        )
        controller.port = listener.port
        try:
            yield controller
        finally:
            await listener.stop(timeout_ms=0)
