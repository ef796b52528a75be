"""Real chance, from the kernel."""

import base64
import os
import secrets


class SystemEntropy:
    """Unpredictable, so that it may also make ids and nonces."""

    __slots__ = ()

    def below(self, limit: int) -> int:
        assert limit > 0, limit
        return secrets.randbelow(limit)

    def uuid(self) -> bytes:
        """A random UUID (version 4) as 16 bytes."""
        while True:
            drawn = bytearray(os.urandom(16))
            drawn[6] = drawn[6] & 0x0F | 0x40
            drawn[8] = drawn[8] & 0x3F | 0x80
            # Kafka writes ids in URL-safe base64; one that begins with a dash reads as an option.
            if not base64.urlsafe_b64encode(drawn).startswith(b"-"):
                return bytes(drawn)
