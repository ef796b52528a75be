"""Batches that clients sent in this turn of the event loop, to be appended at its end.

On a busy broker one turn brings requests of many connections for the same few partitions. What
an append costs beside its bytes, a write to the file, a look at the high watermark, waking those
who wait for records, is then paid once per partition and turn. Nothing is decided about a batch
before its turn ends: it is as if all these requests had come a moment later.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.turn_end import TurnEnd
from tidelog.core.replication.inputs import ACKS_ALL

if TYPE_CHECKING:
    from tidelog.broker.produce.leader_writes import LeaderWrites
    from tidelog.broker.produce.open_produce import OpenPartition, OpenProduce
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.rpc import Call
    from tidelog.rpc.calls import Handler


class Appends:
    """Owner of what was offered and is not decided yet."""

    __slots__ = ("_offered", "_produces", "_turn_end", "writes")

    def __init__(self, turn_end: TurnEnd, writes: LeaderWrites) -> None:
        self._turn_end = turn_end
        self.writes = writes
        self._offered: dict[Hosted, list[OpenPartition]] = {}
        self._produces: list[OpenProduce] = []

    def offer(self, partition: OpenPartition) -> None:
        """Its batch must have a lifetime of its own."""
        offered = self._offered.get(partition.hosted)
        if offered is None:
            self._offered[partition.hosted] = [partition]
        else:
            offered.append(partition)

    def close_later(self, produce: OpenProduce) -> None:
        """A request of which some batch was offered."""
        self._produces.append(produce)
        if len(self._produces) == 1:
            self._turn_end.add(self._append_offered)

    def then(self, handle: Handler, call: Call) -> None:
        """Serve a request that looks into logs: what came before it is in them then. For a
        follower that also means one look, where it would be parked and woken in the same turn."""
        if self._produces:
            self._turn_end.add(partial(_serve, handle, call))
        else:
            handle(call)

    def take(self, hosted: Hosted) -> list[OpenPartition]:
        """What was offered to this log: whoever takes it appends it."""
        return self._offered.pop(hosted, [])

    def _append_offered(self) -> None:
        offered, self._offered = self._offered, {}
        produces, self._produces = self._produces, []
        for hosted, partitions in offered.items():
            try:
                self.writes.append_all(hosted, partitions)
            except Exception as error:  # the border of connections: a bug costs those it met
                for each in partitions:
                    each.produce.call.connection.fail(error)
        for produce in produces:
            produce.close_list()
            if produce.acks != ACKS_ALL:  # its client does not wait for what followers are sent
                self._turn_end.send_first()


def _serve(handle: Handler, call: Call) -> None:
    try:
        handle(call)
    except Exception as error:  # the border of a connection
        call.connection.fail(error)
