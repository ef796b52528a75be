"""Batches that clients sent in this turn of the event loop, to be appended at its end.

On a busy broker one turn brings requests of many connections for the same few partitions. What
an append costs beside its bytes, a write to the file, a look at the high watermark, waking those
who wait for records, is then paid once per partition and turn. Nothing is decided about a batch
before its turn ends: it is as if all these requests had come a moment later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.broker.hosted import Hosted
    from tidelog.broker.open_produce import OpenPartition, OpenProduce
    from tidelog.wire.records import BatchHeader, Buffer


class Offered(NamedTuple):
    """One checked batch of a request. With a token its transaction was verified."""

    partition: OpenPartition
    batch: Buffer
    header: BatchHeader
    token: int | None = None


Append = Callable[["Hosted", Sequence[Offered]], None]
"""Appends or refuses each of some batches for one log, in their order."""


class Appends:
    """Owner of what was offered and is not decided yet."""

    __slots__ = ("_append", "_broker", "_is_due", "_offered", "_produces")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._append: Append | None = None
        self._offered: dict[Hosted, list[Offered]] = {}
        self._produces: list[OpenProduce] = []
        self._is_due = False

    def offer(self, offered: Offered, append: Append) -> None:
        """The batch must have a lifetime of its own."""
        self._append = append
        hosted = offered.partition.hosted
        batches = self._offered.get(hosted)
        if batches is None:
            self._offered[hosted] = [offered]
        else:
            batches.append(offered)

    def close_later(self, produce: OpenProduce) -> None:
        """A request of which some batch was offered."""
        self._produces.append(produce)
        if not self._is_due:
            self._is_due = True
            self._broker.host.network.soon(self._end_of_turn)

    def take(self, hosted: Hosted) -> list[Offered]:
        """What was offered to this log: whoever takes it appends it."""
        return self._offered.pop(hosted, [])

    def settle(self) -> None:
        """Append everything that was offered, and answer whom that answers."""
        offered, self._offered = self._offered, {}
        produces, self._produces = self._produces, []
        for hosted, batches in offered.items():
            assert self._append is not None, f"nobody appends to {hosted}"
            try:
                self._append(hosted, batches)
            except Exception as error:  # the border of connections: a bug costs those it met
                for each in batches:
                    each.partition.produce.call.connection.fail(error)
        for produce in produces:
            produce.close_list()

    def _end_of_turn(self) -> None:
        self._is_due = False
        self.settle()
