"""What the driver asks a cluster before anything is read, in as few questions as it takes."""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

from tidelog.client import Admin, Client, ClientError, KafkaError, NotTrusted
from tidelog.client.groups import GroupAdmin
from tidelog.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, find_offsets
from tidelog.core.errors import Error
from tidelog.spark.connection import Connection, connect
from tidelog.spark.failure import TidelogError
from tidelog.spark.ranges import Offsets, TopicPartition
from tidelog.spark.security_options import UNREACHABLE_ADVICE, advice_for
from tidelog.spark.source_options import Place, SourceOptions
from tidelog.spark.start_offsets import Bounds, Resolved, resolve
from tidelog.spark.topics import Seen, look

Result = TypeVar("Result")

SHORTEST_TRY_MS = 1_000


class Lookup:
    """Asks again as `fetchOffset.…` says. All tries together take the client's timeout and the
    pauses between them; whatever is wrong then is one line."""

    __slots__ = ("_connection", "_options")

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._connection: Connection | None = None

    def seen(self) -> Seen:
        return self.ask(lambda client: look(client, self._options.subscription))

    def resolve(self, log: Bounds, place: Place) -> Resolved:
        isolation = self._isolation
        return self.ask(lambda client: resolve(client, log, place, isolation=isolation))

    def log_starts(self, partitions: Collection[TopicPartition]) -> Offsets:
        return self.ask(lambda client: self._find(client, partitions, EARLIEST))

    def ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The end of what may be read: the last stable offset, or the high watermark."""
        return self.ask(lambda client: self._find(client, partitions, LATEST))

    def bounds(self, partitions: Collection[TopicPartition]) -> Bounds:
        async def find(client: Client) -> dict[TopicPartition, tuple[int, int]]:
            starts, ends = await asyncio.gather(
                self._find(client, partitions, EARLIEST), self._find(client, partitions, LATEST)
            )
            return {where: (starts[where], ends[where]) for where in partitions}

        return self.ask(find)

    def offset_bytes(self, log: Bounds) -> dict[TopicPartition, float]:
        """What an offset of each partition weighs on disk, on average."""

        async def find(client: Client) -> dict[TopicPartition, float]:
            leaders = {(await client.partition(*where)).leader for where in log}
            sizes: dict[TopicPartition, int] = {}
            for leader in sorted(each for each in leaders if each is not None):
                for replica in await Admin(client).log_dirs(leader):
                    where = (replica.topic, replica.partition)
                    sizes[where] = max(sizes.get(where, 0), replica.size_bytes)
            return {
                where: sizes.get(where, 0) / max(1, end - start)
                for where, (start, end) in log.items()
            }

        return self.ask(lambda client: client.retrying(lambda: find(client)))

    def commit(self, group: str, offsets: Offsets) -> None:
        """For tools that show how far a group is."""
        self.ask(lambda client: GroupAdmin(client).move(group, offsets))

    def ask(self, work: Callable[[Client], Coroutine[Any, Any, Result]]) -> Result:
        retries = self._options.lookups.retries
        if self._connection is None:
            share_ms = self._options.client.timeout_ms // (retries + 1)
            self._connection = connect(
                self._options.bootstrap,
                self._options.client,
                max(SHORTEST_TRY_MS, share_ms),
            )
        while True:
            try:
                return self._connection.run(work(self._connection.client))
            except ClientError as error:
                if not retries or not _may_pass(error):
                    raise as_failure(error) from error
            retries -= 1
            time.sleep(self._options.lookups.interval_ms / 1000)

    async def _find(
        self, client: Client, partitions: Collection[TopicPartition], when: int
    ) -> Offsets:
        times = dict.fromkeys(partitions, when)
        found = await find_offsets(client, times, isolation=self._isolation)
        return {where: each.offset for where, each in found.items()}

    @property
    def _isolation(self) -> int:
        return READ_COMMITTED if self._options.committed else READ_UNCOMMITTED


class NoSuchPartition(TidelogError):  # noqa: N818 - says what is so
    """A partition that was there is not there any more."""


def _may_pass(error: ClientError) -> bool:
    if isinstance(error, KafkaError):
        return error.is_passing
    return not isinstance(error, NotTrusted)


def as_failure(error: ClientError) -> TidelogError:
    """What a client could not do, in one line."""
    words = " ".join(str(error).split())
    if isinstance(error, KafkaError) and error.error == Error.UNKNOWN_TOPIC_OR_PARTITION:
        return NoSuchPartition(
            f"a partition is not there any more: {words}", "see `tidelog topic list`"
        )
    advice = advice_for(error)
    if advice is not None:
        return TidelogError(f"the cluster refuses this query: {words}", advice)
    if isinstance(error, KafkaError):
        return TidelogError(
            f"the cluster does not answer what the driver must know: {words}",
            "see `tidelog topic describe` for leaders and replicas",
        )
    return TidelogError(words, UNREACHABLE_ADVICE)
