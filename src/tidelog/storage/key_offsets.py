"""The newest offset of every key in the dirty part of a log, in bounded memory.

Kafka keeps 24 bytes per key in a table of its own. A dict costs more per key and is many times
faster here; so memory is counted by an estimate that errs on the large side, and a log with
more keys than fit is cleaned in several passes. Keys that are long are represented by a
digest of 256 bits: unlike Kafka's 128 bits of MD5, nobody can make two keys that collide and
have a record of someone else dropped.
"""

from hashlib import blake2b

NO_KEYS = -1
_LONGEST_VERBATIM = 32
_DIGEST_MARK = b"digest:"
_ENTRY_BYTES = 200
"""A dict slot at its emptiest, a bytes object without its content, an int."""


class KeyOffsets:
    """Key → the largest offset at which it was seen. Owned by one compaction."""

    __slots__ = ("_max_bytes", "_offsets", "_used_bytes", "latest_offset")

    def __init__(self, max_bytes: int, latest_offset: int) -> None:
        """Everything up to `latest_offset` counts as seen, and as having no newer record."""
        self._max_bytes = max_bytes
        self._offsets: dict[bytes, int] = {}
        self._used_bytes = 0
        self.latest_offset = latest_offset

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """False if there is no room for another key; one always has room, to get on."""
        assert offset > self.latest_offset, f"offset {offset} after {self.latest_offset}"
        token = token_of(key)
        if token not in self._offsets:
            if self._offsets and self._used_bytes + _ENTRY_BYTES + len(token) > self._max_bytes:
                return False
            self._used_bytes += _ENTRY_BYTES + len(token)
        self._offsets[token] = offset
        self.latest_offset = offset
        return True

    def newest(self, key: bytes) -> int:
        """NO_KEYS if it was not seen: then what is older than the dirty part is the newest."""
        return self._offsets.get(token_of(key), NO_KEYS)


def token_of(key: bytes) -> bytes:
    """The key itself, or something as good: a digest is longer than any key kept verbatim."""
    if len(key) <= _LONGEST_VERBATIM:
        return key
    return _DIGEST_MARK + blake2b(key, digest_size=32).digest()
