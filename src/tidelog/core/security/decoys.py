"""What strangers are told about users who do not exist: a salt and a number of iterations.

A user who exists has the same salt on every broker and after every restart, so a decoy needs that
too. It is derived from a secret that all nodes share: a credential in the metadata that belongs to
nobody. Whoever can read it can read the credentials of all users as well.
"""

from tidelog.core.security.sasl import FindCredential
from tidelog.core.security.scram import ScramCredential, ScramMechanism, decoy_credential

DECOY_USER = "__tidelog_decoys"
DECOY_MECHANISM = ScramMechanism.SCRAM_SHA_512


class Decoys:
    """Credentials that no password fits, in the shape that the secret has."""

    __slots__ = ("_find", "_spare")

    def __init__(self, find: FindCredential, spare: bytes) -> None:
        """`spare` is the secret of this node alone, for a cluster that has none."""
        self._find = find
        self._spare = spare

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        shared = self._find(DECOY_MECHANISM, DECOY_USER)
        if shared is None:
            return decoy_credential(mechanism, user, self._spare)
        return decoy_credential(mechanism, user, shared.server_key, like=shared)


def shared_secret(seed: bytes, example: ScramCredential) -> ScramCredential:
    """For a new cluster. Decoys will resemble `example`, one of its first users."""
    return decoy_credential(DECOY_MECHANISM, DECOY_USER, seed, like=example)
