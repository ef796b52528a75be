"""Producer state: what each idempotent producer wrote last (replication.md §5, KIP-98, KIP-890).

A retry must not become a second copy. Per producer the last five batches are remembered: an
exact repeat is a duplicate and is answered with the first append's offsets; anything else has
to continue the sequence. The same table knows the open transactions, and so the offset below
which a `read_committed` consumer may read.

`check` judges a client's batch and changes nothing. `update` follows the log: it is called for
every appended batch, whoever sent it, and never judges, because what the leader accepted is
the truth. So the state is a function of the log, and can always be rebuilt from it.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.replication.verification import (
    EPOCH_BUMPING_VERSION,
    NO_SEQUENCE,
    Verifications,
)
from tidelog.core.types import NO_EPOCH, NO_OFFSET, BatchHeader

REMEMBERED_BATCHES = 5
"""Clients keep at most five requests in flight, so a retry is never older than this."""

LARGEST_SEQUENCE = (1 << 31) - 1


class AppendedBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class SequenceCheck(NamedTuple):
    """NONE without a duplicate: append it. NONE with one: do not, answer its offsets."""

    error: Error
    duplicate: AppendedBatch | None


class CompletedTransaction(NamedTuple):
    """A transaction whose end marker is in the log, at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int


_ACCEPTED = SequenceCheck(NO_ERROR, None)
_OUT_OF_ORDER = SequenceCheck(Error.OUT_OF_ORDER_SEQUENCE_NUMBER, None)


