"""The commit of a micro-batch: all its rows and the marker that says so, in one transaction.

Whoever commits becomes the only producer of the sink first, which decides whatever an earlier
commit left open; then the marker tells whether this micro-batch is written. Nothing is guessed: a
commit whose answer was lost begins again from there.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tidelog.client import Client, ClientError, ClusterUnreachable, KafkaError
from tidelog.client.batch_producer import BatchProducer, Feeds, TopicPartition
from tidelog.client.transactional_producer import TransactionalProducer
from tidelog.client.transactions import PREPARE_COMMIT, TransactionAdmin
from tidelog.spark import marker
from tidelog.spark.client_settings import ClientSettings
from tidelog.spark.failure import TidelogError
from tidelog.spark.marker import Marker, MarkerKey, MarkerLog
from tidelog.spark.sink_refusals import FENCED, is_lasting, told
from tidelog.spark.staging import Piece, StagedRows
from tidelog.wire.records import InvalidBatch, WritableBuffer

TRIES: Final = 3
ABORT_WITHIN_S: Final = 5.0
SEEN_WITHIN_S: Final = 5.0
SEEN_POLL_S: Final = 0.002


class BatchIdentity(NamedTuple):
    """Which micro-batch it is. A number alone says nothing: a new checkpoint begins at 0 again."""

    sink_id: str
    query_id: str
    run_id: str
    """Another one each time the query is started."""
    number: int
    repeatable: bool = True
    """False: nobody will ever try to write it again, so its marker need not be kept."""

    @property
    def key(self) -> MarkerKey:
        return MarkerKey(self.sink_id, self.query_id)

    @property
    def transactional_id(self) -> str:
        return f"tidelog-spark-{self.sink_id}"


class Delivery:
    """Writes one micro-batch through a client, once."""

    __slots__ = (
        "_batch",
        "_began_s",
        "_client",
        "_fenced",
        "_markers",
        "_settings",
        "_undecided",
    )

    def __init__(
        self, client: Client, markers: MarkerLog, batch: BatchIdentity, settings: ClientSettings
    ) -> None:
        self._client = client
        self._markers = markers
        self._batch = batch
        self._settings = settings
        self._began_s = 0.0
        self._fenced = False
        """Somebody else began to write through the sink during the last try."""
        self._undecided = False
        """The end was asked for, and the answer is not known."""

    async def deliver(self, staged: Sequence[StagedRows]) -> bool:
        """False if it was written before. TidelogError if it is not, or nobody can tell."""
        if not any(each.pieces for each in staged):
            return False
        for tries_left in reversed(range(TRIES)):
            try:
                return await self._try(staged)
            except ClientError as error:
                self._fenced = isinstance(error, KafkaError) and error.error in FENCED
                if tries_left == 0 or is_lasting(error) or self._is_hopeless(error):
                    raise self._told(error) from None
            except InvalidBatch as error:
                raise TidelogError(
                    f"staged rows are not what they were: {error}", "start the query again"
                ) from None
        raise AssertionError("the last try returns or raises")

    def _is_hopeless(self, error: ClientError) -> bool:
        """Nobody answered for as long as we were to wait, and nothing was left undecided."""
        return isinstance(error, ClusterUnreachable) and not self._undecided

    def _told(self, error: ClientError) -> TidelogError:
        if self._fenced:
            return self._superseded()
        number, sink_id = self._batch.number, self._batch.sink_id
        verb = "may or may not be" if self._undecided else "is not"
        what = f"batch {number} of sink {sink_id} {verb} committed"
        return told(error, what, "start again: nothing is written twice")

    async def _try(self, staged: Sequence[StagedRows]) -> bool:
        producer = TransactionalProducer(
            self._client,
            self._batch.transactional_id,
            timeout_ms=self._settings.transaction_timeout_ms,
        )
        await producer.init()
        self._undecided = False  # now it is aborted, unless it was committed
        written = await self.read_marker()
        if written is not None and written.number >= self._batch.number:
            return False
        latest = self._markers.latest(self._batch.sink_id)
        self._refuse_if_superseded(latest)
        place = (marker.TOPIC, marker.PARTITION)
        feeds: Feeds = {**feeds_of(staged), place: [self._next_marker(latest)]}
        await producer.begin()
        self._began_s = time.monotonic()
        try:
            await self.produce(producer, feeds)
        except BaseException as error:
            await self._abort(producer)
            self._refuse_if_too_slow(error)
            raise
        self._undecided = True
        try:
            await self.end(producer)
        except KafkaError as error:
            self._refuse_if_too_slow(error)
            raise
        await self._until_seen()
        if not self._batch.repeatable:
            await self._forget()
        return True

    # ---- the steps that can fail

    async def read_marker(self) -> Marker | None:
        """How far this query has come, as the cluster knows it now."""
        await self._markers.refresh()
        return self._markers.of(self._batch.key)

    async def produce(self, producer: TransactionalProducer, feeds: Feeds) -> None:
        await producer.write_batches(feeds)

    async def end(self, producer: TransactionalProducer) -> None:
        """Without an answer it is decided, or not: the next try finds out."""
        await producer.commit()

    # ---- around them

    def _next_marker(self, latest: Marker | None) -> bytearray:
        run_id = self._batch.run_id
        superseded = latest.follows(run_id) if latest is not None else ()
        now = Marker(self._batch.number, run_id, superseded)
        return marker.encoded(self._batch.key, now, self._client.now_ms())

    def _refuse_if_superseded(self, latest: Marker | None) -> None:
        """The later of two is the one that the marker does not call superseded. Who was fenced in
        the middle of a commit knows it too, once the other has committed."""
        if latest is None or latest.run_id == self._batch.run_id:
            return
        if self._fenced or self._batch.run_id in latest.superseded:
            raise self._superseded()

    def _superseded(self) -> TidelogError:
        return TidelogError(
            f"another query writes through sink {self._batch.sink_id} since this one began",
            "stop one of the two, or give each a sinkId of its own",
        )

    def _refuse_if_too_slow(self, error: BaseException) -> None:
        """A transaction that was aborted for its age looks like one that another driver ended."""
        limit_ms = self._settings.transaction_timeout_ms
        took_ms = int((time.monotonic() - self._began_s) * 1000)
        if isinstance(error, KafkaError) and error.error in FENCED and took_ms >= limit_ms:
            raise TidelogError(
                f"writing batch {self._batch.number} took longer than the {limit_ms} ms that its"
                " transaction may take",
                "raise kafka.transaction.timeout.ms, or read less at once (maxOffsetsPerTrigger)",
            ) from None

    async def _abort(self, producer: TransactionalProducer) -> None:
        """So that readers need not wait for the timeout; whoever comes next does it otherwise."""
        try:
            await asyncio.wait_for(producer.abort(), ABORT_WITHIN_S)
        except (ClientError, TimeoutError):
            return

    async def _until_seen(self) -> None:
        """Decided is not yet visible: who reads after the write shall find it. Not for long, since
        it is decided all the same."""
        admin = TransactionAdmin(self._client)
        try:
            async with asyncio.timeout(SEEN_WITHIN_S):
                while (await admin.describe(self._batch.transactional_id)).state == PREPARE_COMMIT:
                    await asyncio.sleep(SEEN_POLL_S)
        except (ClientError, TimeoutError):
            return

    async def _forget(self) -> None:
        gone = marker.encoded(self._batch.key, None, self._client.now_ms())
        where = (marker.TOPIC, marker.PARTITION)
        try:
            await BatchProducer(self._client).write_batches({where: [gone]})
        except ClientError:
            return  # it stays, and is in nobody's way


class StagedFeed:
    """All batches of one partition, in the order of the tasks."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[tuple[StagedRows, Piece]] = []

    def add(self, rows: StagedRows, piece: Piece) -> None:
        self._pieces.append((rows, piece))

    def __iter__(self) -> Iterator[WritableBuffer]:
        return (rows.read(piece) for rows, piece in self._pieces)


def feeds_of(staged: Sequence[StagedRows]) -> dict[TopicPartition, StagedFeed]:
    feeds: dict[TopicPartition, StagedFeed] = {}
    for rows in staged:
        for piece in rows.pieces:
            feeds.setdefault((piece.topic, piece.partition), StagedFeed()).add(rows, piece)
    return feeds
