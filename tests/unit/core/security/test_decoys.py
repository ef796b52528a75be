"""A user who does not exist looks the same on every broker, and like the users who do."""

import pytest

from tidelog.core.security.decoys import DECOY_MECHANISM, DECOY_USER, Decoys, shared_secret
from tidelog.core.security.scram import ScramMechanism, derive_credential

EXAMPLE = derive_credential(ScramMechanism.SCRAM_SHA_256, "tide", b"a salt of 20 bytes..", 5000)
SECRET = shared_secret(b"drawn by chance", EXAMPLE)


def of_the_cluster(*whom):
    return {(DECOY_MECHANISM, DECOY_USER): SECRET}.get(whom)


def of_another_cluster(*whom):
    secret = shared_secret(b"drawn by another", EXAMPLE)
    return {(DECOY_MECHANISM, DECOY_USER): secret}.get(whom)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_brokers_with_one_secret_show_one_decoy(mechanism):
    one, other = (Decoys(of_the_cluster, spare) for spare in (b"one", b"other"))
    shown = one.credential(mechanism, "nobody")
    assert shown == other.credential(mechanism, "nobody")
    assert (len(shown.salt), shown.iterations) == (len(EXAMPLE.salt), EXAMPLE.iterations)
    assert len(shown.stored_key) == mechanism.hash_bytes
    assert shown.salt != one.credential(mechanism, "somebody").salt
    elsewhere = Decoys(of_another_cluster, b"one").credential(mechanism, "nobody")
    assert shown.salt != elsewhere.salt


def test_a_broker_without_a_secret_keeps_to_its_own():
    one, other = (Decoys(lambda *_: None, spare) for spare in (b"one", b"other"))
    mechanism = ScramMechanism.SCRAM_SHA_512
    assert one.credential(mechanism, "a") == one.credential(mechanism, "a")
    assert one.credential(mechanism, "a").salt != other.credential(mechanism, "a").salt


def test_no_part_of_the_secret_tells_another():
    shown = {SECRET.salt, SECRET.stored_key, SECRET.server_key}
    assert len(shown) == len({each[:20] for each in shown}) == 3
