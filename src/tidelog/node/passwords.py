"""Passwords that are shown as they are, compared with the SCRAM credentials of users.

To compare one takes thousands of hashes, so it is done on a thread, and what was found right is
remembered. It is worth nothing any more when the credential of the user is another one.
"""

import hashlib
import hmac
from collections.abc import Callable
from functools import partial

from tidelog.core.security.sasl import FindCredential
from tidelog.core.security.scram import (
    ScramCredential,
    ScramMechanism,
    decoy_credential,
    password_matches,
)
from tidelog.host.ports import Entropy, Workers

REMEMBERED_MAX = 1_000


class Passwords:
    """One per node."""

    __slots__ = (
        "_entropy",
        "_find",
        "_new_workers",
        "_proved",
        "_secret",
        "_workers",
        "computed",
    )

    def __init__(
        self, find: FindCredential, entropy: Entropy, new_workers: Callable[[], Workers]
    ) -> None:
        self._find = find
        self._entropy = entropy
        self._new_workers = new_workers
        self._workers: Workers | None = None
        self._secret = b""
        """Drawn with the first password, like the thread."""
        self._proved: dict[bytes, ScramCredential] = {}
        """What was right, under a keyed hash of user and password; longest unused first."""
        self.computed = 0

    def close(self) -> None:
        if self._workers is not None:
            self._workers.close()

    def knows(self, user: str, password: str) -> bool:
        """Was it found right before, and is it still?"""
        key = self._key(user, password)
        proved = self._proved.pop(key, None)
        if proved is None or proved not in self._credentials(user).values():
            return False
        self._proved[key] = proved
        return True

    async def fits(self, user: str, password: str) -> bool:
        """Somebody who does not exist takes as long as somebody who does."""
        known = self._credentials(user)
        for mechanism, credential in (known or self._decoy(user)).items():
            if await self._matches(mechanism, credential, password) and known:
                if self._find(mechanism, user) != credential:
                    return False  # it was changed in the meantime
                self._remember(self._key(user, password), credential)
                return True
        return False

    def _credentials(self, user: str) -> dict[ScramMechanism, ScramCredential]:
        found = {each: self._find(each, user) for each in reversed(ScramMechanism)}
        return {each: credential for each, credential in found.items() if credential is not None}

    def _decoy(self, user: str) -> dict[ScramMechanism, ScramCredential]:
        mechanism = ScramMechanism.SCRAM_SHA_512
        return {mechanism: decoy_credential(mechanism, user, self._secret)}

    async def _matches(
        self, mechanism: ScramMechanism, credential: ScramCredential, password: str
    ) -> bool:
        if self._workers is None:
            self._workers = self._new_workers()
        self.computed += 1
        return await self._workers.run(partial(password_matches, mechanism, credential, password))

    def _remember(self, key: bytes, credential: ScramCredential) -> None:
        if len(self._proved) >= REMEMBERED_MAX:
            del self._proved[next(iter(self._proved))]
        self._proved[key] = credential

    def _key(self, user: str, password: str) -> bytes:
        if not self._secret:
            self._secret = self._entropy.uuid() + self._entropy.uuid()
        text = f"{user}\0{password}".encode()
        return hmac.new(self._secret, text, hashlib.sha256).digest()
