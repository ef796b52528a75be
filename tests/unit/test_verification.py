"""Verification guards: a token is worth something until the transaction ends (KIP-890)."""

import pytest

from tidelog.core.replication.verification import Verifications

PRODUCER = 7


def test_a_token_is_valid_until_the_transaction_ends() -> None:
    pending = Verifications()
    token = pending.begin(PRODUCER, 3)
    assert pending.is_valid(PRODUCER, token)
    pending.on_marker(PRODUCER, 3)
    assert not pending.is_valid(PRODUCER, token)


@pytest.mark.parametrize(("version", "valid"), [(1, False), (2, True)])
def test_a_marker_of_the_same_epoch_is_a_repeat_if_epochs_are_bumped(
    version: int, valid: bool
) -> None:
    pending = Verifications()
    token = pending.begin(PRODUCER, 3, transaction_version=version)
    pending.on_marker(PRODUCER, 2)
    assert pending.is_valid(PRODUCER, token)
    pending.on_marker(PRODUCER, 3)
    assert pending.is_valid(PRODUCER, token) is valid
    pending.on_marker(PRODUCER, 4)
    assert not pending.is_valid(PRODUCER, token)


def test_batches_of_one_transaction_share_a_token() -> None:
    pending = Verifications()
    assert pending.begin(PRODUCER, 3) == pending.begin(PRODUCER, 3)
    assert len(pending) == 1


def test_a_newer_epoch_makes_the_token_of_the_older_one_worthless() -> None:
    pending = Verifications()
    old = pending.begin(PRODUCER, 3)
    new = pending.begin(PRODUCER, 4)
    late = pending.begin(PRODUCER, 3)
    validity = [pending.is_valid(PRODUCER, token) for token in (old, new, late)]
    assert validity == [False, True, False]


def test_a_token_is_of_one_producer() -> None:
    pending = Verifications()
    token, other = pending.begin(PRODUCER, 0), pending.begin(PRODUCER + 1, 0)
    pending.on_marker(PRODUCER + 1, 0)
    assert pending.is_valid(PRODUCER, token)
    assert not pending.is_valid(PRODUCER, other)


@pytest.mark.parametrize("cleared", [True, False])
def test_a_token_that_was_forgotten_does_not_become_valid_again(cleared: bool) -> None:
    pending = Verifications()
    token = pending.begin(PRODUCER, 0)
    if cleared:
        pending.clear()
    else:
        pending.forget(PRODUCER)
    assert not pending.is_valid(PRODUCER, token)
    again = pending.begin(PRODUCER, 0)
    assert pending.is_valid(PRODUCER, again)
    assert not pending.is_valid(PRODUCER, token)


def test_a_token_nobody_comes_back_for_is_forgotten_with_the_second_sweep() -> None:
    pending = Verifications()
    old = pending.begin(PRODUCER, 0)
    pending.expire()
    young = pending.begin(PRODUCER + 1, 0)
    assert pending.is_valid(PRODUCER, old)
    pending.expire()
    assert not pending.is_valid(PRODUCER, old)
    assert pending.is_valid(PRODUCER + 1, young)
