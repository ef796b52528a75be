"""What a handler knows of the peer that asks."""

from support.loopback import loopback, run
from tidelog.core.security.principal import ANONYMOUS
from tidelog.rpc import ApiTable, Peer, serve
from tidelog.wire.protocol import API_VERSIONS, Listener
from tidelog.wire.protocol.schemas.api_versions_request import ApiVersionsRequest
from tidelog.wire.protocol.schemas.api_versions_response import ApiVersionsResponse

WAIT_MS = 60_000


def test_a_plain_text_call_is_anonymous_and_says_where_it_came_from():
    heard = []

    def handler(call):
        heard.append((call.principal, call.host, call.listener))
        call.answer(ApiVersionsResponse())

    async def story():
        async with loopback() as network:
            table = ApiTable(Listener.CLIENT, {API_VERSIONS: handler})
            listener = await network.listen("127.0.0.1", 0, serve(table, "OUTSIDE"))
            peer = Peer(network, ("127.0.0.1", listener.port), "story")
            await peer.ask(ApiVersionsRequest(), 0, timeout_ms=WAIT_MS)
            peer.close()
            await listener.stop(timeout_ms=WAIT_MS)

    run(story)
    assert heard == [(ANONYMOUS, "127.0.0.1", "OUTSIDE")]
