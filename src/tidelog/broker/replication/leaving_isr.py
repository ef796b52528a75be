"""Replicas that stand aside: they leave the ISR at their own request (ADR 0035).

A replica that cannot take records, or whose copy is damaged, must not lead, and others must not
wait for it. It asks the controller to leave the ISR, which moves its leadership if it leads, and
it does not fetch, so that it does not come back before it can take records again. What is alone
in the ISR stays where it is.

A request may be lost or overtaken by other changes of the partition, so it is repeated, with the
metadata as they are then, until the replica is out.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.core.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrMember,
    IsrProposal,
)
from tidelog.core.types import NO_EPOCH, PartitionId

if TYPE_CHECKING:
    from tidelog.broker.control.controller_link import ControllerLink
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.logs.disk_rooms import DiskRooms
    from tidelog.broker.replication.fetchers import Fetchers
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.host.timers import Timer, TimerWheel
    from tidelog.storage.log_directory import LogDirectory

AT_ONCE = 200
"""Partitions of one request, and of one turn of the event loop."""
ASK_AGAIN_MS = 1_000


class LeavingIsr:
    """Owner of what is asked of the controller, and of who is aside for a reason of its own."""

    __slots__ = (
        "_asking",
        "_in_flight",
        "_link",
        "_metadata",
        "_replicas",
        "_rooms",
        "_timer",
        "_timers",
        "damaged",
        "fetchers",
    )

    fetchers: Fetchers
    """Set once, when it is made: it asks us, too."""

    def __init__(
        self,
        metadata: LocalMetadata,
        replicas: Replicas,
        rooms: DiskRooms,
        link: ControllerLink,
        timers: TimerWheel,
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._rooms = rooms
        self._link = link
        self._timers = timers
        self._asking: dict[PartitionId, None] = {}
        """Still to be asked for, or to be looked at again."""
        self._in_flight = False
        self._timer: Timer | None = None
        self.damaged: dict[PartitionId, None] = {}
        """Copies that are being mended."""

    def is_aside(self, hosted: Hosted) -> bool:
        return hosted.directory in self._rooms.full or hosted.partition in self.damaged

    def look_at(self, hosted: Hosted) -> None:
        """Metadata about it were applied: if it is aside, it may have to leave the ISR."""
        if self.is_aside(hosted):
            self._ask_for(hosted.partition)

    def room_changed(self, directory: LogDirectory) -> None:
        """A directory became full, or has room again."""
        waiting = [
            hosted.partition
            for hosted in self._replicas.hosted.values()
            if hosted.directory is directory
        ]
        # Later: a write that found no space is often one of many that a fetch brought.
        self._timers.after(0, partial(self._move, waiting))

    def mend(self, hosted: Hosted) -> None:
        """Its copy is damaged: step aside until `mended`."""
        self.damaged[hosted.partition] = None
        self._move([hosted.partition])

    def mended(self, partition: PartitionId) -> None:
        if self.damaged.pop(partition, self) is None:
            self._move([partition])

    def close(self) -> None:
        self._asking.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _move(self, partitions: list[PartitionId]) -> None:
        """Some at a time: a broker may host thousands."""
        for partition in partitions[:AT_ONCE]:
            hosted = self._replicas.hosted.get(partition)
            if hosted is None:
                continue
            if self.is_aside(hosted):
                self.fetchers.drop(partition)
                self._ask_for(partition)
            elif hosted.leader is None:
                self._replicas.problems.pop(partition, None)
                self.fetchers.follow(hosted)
        self.fetchers.wake_all()
        if len(partitions) > AT_ONCE:
            self._timers.after(0, partial(self._move, partitions[AT_ONCE:]))

    def _ask_for(self, partition: PartitionId) -> None:
        self._asking[partition] = None
        if not self._in_flight:
            self._arm(0)

    def _arm(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timers.after(delay_ms, self._ask)

    def _ask(self) -> None:
        """One request at a time: what comes meanwhile waits for its answer."""
        self._timer = None
        link = self._link
        if self._in_flight or not self._asking:
            return
        if not link.lifecycle.registered:
            self._arm(ASK_AGAIN_MS)
            return
        proposals: list[IsrProposal] = []
        for partition in list(self._asking):
            del self._asking[partition]
            proposal = self._proposal(partition)
            if proposal is not None:
                proposals.append(proposal)
                if len(proposals) == AT_ONCE:
                    break
        if proposals:
            self._in_flight = True
            request = AlterPartitionRequest(
                self._metadata.own_id, link.broker_epoch, tuple(proposals)
            )
            link.alter_partitions(request, partial(self._on_answer, request))

    def _proposal(self, partition: PartitionId) -> IsrProposal | None:
        """The present ISR without us. None: there is nothing to leave, or nobody to leave it to."""
        hosted = self._replicas.hosted.get(partition)
        state = self._metadata.image.partition(partition)
        if hosted is None or state is None or not self.is_aside(hosted):
            return None
        rest = tuple(
            IsrMember(each, NO_EPOCH) for each in state.isr if each != self._metadata.own_id
        )
        if not rest or len(rest) == len(state.isr):
            return None
        return IsrProposal(partition, state.leader_epoch, state.partition_epoch, rest)

    def _on_answer(
        self, request: AlterPartitionRequest, response: AlterPartitionResponse | None
    ) -> None:
        """Whatever it says: only metadata tell who is out. They usually come before the answer."""
        self._in_flight = False
        more = bool(self._asking)
        for proposal in request.proposals:
            self._asking[proposal.partition] = None
        answered = response is not None and not response.error
        self._arm(0 if more and answered else ASK_AGAIN_MS)
