"""One number that says whether two runs were the same run.

Steps arrive as integers in a flat list and are hashed in chunks, happenings as the text of
their tuples, so the price per step is two appends. Nothing here depends on addresses, on
PYTHONHASHSEED or on the byte order of the machine.
"""

import hashlib
import sys
from array import array

DIGEST_BYTES = 16


class RunDigest:
    """Takes integers and tuples in the order in which they happen."""

    __slots__ = ("_happenings", "_hash", "_numbers", "add", "add_happening")

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=DIGEST_BYTES)
        self._numbers: list[int] = []
        self._happenings: list[tuple[object, ...]] = []
        # Bound once: these two are called at every step.
        self.add = self._numbers.append
        self.add_happening = self._happenings.append

    def flush(self) -> None:
        """Hash what has gathered; called every few hundred steps to keep memory small."""
        numbers = array("q", self._numbers)
        if sys.byteorder == "big":
            numbers.byteswap()
        self._hash.update(len(numbers).to_bytes(8, "little"))
        self._hash.update(numbers.tobytes())
        self._hash.update(repr(self._happenings).encode())
        self._numbers.clear()
        self._happenings.clear()

    def hexdigest(self) -> str:
        self.flush()
        return self._hash.hexdigest()
