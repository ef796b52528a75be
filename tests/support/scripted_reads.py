"""A broker on a real listener that leads one partition and answers fetches from a script."""

import contextlib
from collections.abc import AsyncIterator, Callable

from support.loopback import loopback
from tidelog.client import Client
from tidelog.rpc import ApiTable, Call, serve
from tidelog.wire.protocol import Listener, Message
from tidelog.wire.protocol.schemas.api_versions_response import ApiVersion, ApiVersionsResponse
from tidelog.wire.protocol.schemas.fetch_request import FetchRequest
from tidelog.wire.protocol.schemas.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from tidelog.wire.protocol.schemas.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

FETCH, METADATA, API_VERSIONS = 1, 3, 18
TOPIC = "scripted"

Script = Callable[[int], PartitionData]
"""What a fetch from an offset is answered with."""


class ScriptedReads:
    """Leader of partition 0 of the topic; remembers where it was asked to read."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[int] = []
        self.address = ("", 0)
        self.table = ApiTable(
            Listener.CLIENT,
            {FETCH: self.fetch, METADATA: self.metadata, API_VERSIONS: self.api_versions},
        )

    def fetch(self, call: Call) -> None:
        assert isinstance(call.request, FetchRequest), call.request
        offset = call.request.topics[0].partitions[0].fetch_offset
        self.asked.append(offset)
        found = FetchableTopicResponse(topic=TOPIC, partitions=[self.script(offset)])
        call.answer(FetchResponse(responses=[found]))

    def metadata(self, call: Call) -> None:
        host, port = self.address
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
        )
        answer: Message = MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host=host, port=port)],
            controller_id=1,
            topics=[MetadataResponseTopic(name=TOPIC, partitions=[partition])],
        )
        call.answer(answer)

    def api_versions(self, call: Call) -> None:
        keys = [
            ApiVersion(api_key=each.key, min_version=each.first, max_version=each.last)
            for each in self.table.ranges
        ]
        call.answer(ApiVersionsResponse(api_keys=keys))


@contextlib.asynccontextmanager
async def scripted_reads(script: Script) -> AsyncIterator[tuple[ScriptedReads, Client]]:
    """The broker, and a client of it."""
    broker = ScriptedReads(script)
    async with loopback() as network:
        listener = await network.listen("127.0.0.1", 0, serve(broker.table, "PLAINTEXT"))
        broker.address = ("127.0.0.1", listener.port)
        try:
            async with Client(f"127.0.0.1:{listener.port}") as client:
                yield broker, client
        finally:
            await listener.stop(timeout_ms=0)
