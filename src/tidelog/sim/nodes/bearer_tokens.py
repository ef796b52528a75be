"""The issuer of bearer tokens: it signs them, and has the keys that nodes verify them with."""

import json
from base64 import urlsafe_b64encode
from random import Random

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tidelog.host.bearer_tokens import TokenKeysError

_KEY = Ed25519PrivateKey.from_private_bytes(b"a key of the simulator, no secret"[:32])
KEY_ID = "tide"


def token(user: str, ends_ms: int, key_id: str = KEY_ID) -> bytes:
    """A signed one of this user."""
    parts = {"alg": "EdDSA", "kid": key_id}, {"sub": user, "exp": ends_ms // 1000}
    signed = b".".join(_encoded(json.dumps(part).encode()) for part in parts)
    return signed + b"." + _encoded(_KEY.sign(signed))


def token_keys(entropy: Random, url: str) -> bytes:
    """What nodes are given who ask for the keys: nothing, now and then."""
    if entropy.random() < 0.05:
        raise TokenKeysError(f"{url}: the issuer is away")
    public = _encoded(_KEY.public_key().public_bytes_raw()).decode()
    key = {"kty": "OKP", "crv": "Ed25519", "kid": KEY_ID, "x": public}
    return json.dumps({"keys": [key]}).encode()


def _encoded(part: bytes) -> bytes:
    return urlsafe_b64encode(part).rstrip(b"=")
