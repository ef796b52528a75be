"""Damaged logs are mended from the other replicas (ADR 0036).

A batch whose bytes have changed at rest is never served; every read that meets one (for a client, a
follower, a coordinator, the scrub) reports it here. A leader hands over, so that readers continue
elsewhere; the batch is fetched from a replica that has it, and put back. A log whose batches have
another form there, because each broker compacts for itself, is cut at the damage and fetched again
from the leader, but only while this replica is neither in the ISR nor an eligible leader replica.
Records that no replica has are reported with their offsets and what can be done. They are requested
again and again, because a replica that is down may have them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from tidelog.core.errors import NO_ERROR, Error
from tidelog.host import tasks
from tidelog.host.ports import NetworkError
from tidelog.host.timers import pause
from tidelog.storage.errors import CorruptSegment, StorageError
from tidelog.storage.mending import Damage, Fit, Patch, damage_of, is_damaged
from tidelog.wire.protocol.schemas.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse
from tidelog.wire.records import InvalidBatch, check_crc, read_header

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.replication.broker_connections import BrokerConnections
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.leaving_isr import LeavingIsr
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.core.types import PartitionId
    from tidelog.host.node_host import NodeHost

DAMAGED = "damaged-batch"
UNREADABLE = "records-unreadable"
FETCH_VERSION = 17
ASKED_BYTES = 1024 * 1024
PATCH_MAX_BYTES = 64 * 1024 * 1024
ASK_AGAIN_MS = 1_000
ASK_ALL_AGAIN_MS = 30_000
"""After every other replica has said that it does not have it."""

_HAS_NOT = (Error.KAFKA_STORAGE_ERROR, Error.OFFSET_OUT_OF_RANGE, Error.CORRUPT_MESSAGE)
_LOGGER = logging.getLogger("tidelog.broker")


class Outcome(Enum):
    MENDED = "mended"
    NOT_YET = "a replica does not answer, or we have to leave the ISR first"
    NOWHERE = "no other replica has it"


class Round(NamedTuple):
    """What became of asking everybody once."""

    outcome: Outcome
    without: tuple[int, ...] = ()
    """Brokers that do not have it either."""


class Mending:
    """Owner of every known damage, one per partition at a time. One per broker."""

    __slots__ = (
        "_ask_timeout_ms",
        "_host",
        "_leaving_isr",
        "_lines",
        "_metadata",
        "_replicas",
        "_tasks",
        "_worker",
        "damages",
        "found_count",
        "mended_count",
        "on_mended",
    )

    def __init__(
        self,
        metadata: LocalMetadata,
        replicas: Replicas,
        leaving_isr: LeavingIsr,
        lines: BrokerConnections,
        host: NodeHost,
        *,
        ask_timeout_ms: int,
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._leaving_isr = leaving_isr
        self._lines = lines
        self._host = host
        self._ask_timeout_ms = ask_timeout_ms
        self._worker = host.make_workers("mending", 1)
        self.on_mended: Callable[[PartitionId], None] = _tell_nobody
        """Hears which partition can be read again."""
        self._tasks: dict[PartitionId, asyncio.Task[None]] = {}
        self.damages: dict[PartitionId, Damage] = {}
        self.found_count = 0
        self.mended_count = 0

    def found(self, hosted: Hosted, error: StorageError) -> None:
        """Something was to be read and could not be. Other errors than damage are not ours."""
        if not isinstance(error, CorruptSegment) or hosted.partition in self.damages:
            return
        damage = damage_of(hosted.log, error)
        if damage is None:
            return
        self.damages[hosted.partition] = damage
        self.found_count += 1
        self._report(hosted, damage)
        if hosted.leader is not None:
            self._leaving_isr.mend(hosted)
        work = tasks.begin(self._mend(hosted, damage))
        self._tasks[hosted.partition] = work

    def covers(self, partition: PartitionId, offset: int) -> bool:
        """Whether a read from this offset would only meet damage that is known."""
        damage = self.damages.get(partition)
        return damage is not None and damage.offset <= offset < damage.next_offset

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._lines.close()
        self._worker.close(wait=False)

    # -- one damage

    async def _mend(self, hosted: Hosted, damage: Damage) -> None:
        try:
            while self._is_wanted(hosted, damage):
                done = await self._ask_all(hosted, damage)
                if done.outcome is Outcome.MENDED:
                    self.mended_count += 1
                    break
                if done.outcome is Outcome.NOWHERE:
                    self._tell_unreadable(hosted, damage, done.without)
                    self._leaving_isr.mended(hosted.partition)
                    await pause(self._host.timers, ASK_ALL_AGAIN_MS)
                else:
                    await pause(self._host.timers, ASK_AGAIN_MS)
        except StorageError as error:
            self._replicas.directories.on_error(hosted.directory, error)
        self._forget(hosted)

    def _is_wanted(self, hosted: Hosted, damage: Damage) -> bool:
        """It is still hosted, and the damage is still there."""
        is_hosted = self._replicas.hosted.get(hosted.partition) is hosted
        return is_hosted and is_damaged(hosted.log, damage)

    def _forget(self, hosted: Hosted) -> None:
        partition, name = hosted.partition, _name(hosted)
        self._tasks.pop(partition, None)
        self.damages.pop(partition, None)
        self._host.findings.clear(DAMAGED, name)
        self._host.findings.clear(UNREADABLE, name)
        self._replicas.problems.pop(partition, None)
        self._leaving_isr.mended(partition)
        hosted.directory.note_mended(hosted.name)
        self.on_mended(partition)

    async def _ask_all(self, hosted: Hosted, damage: Damage) -> Round:
        if damage.offset >= hosted.replica.high_watermark:
            outcome = self._cut(hosted, damage)
            if outcome is Outcome.MENDED or not self._is_eligible(hosted):
                return Round(outcome)
        without: list[int] = []
        others = others_of(self._metadata, hosted.partition)
        for broker_id in others:
            outcome = await self._ask(hosted, damage, broker_id)
            if outcome is Outcome.MENDED or not self._is_wanted(hosted, damage):
                return Round(Outcome.MENDED)
            if outcome is Outcome.NOWHERE:
                without.append(broker_id)
        nowhere = len(without) == len(others)
        return Round(Outcome.NOWHERE if nowhere else Outcome.NOT_YET, tuple(without))

    async def _ask(self, hosted: Hosted, damage: Damage, broker_id: int) -> Outcome:
        """Fetch until the damaged place is filled, and put it back."""
        log, replica = hosted.log, hosted.replica
        # An eligible replica has all that is committed, be it more than it knows of.
        end = log.log_end_offset if self._is_eligible(hosted) else replica.high_watermark
        patch = Patch(log, damage, committed_offset=end)
        size_bytes = 0
        while size_bytes < PATCH_MAX_BYTES:
            records = await fetch_as_consumer(
                self._lines,
                broker_id,
                hosted.partition,
                patch.next_offset,
                timeout_ms=self._ask_timeout_ms,
            )
            if records is None:
                return Outcome.NOT_YET
            if not records:
                return Outcome.NOWHERE
            if not self._is_wanted(hosted, damage):
                return Outcome.MENDED
            fit = patch.add(records)
            if fit is Fit.WHOLE:
                await self._write(hosted, damage, patch, broker_id)
                return Outcome.MENDED
            if fit is Fit.FOREIGN:
                return self._other_form(hosted, damage, broker_id, records)
            size_bytes += len(records)
        return Outcome.NOWHERE

    async def _write(self, hosted: Hosted, damage: Damage, patch: Patch, source: int) -> None:
        written = patch.write()
        failure: OSError | None = None
        try:
            await self._worker.run(written.syncing.run)
        except OSError as error:
            failure = error
        written.end(failure)
        _LOGGER.warning(
            "%s: %s in %s, byte %d, put back as broker %d has them",
            _name(hosted),
            damage.offsets,
            damage.path,
            damage.position,
            source,
        )

    # -- what cannot be put back in its place

    def _other_form(self, hosted: Hosted, damage: Damage, source: int, records: bytes) -> Outcome:
        """What that replica sent does not fill the damaged place. If it has the records in other
        batches, and leads, ours are cut and fetched again. A leader hands over first."""
        if not _are_intact(records, damage):
            return Outcome.NOWHERE
        if hosted.follower is None:
            self._leaving_isr.mend(hosted)  # it may have followed when the damage was found
            return Outcome.NOT_YET
        if source != hosted.follower.leader:
            return Outcome.NOT_YET
        return self._cut(hosted, damage)

    def _cut(self, hosted: Hosted, damage: Damage) -> Outcome:
        """Cut our log at the damage, to be fetched again from the leader. A member of the ISR
        leaves it first; a leader has been asked to hand over, and waits for that. An eligible
        leader replica is never cut: it may be elected before it has fetched anything."""
        role, state = hosted.follower, self._metadata.image.partition(hosted.partition)
        if role is None or state is None or state.leader != role.leader:
            return Outcome.NOT_YET
        self._leaving_isr.mend(hosted)
        if self._is_eligible(hosted):
            return Outcome.NOT_YET
        effects = role.cut_damaged(damage.offset, self._host.now_ms())
        if not effects:
            return Outcome.NOT_YET
        _LOGGER.warning(
            "%s: cut at offset %d (%s, byte %d), and fetched again from broker %d",
            _name(hosted),
            damage.offset,
            damage.path,
            damage.position,
            role.leader,
        )
        self._replicas.perform(hosted, effects)
        return Outcome.MENDED

    def _is_eligible(self, hosted: Hosted) -> bool:
        """It may be elected without a loss: everybody counts on what it has."""
        state = self._metadata.image.partition(hosted.partition)
        return state is not None and self._metadata.own_id in (*state.isr, *state.elr)

    # -- telling

    def _report(self, hosted: Hosted, damage: Damage) -> None:
        text = (
            f"{damage.offsets} cannot be read from {damage.path}, byte {damage.position}"
            f" ({damage.reason}): they are fetched from another replica"
        )
        advice = "nothing, unless it happens again: then look after this disk"
        self._host.findings.report(DAMAGED, _name(hosted), text, advice=advice)

    def _tell_unreadable(self, hosted: Hosted, damage: Damage, without: tuple[int, ...]) -> None:
        asked = f"nor on brokers {', '.join(map(str, without))}" if without else "the only replica"
        text = (
            f"{damage.offsets} cannot be read here ({damage.path}, byte {damage.position}), {asked}"
        )
        advice = (
            f"start every broker that may have them; or give them up: readers go on at offset"
            f" {damage.next_offset}, or: tidelog topic trim {hosted.topic} -p {hosted.index}"
            f" --before {damage.next_offset} --yes"
        )
        self._host.findings.report(UNREADABLE, _name(hosted), text, advice=advice)


async def fetch_as_consumer(
    lines: BrokerConnections,
    broker_id: int,
    partition: PartitionId,
    offset: int,
    *,
    timeout_ms: int,
) -> bytes | None:
    """It says nothing about our log. None if there was no answer that counts, empty if that
    replica does not have the offset."""
    peer = lines.to(broker_id)
    if peer is None:
        return None
    wanted = FetchPartition(
        partition=partition.partition, fetch_offset=offset, partition_max_bytes=ASKED_BYTES
    )
    topic = FetchTopic(topic_id=partition.topic_id, partitions=[wanted])
    try:
        request = FetchRequest(max_bytes=ASKED_BYTES, topics=[topic])
        answer = await peer.ask(request, FETCH_VERSION, timeout_ms=timeout_ms)
    except NetworkError:
        return None
    assert isinstance(answer, FetchResponse), answer
    for found in answer.responses:
        for data in found.partitions:
            if data.error_code in _HAS_NOT:
                return b""
            if data.error_code != NO_ERROR or not data.records:
                return None
            return bytes(data.records)
    return None


def others_of(metadata: LocalMetadata, partition: PartitionId) -> list[int]:
    """Its replicas elsewhere: the leader first, then who is in sync, then the rest."""
    state = metadata.image.partition(partition)
    if state is None:
        return []
    ordered = dict.fromkeys((state.leader, *state.isr, *state.replicas))
    return [each for each in ordered if each >= 0 and each != metadata.own_id]


def _are_intact(records: bytes, damage: Damage) -> bool:
    """Does it begin with a sound batch that has, or follows, the damaged offset?"""
    try:
        header = read_header(records, 0)
        return header.next_offset > damage.offset and check_crc(records, 0, header)
    except InvalidBatch:
        return False


def _name(hosted: Hosted) -> str:
    return f"{hosted.topic}-{hosted.index}"


def _tell_nobody(_partition: PartitionId) -> None: ...
