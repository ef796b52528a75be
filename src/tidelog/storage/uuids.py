"""How Kafka writes an id of 16 bytes in text: URL-safe base64 without the padding."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error

SIZE = 16


def uuid_text(uuid: bytes) -> str:
    assert len(uuid) == SIZE, f"an id has {SIZE} bytes, not {len(uuid)}"
    return urlsafe_b64encode(uuid)[:22].decode()


def parse_uuid(text: str) -> bytes | None:
    """None if it is not one."""
    try:
        uuid = urlsafe_b64decode(text + "==")
    except (Base64Error, ValueError):
        return None
    return uuid if len(uuid) == SIZE and uuid_text(uuid) == text else None
