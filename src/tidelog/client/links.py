"""Connections to brokers, and the versions that both ends speak.

Answers on a connection come in order, so what may be parked at the other end has a connection of
its own: the purpose is part of the key.
"""

from typing import NamedTuple, TypeVar

from tidelog.client.errors import KafkaError, NotTrusted
from tidelog.core.errors import Error
from tidelog.host.ports import LoginRejected, Network, NetworkError, PeerNotTrusted
from tidelog.rpc import Peer
from tidelog.wire.protocol import API_BY_KEY, Message
from tidelog.wire.protocol.schemas.api_versions_request import ApiVersionsRequest
from tidelog.wire.protocol.schemas.api_versions_response import ApiVersionsResponse

Address = tuple[str, int]
Answered = TypeVar("Answered", bound=Message)

# From the next version on, topics have ids in place of names; tools are told names.
LAST_BY_NAME = {0: 12, 1: 12, 8: 9, 9: 9}

ADMIN = "admin"
PRODUCE = "produce"
FETCH = "fetch"
GROUP = "group"


class ApiSpan(NamedTuple):
    """What one broker offers of one API."""

    key: int
    first: int
    last: int


class Links:
    """Everything a client is connected to."""

    __slots__ = ("_client_id", "_network", "_offers", "_peers")

    def __init__(self, network: Network, client_id: str) -> None:
        self._network = network
        self._client_id = client_id
        self._peers: dict[tuple[Address, str], Peer] = {}
        self._offers: dict[Address, dict[int, ApiSpan]] = {}

    async def ask(
        self,
        address: Address,
        request: Message,
        expected: type[Answered],
        *,
        purpose: str,
        timeout_ms: int,
    ) -> Answered:
        """The answer, in the newest version both ends speak."""
        version = await self.version_for(address, request.__api_key__, timeout_ms)
        try:
            answer = await self._peer(address, purpose).ask(request, version, timeout_ms=timeout_ms)
        except NetworkError as error:
            self._offers.pop(address, None)  # who comes back may speak otherwise
            raise for_good(error) from None
        assert isinstance(answer, expected), (expected, answer)
        return answer

    async def tell(self, address: Address, request: Message, *, timeout_ms: int) -> None:
        """Send a request that has no answer."""
        version = await self.version_for(address, request.__api_key__, timeout_ms)
        await self._peer(address, PRODUCE).tell(request, version)

    async def version_for(self, address: Address, key: int, timeout_ms: int) -> int:
        offers = await self.offers(address, timeout_ms)
        span = offers.get(key)
        ours = API_BY_KEY[key].full
        last = min(ours.last, LAST_BY_NAME.get(key, ours.last), span.last if span else -1)
        first = max(ours.first, span.first if span else 0)
        if last < first:
            name = API_BY_KEY[key].name
            theirs = f"offers {span.first} to {span.last}" if span else "does not offer it"
            raise KafkaError(
                Error.UNSUPPORTED_VERSION,
                f"{name} {ours.first} to {ours.last} asked for, {show(address)} {theirs}",
            )
        return last

    async def offers(self, address: Address, timeout_ms: int) -> dict[int, ApiSpan]:
        """What the broker at an address says it can do."""
        known = self._offers.get(address)
        if known is not None:
            return known
        # Version 0, because everybody answers it and nothing of the later ones is needed.
        try:
            answer = await self._peer(address, ADMIN).ask(
                ApiVersionsRequest(), 0, timeout_ms=timeout_ms
            )
        except PeerNotTrusted as error:
            raise for_good(error) from None
        assert isinstance(answer, ApiVersionsResponse), answer
        if answer.error_code:
            raise KafkaError(answer.error_code, f"{show(address)} does not say what it speaks")
        offers = {
            each.api_key: ApiSpan(each.api_key, each.min_version, each.max_version)
            for each in answer.api_keys
        }
        self._offers[address] = offers
        return offers

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    def _peer(self, address: Address, purpose: str) -> Peer:
        peer = self._peers.get((address, purpose))
        if peer is None:
            peer = self._peers[address, purpose] = Peer(self._network, address, self._client_id)
        return peer


def for_good(error: NetworkError) -> NetworkError | KafkaError | NotTrusted:
    """What no other attempt would change is no error of the network."""
    if isinstance(error, LoginRejected):
        return KafkaError(error.error_code, str(error))
    return NotTrusted(str(error)) if isinstance(error, PeerNotTrusted) else error


def show(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
