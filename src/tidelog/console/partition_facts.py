"""Who reads and who writes a partition, as the user's own client may know it."""

import asyncio

from tidelog.client import Client
from tidelog.client.errors import ClientError
from tidelog.client.groups import GroupAdmin, ListedGroup
from tidelog.client.transactions import TransactionAdmin
from tidelog.console.live import Document
from tidelog.host.ports import NetworkError

MOST_GROUPS = 50
ANSWER_WITHIN_SECONDS = 0.5
SHOWN_PRODUCERS = 20


async def facts_of(client: Client, topic: str, index: int) -> Document:
    """Nothing, if the cluster has no time for it: during an election the picture must not wait."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN_SECONDS):
            consumers, producers = await asyncio.gather(
                consumers_of(client, topic, index), producers_of(client, topic, index)
            )
    except TimeoutError:
        return {"consumers": [], "producers": []}
    return {"consumers": consumers, "producers": producers}


async def consumers_of(client: Client, topic: str, index: int) -> list[Document]:
    """Groups that have committed an offset here."""
    try:
        groups = (await GroupAdmin(client).list_groups())[:MOST_GROUPS]
    except (ClientError, NetworkError):
        return []
    found = await asyncio.gather(*(_committed(client, each, topic, index) for each in groups))
    return [
        {"group": each.group_id, "offset": offset}
        for each, offset in zip(groups, found, strict=True)
        if offset is not None
    ]


async def _committed(client: Client, group: ListedGroup, topic: str, index: int) -> int | None:
    try:
        committed = await GroupAdmin(client).committed(
            group.group_id, [(topic, index)], coordinator=group.coordinator
        )
    except (ClientError, NetworkError):
        return None
    return committed[topic, index].offset if (topic, index) in committed else None


async def producers_of(client: Client, topic: str, index: int) -> list[Document]:
    """Those that the leader remembers."""
    try:
        found = await TransactionAdmin(client).producers(topic, index)
    except (ClientError, NetworkError):
        return []
    return [
        {
            "producer_id": each.producer_id,
            "epoch": each.producer_epoch,
            "last_sequence": each.last_sequence,
            "last_timestamp_ms": each.last_timestamp_ms,
            "transaction_start": each.start_offset,
        }
        for each in found[:SHOWN_PRODUCERS]
    ]
