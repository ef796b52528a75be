"""Users as an operator writes them: `SCRAM-SHA-512=[name=alice,password=secret]`, as in Kafka."""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from typing import NamedTuple

from tidelog.core.security.scram import (
    DEFAULT_ITERATIONS,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
    derive_credential,
)

_OUTER = re.compile(r"\s*([A-Z0-9-]+)\s*=\s*\[(.*)\]\s*", re.DOTALL)
_PAIR = re.compile(r'\s*([a-z]+)\s*=\s*(?:"([^"]*)"|([^,"]*?))\s*(?:,|$)')
_NAMES = ("name", "password", "iterations", "salt", "saltedpassword")


class ScramUser(NamedTuple):
    name: str
    mechanism: ScramMechanism
    credential: ScramCredential


def parse_scram_user(text: str, fresh_salt: bytes) -> ScramUser:
    """ValueError says what is wrong, without the password."""
    assert len(fresh_salt) >= 16, f"a salt of {len(fresh_salt)} bytes"
    outer = _OUTER.fullmatch(text)
    if outer is None:
        raise ValueError("a user is written SCRAM-SHA-512=[name=NAME,password=PASSWORD]")
    mechanism = ScramMechanism.of_sasl_name(outer[1])
    if mechanism is None:
        raise ValueError(f"{outer[1]} is none of SCRAM-SHA-256 and SCRAM-SHA-512")
    given = _pairs(outer[2])
    name = given.get("name", "")
    if not name:
        raise ValueError("a user needs a name=")
    iterations = _iterations(given.get("iterations", str(DEFAULT_ITERATIONS)))
    salt = _bytes_of(given, "salt") if "salt" in given else fresh_salt
    if ("password" in given) == ("saltedpassword" in given):
        raise ValueError("a user has either a password= or a saltedpassword=")
    if "password" in given:
        if not given["password"]:
            raise ValueError("the password is empty")
        credential = derive_credential(mechanism, given["password"], salt, iterations)
    else:
        if "salt" not in given:
            raise ValueError("a saltedpassword= comes with its salt=")
        credential = credential_of(mechanism, _bytes_of(given, "saltedpassword"), salt, iterations)
    return ScramUser(name, mechanism, credential)


def _pairs(text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    position = 0
    while position < len(text):
        pair = _PAIR.match(text, position)
        if pair is None or pair[1] not in _NAMES or pair[1] in given:
            raise ValueError(f"what stands in the brackets is one each of {', '.join(_NAMES)}")
        given[pair[1]] = pair[2] if pair[2] is not None else pair[3]
        position = pair.end()
    return given


def _iterations(text: str) -> int:
    if not text.isdecimal() or not MIN_ITERATIONS <= int(text) <= MAX_ITERATIONS:
        raise ValueError(f"iterations= is a number from {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    return int(text)


def _bytes_of(given: dict[str, str], name: str) -> bytes:
    try:
        return b64decode(given[name], validate=True)
    except Base64Error:
        raise ValueError(f"{name}= is written in base64") from None
