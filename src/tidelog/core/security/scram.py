"""SCRAM (RFC 5802, RFC 7677): the conversation of both sides, as pure functions.

```
client  client-first   n,,n=alice,r=CLIENT
server  server-first   r=CLIENT+SERVER,s=SALT,i=ITERATIONS
client  client-final   c=biws,r=CLIENT+SERVER,p=PROOF
server  server-final   v=SIGNATURE
```

A server keeps a `ScramCredential` and never the password. Nonces and salts are passed in. As in
Kafka, names and passwords are UTF-8 without SASLprep, and channel binding is not offered.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from enum import IntEnum
from typing import NamedTuple

NO_CHANNEL_BINDING = "n,"
_NAME = r"(?:[^,=\x00]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?P<extensions>(?:,[A-Za-z]+=[^,\x00]+)*)"
_CLIENT_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE}){_EXTENSIONS})"
)
_BASE64 = r"[A-Za-z0-9+/]+={0,2}"
_SERVER_FIRST = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<unsigned>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS})"
    rf",p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>[^,\x00]+)|v=(?P<signature>{_BASE64})){_EXTENSIONS}")


class ScramMechanism(IntEnum):
    """The value is what Kafka writes into records and requests."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    @property
    def hash_bytes(self) -> int:
        return 32 if self is ScramMechanism.SCRAM_SHA_256 else 64

    @classmethod
    def of_sasl_name(cls, name: str) -> "ScramMechanism | None":
        return next((each for each in cls if each.sasl_name == name), None)


MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
"""Kafka's limits: more would let whoever may alter users burn the processor of every login."""
DEFAULT_ITERATIONS = 10_000
"""Of users that our own tools make."""
USUAL_SHAPE = 32, DEFAULT_ITERATIONS
"""Bytes of salt and iterations of such a user."""


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Keys never reach a log."""
        return f"ScramCredential({self.iterations} iterations)"


class ScramError(Exception):
    """The other side broke the rules, or does not know the password."""


class ClientFirst(NamedTuple):
    name: str
    nonce: str
    authzid: str
    gs2_header: str
    bare: str
    extensions: dict[str, str]

    @property
    def message(self) -> bytes:
        return (self.gs2_header + self.bare).encode()


class ServerFirst(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int
    message: bytes


class ClientFinal(NamedTuple):
    message: bytes
    server_signature: bytes
    """What the server has to answer: without it the client talks to somebody else."""


def hmac_of(mechanism: ScramMechanism, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, mechanism.hash_name)


def hash_of(mechanism: ScramMechanism, data: bytes) -> bytes:
    return hashlib.new(mechanism.hash_name, data).digest()


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """RFC 5802's Hi(), the slow part: milliseconds. Nothing of it runs on a server's login."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """What a server keeps of a password that was salted elsewhere (AlterUserScramCredentials)."""
    stored_key = hash_of(mechanism, hmac_of(mechanism, salted, b"Client Key"))
    server_key = hmac_of(mechanism, salted, b"Server Key")
    assert len(stored_key) == mechanism.hash_bytes, f"{len(stored_key)} != {mechanism.hash_bytes}"
    return ScramCredential(salt, stored_key, server_key, iterations)


def derive_credential(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> ScramCredential:
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of(mechanism, salted, salt, iterations)


def decoy_credential(
    mechanism: ScramMechanism, name: str, secret: bytes, *, like: ScramCredential | None = None
) -> ScramCredential:
    """For a user who does not exist: the same salt each time, and keys that no password has.

    A server that goes on with it tells a stranger nothing about who exists, if it looks `like` the
    users that do.
    """
    assert secret, "anybody could tell a decoy from a user"
    seed = hmac_of(mechanism, secret, b"decoy " + name.encode())
    salt = hmac_of(ScramMechanism.SCRAM_SHA_512, seed, b"salt")
    stored_key = hmac_of(mechanism, seed, b"stored key")
    server_key = hmac_of(mechanism, seed, b"server key")
    size, iterations = USUAL_SHAPE if like is None else (len(like.salt), like.iterations)
    return ScramCredential(salt[:size], stored_key, server_key, iterations)


# ---- the client's side


def client_first(name: str, nonce: str, extensions: dict[str, str] | None = None) -> ClientFirst:
    assert re.fullmatch(_NONCE, nonce), f"{nonce!r} is no nonce: printable ASCII without commas"
    more = extensions or {}
    tail = "".join(f",{key}={value}" for key, value in more.items())
    bare = f"n={escaped(name)},r={nonce}{tail}"
    return ClientFirst(name, nonce, "", NO_CHANNEL_BINDING + ",", bare, more)


def parse_server_first(first: ClientFirst, message: bytes) -> ServerFirst:
    """ScramError unless it continues our nonce and asks for a sound number of iterations."""
    found = _matched(_SERVER_FIRST, message, "first message of the server")
    nonce, iterations = found["nonce"], int(found["iterations"])
    if not nonce.startswith(first.nonce) or nonce == first.nonce:
        raise ScramError("the server does not continue the nonce")
    if iterations < MIN_ITERATIONS:
        raise ScramError(f"the server asks for {iterations} iterations, {MIN_ITERATIONS} at least")
    return ServerFirst(nonce, _decoded(found["salt"]), iterations, message)


def client_final(
    mechanism: ScramMechanism, password: str, first: ClientFirst, answer: ServerFirst
) -> ClientFinal:
    salted = salted_password(mechanism, password, answer.salt, answer.iterations)
    client_key = hmac_of(mechanism, salted, b"Client Key")
    server_key = hmac_of(mechanism, salted, b"Server Key")
    unsigned = f"c={_encoded(first.gs2_header.encode())},r={answer.nonce}"
    signed = auth_message(first, answer, unsigned)
    signature = hmac_of(mechanism, hash_of(mechanism, client_key), signed)
    message = f"{unsigned},p={_encoded(xor(client_key, signature))}"
    return ClientFinal(message.encode(), hmac_of(mechanism, server_key, signed))


def verify_server_final(final: ClientFinal, message: bytes) -> None:
    """ScramError unless the server knows the password too."""
    found = _matched(_SERVER_FINAL, message, "final message of the server")
    if found["error"] is not None:
        raise ScramError(f"the server refuses: {found['error']}")
    if not hmac.compare_digest(_decoded(found["signature"]), final.server_signature):
        raise ScramError("the server does not know the password")


# ---- the server's side


def parse_client_first(message: bytes) -> ClientFirst:
    """ScramError for anything else than RFC 5802's grammar without channel binding."""
    found = _matched(_CLIENT_FIRST, message, "first message of the client")
    extensions = dict(pair.split("=", 1) for pair in found["extensions"].split(",") if pair)
    return ClientFirst(
        unescaped(found["name"]),
        found["nonce"],
        unescaped(found["authzid"] or ""),
        found["gs2"],
        found["bare"],
        extensions,
    )


