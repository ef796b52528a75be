"""Why readers of committed records wait: whose transaction holds the last stable offset."""

from typing import Any, NamedTuple

from tidelog.cli.output import plural
from tidelog.cli.times import moment, passed
from tidelog.cli.txn.survey import transaction_of
from tidelog.client import Client, KafkaError
from tidelog.client.errors import ClientError
from tidelog.client.offsets import LATEST, READ_COMMITTED, find_offset
from tidelog.client.transactions import OpenProducer, TransactionAdmin, TransactionView
from tidelog.core.errors import Error


class Held(NamedTuple):
    last_stable_offset: int
    high_watermark: int
    producer: OpenProducer | None
    """None: the leader did not say, or it was decided while we asked."""
    transaction: TransactionView | None
    """None: no coordinator knows the producer."""
    others: int
    """Transactions that are open in the partition beside it."""

    @property
    def is_hanging(self) -> bool:
        """Whether nobody will ever end it."""
        return self.producer is not None and self.transaction is None


async def what_holds(client: Client, topic: str, index: int, high_watermark: int) -> Held | None:
    """None if nothing does, or if the cluster cannot be asked about it."""
    try:
        stable = (await find_offset(client, topic, index, LATEST, isolation=READ_COMMITTED)).offset
        if stable >= high_watermark:
            return None
        known = await TransactionAdmin(client).producers(topic, index)
    except KafkaError as error:
        if error.error == Error.UNSUPPORTED_VERSION:
            return None
        raise
    begun = [(each.start_offset, each) for each in known if each.start_offset is not None]
    if not begun:
        return Held(stable, high_watermark, None, None, 0)
    _, producer = min(begun, key=lambda pair: pair[0])
    transaction = await _known_transaction(client, producer)
    return Held(stable, high_watermark, producer, transaction, len(begun) - 1)


async def _known_transaction(client: Client, producer: OpenProducer) -> TransactionView | None:
    try:
        return await transaction_of(client, producer.producer_id)
    except ClientError:
        return None


def held_sentences(held: Held, now_ms: int) -> list[str]:
    behind = plural(held.high_watermark - held.last_stable_offset, "record")
    told = f"Readers of committed records stop at {held.last_stable_offset}, {behind} before that"
    if held.producer is None:
        return [f"{told}: a transaction was open there when this was asked."]
    who = f"producer {held.producer.producer_id}, epoch {held.producer.producer_epoch}"
    sentences = [f"{told}, because {who} has a transaction open since there."]
    if held.transaction is None:
        last = held.producer.last_timestamp_ms
        since = f", and it wrote last at {moment(last)}" if last >= 0 else ""
        sentences.append(f"No coordinator knows that producer{since}: the transaction hangs.")
    else:
        sentences.append(_fate(held.transaction, now_ms))
    if held.others:
        sentences.append(f"{plural(held.others, 'more transaction')} began after it.")
    return sentences


def _fate(transaction: TransactionView, now_ms: int) -> str:
    name, coordinator = transaction.transactional_id, transaction.coordinator
    told = f"It is {transaction.state} under the transactional id {name} at coordinator"
    started, aborted_at = transaction.start_ms, transaction.aborted_at_ms
    if started is None:
        return f"{told} {coordinator}: its end marker has not been written here yet."
    told = f"{told} {coordinator} since {moment(started)} ({passed(started, now_ms)})"
    if aborted_at is None:
        return f"{told}, and decided: its end marker is on the way."
    return f"{told}, and aborted at {moment(aborted_at)} unless it ends before."


def held_command(held: Held, partition: str) -> str:
    if held.is_hanging:
        return f"tidelog txn abort --partition {partition} --start-offset {held.last_stable_offset}"
    if held.transaction is not None:
        return f"tidelog txn describe {held.transaction.transactional_id}"
    return f"tidelog explain {partition}"


def held_document(held: Held) -> dict[str, Any]:
    producer, transaction = held.producer, held.transaction
    started = None if transaction is None else transaction.start_ms
    aborted_at = None if transaction is None else transaction.aborted_at_ms
    return {
        "producer_id": None if producer is None else producer.producer_id,
        "producer_epoch": None if producer is None else producer.producer_epoch,
        "start_offset": None if producer is None else producer.start_offset,
        "transactional_id": None if transaction is None else transaction.transactional_id,
        "state": None if transaction is None else transaction.state,
        "started": None if started is None else moment(started),
        "aborted_at": None if aborted_at is None else moment(aborted_at),
        "hanging": held.is_hanging,
    }
