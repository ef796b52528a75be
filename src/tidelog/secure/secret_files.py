"""Files that only their owner may read."""

import os
import secrets
from pathlib import Path
from typing import Final

ONLY_THE_OWNER: Final = 0o600
PASSWORD_BYTES: Final = 24


def write_secret(path: Path, content: bytes) -> None:
    """Replace the file whole. It is never readable to others, not even while it is written."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, ONLY_THE_OWNER)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.replace(temporary, path)


def make_password() -> str:
    """From letters, digits, `-` and `_`, which no file format and no shell has to quote."""
    return secrets.token_urlsafe(PASSWORD_BYTES)
