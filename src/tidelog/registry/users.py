"""Who may ask a registry: a file with a name and a salted hash of a password in each line."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

KIND: Final = "scrypt"
COST, BLOCK, PARALLEL = 2**14, 8, 1
REMEMBERED_AT_MOST: Final = 1000


class WrongUsers(Exception):  # noqa: N818 - it names what is so
    """A file of users that cannot be read; the message says where."""


class Hashed(NamedTuple):
    salt: bytes
    digest: bytes


def line_for(name: str, password: str) -> str:
    """A line of the file; ValueError if the name cannot stand in one."""
    if not name or ":" in name or not name.isprintable():
        raise ValueError("a name is printable and has no colon")
    salt = secrets.token_bytes(16)
    parts = (salt, hashed(password, salt))
    return ":".join((name, KIND, *(base64.b64encode(each).decode() for each in parts)))


def hashed(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=COST, r=BLOCK, p=PARALLEL, dklen=32)


def read_users(path: Path) -> dict[str, Hashed]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as reason:
        raise WrongUsers(f"{path}: {getattr(reason, 'strerror', None) or reason}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            name, kind, salt, digest = line.strip().split(":")
            if kind != KIND:
                raise ValueError
            found[name] = Hashed(base64.b64decode(salt), base64.b64decode(digest))
        except (ValueError, binascii.Error):
            raise WrongUsers(f"{path}: line {number} is not name:{KIND}:salt:hash") from None
    if not found:
        raise WrongUsers(f"{path} has no users")
    return found


class Users:
    """Checks logins. A password costs many hashes, so what was right is remembered, under a key
    that only this process has."""

    def __init__(self, known: Mapping[str, Hashed]) -> None:
        self._known = dict(known)
        self._key = secrets.token_bytes(32)
        self._right: set[bytes] = set()

    async def admits(self, authorization: str | None) -> bool:
        """By the header of that name."""
        login = _login(authorization)
        if login is None:
            return False
        name, password = login
        mark = hmac.digest(self._key, f"{name}:{password}".encode(), "sha256")
        if mark in self._right:
            return True
        # An unknown name takes as long as a wrong password.
        known = self._known.get(name) or Hashed(b"nobody", b"")
        found = await asyncio.to_thread(hashed, password, known.salt)
        if not hmac.compare_digest(found, known.digest):
            return False
        if len(self._right) >= REMEMBERED_AT_MOST:
            self._right.clear()
        self._right.add(mark)
        return True


def _login(authorization: str | None) -> tuple[str, str] | None:
    kind, _, data = (authorization or "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(data, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (name, password) if colon else None
