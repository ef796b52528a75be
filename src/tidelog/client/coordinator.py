"""Who coordinates a group or a transactional id, and asking it wherever it has moved to."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tidelog.client.client import ONE_TRY_MS, Client
from tidelog.client.errors import KafkaError, check
from tidelog.client.links import ADMIN, Answered
from tidelog.core.errors import Error
from tidelog.host.ports import NetworkError
from tidelog.wire.protocol import Message
from tidelog.wire.protocol.schemas.find_coordinator_request import FindCoordinatorRequest
from tidelog.wire.protocol.schemas.find_coordinator_response import FindCoordinatorResponse

Listed = TypeVar("Listed")

OF_GROUP, OF_TRANSACTION = 0, 1

MOVED_COORDINATOR: Final = frozenset(
    (
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.NOT_COORDINATOR,
    )
)


async def find_coordinator(client: Client, kind: int, key: str) -> int:
    """The broker that coordinates it; the cluster makes the internal topic if it has none yet."""

    async def ask() -> int:
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        answer = await client.ask_any(request, FindCoordinatorResponse)
        if not answer.coordinators:  # before version 4 one key was asked for at a time
            check(answer.error_code, answer.error_message)
            return answer.node_id
        found = answer.coordinators[0]
        check(found.error_code, found.error_message)
        return found.node_id

    return await client.retrying(ask)


async def ask_every_broker(
    client: Client, ask: Callable[[int], Awaitable[list[Listed]]]
) -> list[Listed]:
    """What all brokers list together. `ask` tries one broker once; when one fails, all are asked
    again, and by then those that died are not there any more: others list what was theirs."""

    async def ask_all() -> list[Listed]:
        view = await client.brokers()
        listed = await asyncio.gather(*(ask(broker) for broker in view.brokers))
        return [each for part in listed for each in part]

    return await client.retrying(ask_all)


class Coordinator:
    """The coordinator of one group or transactional id. It is looked up when it is first needed,
    and again after it moved, is still loading, or did not answer."""

    __slots__ = ("_broker", "_client", "_key", "_kind")

    def __init__(self, client: Client, kind: int, key: str, *, broker: int | None = None) -> None:
        """`broker` is who was last known to be it."""
        self._client = client
        self._kind = kind
        self._key = key
        self._broker = broker

    async def broker(self) -> int:
        if self._broker is None:
            self._broker = await find_coordinator(self._client, self._kind, self._key)
        return self._broker

    async def ask(
        self,
        request: Message,
        expected: type[Answered],
        verdict: Callable[[Answered], None],
        *,
        purpose: str = ADMIN,
        timeout_ms: int = ONE_TRY_MS,
    ) -> Answered:
        """Until it is answered. `verdict` raises what the answer refuses."""

        async def ask() -> Answered:
            return await self.ask_once(
                request, expected, verdict, purpose=purpose, timeout_ms=timeout_ms
            )

        return await self._client.retrying(ask)

    async def ask_once(
        self,
        request: Message,
        expected: type[Answered],
        verdict: Callable[[Answered], None],
        *,
        purpose: str = ADMIN,
        timeout_ms: int = ONE_TRY_MS,
    ) -> Answered:
        """One try. After a refusal that says it has moved, the next one looks it up again."""
        broker = await self.broker()
        try:
            answer = await self._client.ask_broker(
                broker, request, expected, purpose=purpose, timeout_ms=timeout_ms
            )
            verdict(answer)
        except NetworkError:
            self._broker = None
            raise
        except KafkaError as error:
            if error.error in MOVED_COORDINATOR or error.error == Error.BROKER_NOT_AVAILABLE:
                self._broker = None
            raise
        return answer
