"""Verification guards: a transaction that is asked about must not end meanwhile (KIP-890).

The first batch of a transaction in a partition is appended only after the coordinator has said
that the partition is in it. That takes a while, and when the answer comes the transaction may be
over: its end marker is in the log, and the batch would open a transaction that nobody ever ends.
So the leader takes a token before it asks, an end marker makes the token worthless, and who comes
back with a worthless token is refused.

Nothing of this outlives the process: whoever asked then asks again.
"""

from typing import NamedTuple

EPOCH_BUMPING_VERSION = 2
"""From this transaction version on, an end marker has a larger epoch than what it ends."""

NO_TOKEN = 0
"""Is never valid."""


NO_SEQUENCE = -1


class Verification(NamedTuple):
    token: int
    producer_epoch: int
    transaction_version: int
    lowest_sequence: int
    """Of the batches that were asked for; NO_SEQUENCE if they have none."""


class Verifications:
    """Of one partition, at most one per producer. Owned by its ProducerStates."""

    __slots__ = ("_expiring_token", "_last_token", "_pending")

    def __init__(self) -> None:
        self._pending: dict[int, Verification] = {}
        self._last_token = NO_TOKEN
        self._expiring_token = NO_TOKEN

    def __len__(self) -> int:
        return len(self._pending)

    def begin(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        transaction_version: int = 1,
        sequence: int = NO_SEQUENCE,
    ) -> int:
        """Before the coordinator is asked. Batches of one transaction share their token; one of
        an older epoch than another batch that waits gets none."""
        known = self._pending.get(producer_id)
        if known is not None and known.producer_epoch == producer_epoch:
            if NO_SEQUENCE < sequence < known.lowest_sequence:
                self._pending[producer_id] = known._replace(lowest_sequence=sequence)
            return known.token
        if known is not None and known.producer_epoch > producer_epoch:
            return NO_TOKEN
        self._last_token += 1
        self._pending[producer_id] = Verification(
            self._last_token, producer_epoch, transaction_version, sequence
        )
        return self._last_token

    def is_valid(self, producer_id: int, token: int) -> bool:
        """Has the transaction not ended since `begin`?"""
        known = self._pending.get(producer_id)
        return known is not None and known.token == token

    def may_be_first(self, producer_id: int, sequence: int) -> bool:
        """May a producer that the log does not know begin with this sequence? With an epoch for
        every transaction only with 0. Otherwise it may be one that was idle for so long that it
        expired, but no batch may overtake one that was refused while the coordinator was asked."""
        known = self._pending.get(producer_id)
        if known is None or sequence == 0:
            return True
        if known.transaction_version >= EPOCH_BUMPING_VERSION:
            return False
        return known.lowest_sequence == NO_SEQUENCE or sequence <= known.lowest_sequence

    def forget(self, producer_id: int) -> None:
        """Its transaction is open now, or the coordinator knows nothing of it."""
        self._pending.pop(producer_id, None)

    def on_marker(self, producer_id: int, producer_epoch: int) -> None:
        """An end marker is in the log."""
        known = self._pending.get(producer_id)
        if known is not None and ends(known, producer_epoch):
            del self._pending[producer_id]

    def expire(self) -> None:
        """Forget those that have been there since the last call: nobody comes back for them."""
        expired = [p for p, known in self._pending.items() if known.token <= self._expiring_token]
        for producer_id in expired:
            del self._pending[producer_id]
        self._expiring_token = self._last_token

    def clear(self) -> None:
        """Tokens are not given out again: who took one before must not hit one of now."""
        self._pending.clear()


def ends(verification: Verification, marker_epoch: int) -> bool:
    """Does an end marker of this epoch end the transaction that is asked about? Version 2: with
    the same epoch it is a repeated marker of the transaction before."""
    if verification.transaction_version >= EPOCH_BUMPING_VERSION:
        return marker_epoch > verification.producer_epoch
    return marker_epoch >= verification.producer_epoch