def server_first(first: ClientFirst, server_nonce: str, credential: ScramCredential) -> ServerFirst:
    assert re.fullmatch(_NONCE, server_nonce), f"{server_nonce!r} is no nonce"
    nonce = first.nonce + server_nonce
    text = f"r={nonce},s={_encoded(credential.salt)},i={credential.iterations}"
    return ServerFirst(nonce, credential.salt, credential.iterations, text.encode())


def verify_client_final(
    mechanism: ScramMechanism,
    credential: ScramCredential,
    first: ClientFirst,
    answer: ServerFirst,
    message: bytes,
) -> bytes:
    """The server's final message; ScramError unless the client proved that it knows the password.

    The whole nonce is compared: a proof for another conversation is worth nothing here
    (CVE-2024-56128).
    """
    found = _matched(_CLIENT_FINAL, message, "final message of the client")
    if not nonce_fits(found["nonce"], first.nonce, answer.nonce):
        raise ScramError("the nonce is not the one of this conversation")
    if _decoded(found["binding"]) != first.gs2_header.encode():
        raise ScramError("the channel binding is not the one of the first message")
    proof = _decoded(found["proof"])
    if len(proof) != mechanism.hash_bytes:
        raise ScramError(f"the proof has {len(proof)} bytes, not {mechanism.hash_bytes}")
    assert answer.nonce.startswith(first.nonce), "the server answered somebody else"
    signed = auth_message(first, answer, found["unsigned"])
    signature = hmac_of(mechanism, credential.stored_key, signed)
    presented = hash_of(mechanism, xor(proof, signature))
    if not proof_matches(presented, credential.stored_key):
        raise ScramError("wrong password")
    return b"v=" + _encoded(hmac_of(mechanism, credential.server_key, signed)).encode()


def nonce_fits(presented: str, client_nonce: str, whole_nonce: str) -> bool:
    """The whole nonce of this conversation, or that with the client's part before it once more: so
    librdkafka wrote it up to 2.6.0 (its pull request 4895), which is what distributions ship as
    kcat. Nothing is lost by that: the server's part is in both, and the proof covers either."""
    doubled = client_nonce + whole_nonce
    return hmac.compare_digest(presented, whole_nonce) or hmac.compare_digest(presented, doubled)


def password_matches(mechanism: ScramMechanism, credential: ScramCredential, password: str) -> bool:
    """For those who show the password itself. Takes as long as the iterations take."""
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    client_key = hmac_of(mechanism, salted, b"Client Key")
    return proof_matches(hash_of(mechanism, client_key), credential.stored_key)


def proof_matches(presented: bytes, stored_key: bytes) -> bool:
    """In constant time (CVE-2021-38153 was a comparison that was not)."""
    return hmac.compare_digest(presented, stored_key)


# ---- what both sides share


def auth_message(first: ClientFirst, answer: ServerFirst, unsigned_final: str) -> bytes:
    return b",".join((first.bare.encode(), answer.message, unsigned_final.encode()))


def xor(one: bytes, other: bytes) -> bytes:
    assert len(one) == len(other), f"{len(one)} bytes against {len(other)}"
    value = int.from_bytes(one, "big") ^ int.from_bytes(other, "big")
    return value.to_bytes(len(one), "big")


def escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _matched(pattern: re.Pattern[str], message: bytes, what: str) -> re.Match[str]:
    try:
        found = pattern.fullmatch(message.decode("utf-8"))
    except UnicodeDecodeError as reason:
        raise ScramError(f"the {what} is not UTF-8") from reason
    if found is None:
        raise ScramError(f"the {what} is malformed")
    return found


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error as reason:
        raise ScramError("malformed base64") from reason


def _encoded(data: bytes) -> str:
    return b64encode(data).decode("ascii")