class ProducerEntry:
    """What one producer did last. Owned by a ProducerStates, or by a snapshot: never by both."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.batches: deque[AppendedBatch] = deque(maxlen=REMEMBERED_BATCHES)
        self.current_txn_first_offset = NO_OFFSET
        self.coordinator_epoch = NO_EPOCH
        self.last_timestamp = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def copy(self) -> "ProducerEntry":
        twin = ProducerEntry(self.producer_id, self.producer_epoch)
        twin.batches.extend(self.batches)
        twin.current_txn_first_offset = self.current_txn_first_offset
        twin.coordinator_epoch = self.coordinator_epoch
        twin.last_timestamp = self.last_timestamp
        return twin


class ProducerStates:
    """All producers of one partition. The log owns it and replays itself into it."""

    __slots__ = ("_entries", "_open", "_unreplicated", "verifications")

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        # Producer id → first offset. Offsets only grow, so the first entry is the oldest.
        self._open: dict[int, int] = {}
        # Ended transactions whose marker is not known to be committed, in marker order.
        self._unreplicated: deque[CompletedTransaction] = deque()
        self.verifications = Verifications()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def check(self, header: BatchHeader, *, verified: bool = False) -> SequenceCheck:
        """May a client's batch be appended? `verified`: the coordinator has confirmed that the
        transaction is ongoing, so this batch may be its first one here (KIP-890)."""
        if header.producer_id < 0:
            return _ACCEPTED
        assert not header.is_control, f"client sent a control batch, producer {header.producer_id}"
        entry = self._entries.get(header.producer_id)
        if entry is not None:
            duplicate = find_duplicate(entry, header)
            if duplicate is not None:
                return SequenceCheck(NO_ERROR, duplicate)
            if header.producer_epoch < entry.producer_epoch:
                return SequenceCheck(Error.INVALID_PRODUCER_EPOCH, None)
        if not fits_transaction(entry, header, verified):
            return SequenceCheck(Error.INVALID_TXN_STATE, None)
        if entry is None:
            in_order = not header.is_transactional or self.verifications.may_be_first(
                header.producer_id, header.base_sequence
            )
        else:
            in_order = continues_sequence(entry, header)
        return _ACCEPTED if in_order else _OUT_OF_ORDER

    def needs_verification(self, header: BatchHeader) -> bool:
        """Must the coordinator be asked before this batch can be appended? A repeat is not
        appended, and the coordinator may know nothing any more of its transaction."""
        entry = self._entries.get(header.producer_id)
        if not header.is_transactional or is_in_transaction(entry, header.producer_epoch):
            return False
        return entry is None or find_duplicate(entry, header) is None

    def check_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int = 1,
    ) -> Error:
        """May a transaction coordinator append this end marker? Old coordinators are fenced.

        The same marker may come again, when its answer was lost; appended again it ends nothing.
        With version 2 also one that comes so late that the next transaction is open is known:
        it has the epoch of that one, while a marker that ends it has a larger one (KIP-890).
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return NO_ERROR
        if producer_epoch < entry.producer_epoch:
            return Error.INVALID_PRODUCER_EPOCH
        if transaction_version >= EPOCH_BUMPING_VERSION and is_in_transaction(
            entry, producer_epoch
        ):
            return Error.INVALID_PRODUCER_EPOCH
        if coordinator_is_fenced(entry, coordinator_epoch):
            return Error.TRANSACTION_COORDINATOR_FENCED
        return NO_ERROR

    def update(
        self, header: BatchHeader, coordinator_epoch: int = NO_EPOCH
    ) -> CompletedTransaction | None:
        """Follow one appended batch. A control batch of a producer ends its transaction:
        then the caller passes the marker's coordinator epoch, and learns what has ended."""
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id, header.producer_epoch)
        elif entry.producer_epoch != header.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            entry.batches.clear()
        entry.last_timestamp = header.max_timestamp
        if header.is_control:
            self.verifications.on_marker(producer_id, header.producer_epoch)
            return self._end_transaction(entry, header.base_offset, coordinator_epoch)

        first_offset, last_offset = header.base_offset, header.last_offset
        assert first_offset <= last_offset, f"batch from {first_offset} to {last_offset}"
        first_sequence = header.base_sequence
        if first_sequence != NO_SEQUENCE:  # offsets that coordinators write have none
            last_sequence = sequence_after(first_sequence, last_offset - first_offset)
            entry.batches.append(
                AppendedBatch(
                    first_sequence, last_sequence, first_offset, last_offset, header.max_timestamp
                )
            )
        if header.is_transactional and entry.current_txn_first_offset == NO_OFFSET:
            entry.current_txn_first_offset = first_offset
            self._open[producer_id] = first_offset
            self.verifications.forget(producer_id)
        return None

    def _end_transaction(
        self, entry: ProducerEntry, marker_offset: int, coordinator_epoch: int
    ) -> CompletedTransaction | None:
        entry.coordinator_epoch = max(entry.coordinator_epoch, coordinator_epoch)
        first_offset = entry.current_txn_first_offset
        if first_offset == NO_OFFSET:
            return None  # it wrote nothing to this partition
        assert first_offset < marker_offset, f"marker {marker_offset} of txn at {first_offset}"
        entry.current_txn_first_offset = NO_OFFSET
        del self._open[entry.producer_id]
        completed = CompletedTransaction(entry.producer_id, first_offset, marker_offset)
        self._unreplicated.append(completed)
        return completed

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The oldest offset whose transaction has not ended, or ended with a marker that is
        not yet committed. None when every record below the high watermark is decided."""
        if not self._open and not self._unreplicated:
            return None
        oldest = next(iter(self._open.values()), None)
        for transaction in self._unreplicated:
            if transaction.last_offset >= high_watermark and (
                oldest is None or transaction.first_offset < oldest
            ):
                oldest = transaction.first_offset
        return oldest

    def on_high_watermark(self, high_watermark: int) -> None:
        """Ended transactions whose marker is committed no longer hold anybody back."""
        unreplicated = self._unreplicated
        while unreplicated and unreplicated[0].last_offset < high_watermark:
            unreplicated.popleft()

    def ended_transactions(self) -> tuple[CompletedTransaction, ...]:
        """Those whose marker is not known to be committed, in marker order."""
        return tuple(self._unreplicated)

    def has_ended_transactions(self) -> bool:
        """Has any producer ever got an end marker here?"""
        return any(entry.coordinator_epoch != NO_EPOCH for entry in self._entries.values())

    def remember_ended(self, ended: Iterable[CompletedTransaction]) -> None:
        """A snapshot does not tell them: whoever loads one has to know them otherwise."""
        assert not self._unreplicated, f"{len(self._unreplicated)} transactions have ended since"
        self._unreplicated.extend(ended)

    def has_late_transaction(self, before_ms: int) -> bool:
        """Is one open whose producer was last heard of before this time?"""
        return any(self._entries[each].last_timestamp < before_ms for each in self._open)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have been idle; never one with an open transaction."""
        assert expiration_ms > 0, f"expiration after {expiration_ms} ms"
        idle = [
            entry.producer_id
            for entry in self._entries.values()
            if now_ms - entry.last_timestamp >= expiration_ms
            and entry.current_txn_first_offset == NO_OFFSET
        ]
        for producer_id in idle:
            del self._entries[producer_id]
        self.verifications.expire()
        return len(idle)

    def entries(self) -> list[ProducerEntry]:
        """Copies, sorted by producer id: what a snapshot holds."""
        return [self._entries[producer_id].copy() for producer_id in sorted(self._entries)]

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Replace everything by the content of a snapshot."""
        self.clear()
        for entry in entries:
            self._entries[entry.producer_id] = entry.copy()
        oldest_first = sorted(self._entries.values(), key=lambda e: e.current_txn_first_offset)
        for entry in oldest_first:
            if entry.current_txn_first_offset != NO_OFFSET:
                self._open[entry.producer_id] = entry.current_txn_first_offset

    def clear(self) -> None:
        self._entries.clear()
        self._open.clear()
        self._unreplicated.clear()
        self.verifications.clear()


def sequence_after(sequence: int, increment: int) -> int:
    """Sequences wrap from 2^31 - 1 to 0."""
    after = sequence + increment
    return after if after <= LARGEST_SEQUENCE else after - LARGEST_SEQUENCE - 1


def find_duplicate(entry: ProducerEntry, header: BatchHeader) -> AppendedBatch | None:
    """The remembered batch this one repeats exactly, if any."""
    if header.producer_epoch != entry.producer_epoch:
        return None
    first = header.base_sequence
    for batch in entry.batches:
        if batch.first_sequence == first and batch.last_sequence == sequence_after(
            first, header.last_offset - header.base_offset
        ):
            return batch
    return None


def continues_sequence(entry: ProducerEntry, header: BatchHeader) -> bool:
    """A new producer epoch starts at sequence 0; otherwise the next sequence must follow."""
    if header.producer_epoch != entry.producer_epoch or not entry.batches:
        return header.base_sequence == 0
    return header.base_sequence == sequence_after(entry.last_sequence, 1)


def is_in_transaction(entry: ProducerEntry | None, producer_epoch: int) -> bool:
    """Is a transaction of just this epoch open? One of an older epoch is over for its producer,
    only its marker has not arrived."""
    return (
        entry is not None
        and entry.current_txn_first_offset != NO_OFFSET
        and entry.producer_epoch == producer_epoch
    )


def fits_transaction(entry: ProducerEntry | None, header: BatchHeader, verified: bool) -> bool:
    """KIP-890: a late batch must not open a transaction that nobody will ever end, an early one
    must not get into the transaction before its own, and inside an open transaction nothing may
    be written beside it."""
    if header.is_transactional:
        return verified or is_in_transaction(entry, header.producer_epoch)
    return entry is None or entry.current_txn_first_offset == NO_OFFSET


def coordinator_is_fenced(entry: ProducerEntry, coordinator_epoch: int) -> bool:
    return coordinator_epoch < entry.coordinator_epoch
