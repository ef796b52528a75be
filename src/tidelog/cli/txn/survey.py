"""One look at a transaction: what its coordinator knows, and where it stands in partitions."""

from typing import NamedTuple

from tidelog.client import Client, KafkaError
from tidelog.client.errors import ClientError
from tidelog.client.offsets import READ_COMMITTED, end_offsets
from tidelog.client.transactions import OpenProducer, TransactionAdmin, TransactionView
from tidelog.core.errors import Error
from tidelog.survey.refusal import nearest

UNKNOWN_ID = (Error.TRANSACTIONAL_ID_NOT_FOUND, Error.INVALID_PRODUCER_ID_MAPPING)


class TransactionPart(NamedTuple):
    """What it has done in one partition."""

    topic: str
    partition: int
    start_offset: int | None
    """None: nothing written yet, or decided already."""
    last_stable_offset: int | None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def holds(self) -> bool:
        """Whether readers of committed records wait for this transaction here."""
        return self.start_offset is not None and self.start_offset == self.last_stable_offset


async def named_transaction(client: Client, transactional_id: str) -> TransactionView:
    """With a guess, if there is none of that name."""
    admin = TransactionAdmin(client)
    try:
        return await admin.describe(transactional_id)
    except KafkaError as error:
        if error.error not in UNKNOWN_ID:
            raise
        listed = await admin.list_transactions()
        near = nearest(transactional_id, [each.transactional_id for each in listed])
        told = f"there is no transactional id {transactional_id}"
        raise KafkaError(error.error, f"{told}; did you mean {near}?" if near else told) from None


async def parts_of(client: Client, transaction: TransactionView) -> list[TransactionPart]:
    stable = await end_offsets(client, transaction.partitions, isolation=READ_COMMITTED)
    parts = []
    for topic, index in transaction.partitions:
        producer = await producer_in(client, topic, index, transaction.producer_id)
        start = producer.start_offset if producer is not None else None
        parts.append(TransactionPart(topic, index, start, stable.get((topic, index))))
    return parts


async def producer_in(
    client: Client, topic: str, index: int, producer_id: int
) -> OpenProducer | None:
    """None if its leader does not know the producer, or says nothing."""
    try:
        known = await TransactionAdmin(client).producers(topic, index)
    except ClientError:
        return None
    return next((each for each in known if each.producer_id == producer_id), None)


async def transaction_of(client: Client, producer_id: int) -> TransactionView | None:
    """The one of this producer; None if no coordinator knows it."""
    admin = TransactionAdmin(client)
    for each in await admin.list_transactions(producer_ids=[producer_id]):
        try:
            found = await admin.describe(each.transactional_id, coordinator=each.coordinator)
        except KafkaError as error:
            if error.error not in UNKNOWN_ID:
                raise
            continue  # it expired since it was listed
        if found.producer_id == producer_id:
            return found
    return None
