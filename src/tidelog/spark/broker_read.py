"""What a task of Spark's does to read records through brokers.

Batches come as the log has them; the kernel turns them into Arrow columns, so no record ever is
an object of Python. While a piece goes to Spark, the next batches are on their way.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from tidelog.client import ClientError
from tidelog.client.batch_fetch import (
    FetchSettings,
    GarbledAnswer,
    OutOfRange,
    Region,
    Span,
    fetch_spans,
)
from tidelog.client.errors import KafkaError
from tidelog.spark.client_settings import ClientSettings
from tidelog.spark.connection import connect
from tidelog.spark.failure import DataLoss, TidelogError
from tidelog.spark.ranges import OffsetRange
from tidelog.spark.security_options import UNREACHABLE_ADVICE, advice_for
from tidelog.spark.value_format import ValueFormat
from tidelog.wire.arrow import AbortedRange, Selection, decode_columns
from tidelog.wire.records import InvalidBatch

LOGGER = logging.getLogger("tidelog.spark")

AUDIT = "find the replica that is damaged with `tidelog audit replicas`"
POLL_TIMEOUT_MS = 120_000
"""As long as the stock connector waits (`kafkaConsumer.pollTimeoutMs`)."""
ACCEPT_LOSS = "set failOnDataLoss=false to go on with what is there"


class ReadPlan(NamedTuple):
    """What every task of a read knows, whatever its ranges are."""

    bootstrap: str
    client: ClientSettings
    columns: tuple[str, ...]
    committed: bool = True
    fail_on_data_loss: bool = True
    values: ValueFormat | None = None
    poll_timeout_ms: int = POLL_TIMEOUT_MS


def read_ranges(ranges: Sequence[OffsetRange], plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    """The records of these ranges in order, in pieces of about 2 MiB.

    TidelogError says what could not be read; DataLoss if it is not there any more.
    """
    spans = [Span(*each) for each in ranges if each.size > 0]
    if not spans:
        return
    connection = connect(plan.bootstrap, plan.client, plan.client.timeout_ms)
    on_loss = fail_on_loss if plan.fail_on_data_loss else go_on_after_loss
    regions = fetch_spans(connection.client, spans, _fetch_settings(plan), on_loss)

    async def step() -> tuple[Span, Region] | None:
        return await anext(regions, None)

    try:
        while (found := connection.run(step())) is not None:
            yield from region_pieces(*found, plan)
    except GarbledAnswer as error:
        raise TidelogError(str(error), AUDIT) from error
    except KafkaError as error:
        advice = advice_for(error) or "see `tidelog topic describe` for its leader and replicas"
        raise TidelogError(f"a topic cannot be read: {error}", advice) from error
    except ClientError as error:
        raise TidelogError(str(error), advice_for(error) or UNREACHABLE_ADVICE) from error
    finally:
        connection.run(regions.aclose())


def _fetch_settings(plan: ReadPlan) -> FetchSettings:
    client = plan.client
    return FetchSettings(
        committed=plan.committed,
        max_bytes=min(client.partition_max_bytes, client.fetch_max_bytes),
        min_bytes=client.min_bytes,
        max_wait_ms=client.max_wait_ms,
        timeout_ms=plan.poll_timeout_ms,
    )


def region_pieces(span: Span, region: Region, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    """The records of a region that are in the span and count."""
    values = plan.values
    selection = Selection(
        span.topic,
        span.partition,
        plan.columns if values is None else values.raw_columns(plan.columns),
        from_offset=region.from_offset,
        to_offset=span.end,
        aborted=tuple(AbortedRange(*each) for each in region.aborted),
    )
    try:
        for piece in decode_columns(region.records, region.table, selection):
            yield piece if values is None else values.made(piece, plan.columns, span.name)
    except InvalidBatch as error:
        raise TidelogError(
            f"{span.name} from offset {region.from_offset}: {error}", AUDIT
        ) from error


# ---- what is not there any more ----


def fail_on_loss(span: Span, error: KafkaError) -> int:
    raise DataLoss(_what_is_lost(span, error), ACCEPT_LOSS) from error


def go_on_after_loss(span: Span, error: KafkaError) -> int:
    """With what is there now: the log start, or nothing where the log ends before the offset."""
    LOGGER.warning("%s; it was said that this is fine", _what_is_lost(span, error))
    if isinstance(error, OutOfRange) and error.log_start_offset > span.start:
        return error.log_start_offset
    return span.end


def _what_is_lost(span: Span, error: KafkaError) -> str:
    lost = f"offsets {span.start} to {span.end - 1} of {span.name} were to be read"
    if not isinstance(error, OutOfRange):
        return f"{lost}, and there is no such partition any more"
    return f"{lost}, and it has {error.log_start_offset} to {error.log_end_offset - 1} now"
