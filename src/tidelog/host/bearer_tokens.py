"""Bearer tokens of OAUTHBEARER: signed JWTs, verified with the public keys of their issuer.

The keys are a JWKS at one address that the settings name, a file or an https URL; a token cannot
make us ask anywhere else (CVE-2025-27817), and no redirection is followed. Only signatures with
public keys count: what is not signed, or signed with a shared secret, is refused.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.error import URLError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from tidelog.core.security.protocols import TokenSettings
from tidelog.core.security.sasl import LoginFailed, Token

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
LONGEST_KEYS_BYTES = 1024 * 1024
TIMEOUT_S = 10
INSTALL = "pip install 'tidelog[oauth]'"

NO_SYSTEM_CLOCK = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}
"""The library would look at the clock of the machine; `TokenVerifier` looks at its node's."""

Fetch = Callable[[str], bytes]
Keys = Mapping[str, Any]
"""By key id; "" for one without."""


class TokenKeysError(Exception):
    """The keys cannot be had, and why."""


class TokenVerifier:
    """`verify` runs on the event loop, `read` on a thread."""

    __slots__ = ("_fetch", "_jwt", "_keys", "_settings", "_wall_ms", "on_unknown_key")

    def __init__(
        self, settings: TokenSettings, wall_ms: Callable[[], int], fetch: Fetch | None = None
    ) -> None:
        """TokenKeysError if the library is missing."""
        try:
            import jwt  # noqa: PLC0415 - optional, and costly to import
        except ImportError:
            raise TokenKeysError(f"OAUTHBEARER needs a library: {INSTALL}") from None
        self._jwt = jwt
        self._settings = settings
        self._wall_ms = wall_ms
        self._fetch = fetch or fetched
        self._keys: Keys | None = None
        self.on_unknown_key: Callable[[], None] = lambda: None
        """The issuer may have a new key: read them before it is time."""

    def read(self) -> Keys:
        """Waits for a disk or a network. TokenKeysError if there are no keys."""
        text = self._fetch(self._settings.keys_url)
        try:
            listed = json.loads(text)["keys"]
            found = {
                str(each.get("kid", "")): self._jwt.PyJWK.from_dict(each)
                for each in listed
                if each.get("kty") in ("RSA", "EC", "OKP") and each.get("use", "sig") == "sig"
            }
        except (ValueError, KeyError, TypeError, AttributeError, self._jwt.PyJWTError) as reason:
            raise TokenKeysError(f"{self._settings.keys_url}: no JWKS ({reason})") from None
        if not found:
            raise TokenKeysError(f"{self._settings.keys_url}: no public keys in it")
        return found

    def adopt(self, keys: Keys) -> None:
        self._keys = keys

    def verify(self, token: str) -> Token:
        """LoginFailed unless it is signed by the issuer, for us, and not over."""
        settings, jwt = self._settings, self._jwt
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key=self._key_of(token),
                algorithms=[*ALGORITHMS],
                issuer=settings.issuer,
                audience=[*settings.audiences] or None,
                options={
                    "require": ["exp", settings.user_claim],
                    "verify_aud": bool(settings.audiences),
                    **NO_SYSTEM_CLOCK,
                },
            )
            ends_s = self._check_times(claims)
        except (ValueError, TypeError, OverflowError, jwt.PyJWTError) as reason:
            raise LoginFailed(_short(reason)) from None
        user = claims[settings.user_claim]
        if not isinstance(user, str) or not user:
            raise LoginFailed(f"{settings.user_claim} names no user")
        return Token(user, ends_s * 1000)

    def _check_times(self, claims: Mapping[str, Any]) -> int:
        """When it ends, by the clock of this node. ValueError if that was before, or if it is not
        valid yet."""
        now_s, skew_s = self._wall_ms() / 1000, self._settings.clock_skew_s
        ends_s = int(claims["exp"])
        if ends_s <= now_s - skew_s:
            raise ValueError("the token has expired")
        for begin in ("nbf", "iat"):
            if begin in claims and int(claims[begin]) > now_s + skew_s:
                raise ValueError(f"the token is not valid yet ({begin})")
        return ends_s

    def _key_of(self, token: str) -> Any:
        keys = self._keys
        if keys is None:
            raise LoginFailed("no keys to verify tokens with yet")
        wanted = str(self._jwt.get_unverified_header(token).get("kid", ""))
        if not wanted and len(keys) == 1:
            return next(iter(keys.values()))
        key = keys.get(wanted)
        if key is None:
            self.on_unknown_key()
            raise LoginFailed("the token is signed with an unknown key")
        return key


class _NoRedirection(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> Request | None:
        return None


def fetched(url: str) -> bytes:
    """What is at a file:// or https:// address, within bounds."""
    address = urlsplit(url)
    try:
        if address.scheme == "file":
            with open(unquote(address.path), "rb") as file:
                text = file.read(LONGEST_KEYS_BYTES + 1)
        else:
            if address.scheme != "https":
                raise TokenKeysError(f"{url}: neither file:// nor https://")
            opener = build_opener(_NoRedirection())
            with opener.open(Request(url), timeout=TIMEOUT_S) as answer:  # noqa: S310 - https
                text = answer.read(LONGEST_KEYS_BYTES + 1)
    except (OSError, URLError) as reason:
        raise TokenKeysError(f"{url}: {reason}") from None
    if len(text) > LONGEST_KEYS_BYTES:
        raise TokenKeysError(f"{url}: more than {LONGEST_KEYS_BYTES} bytes")
    return text


def _short(reason: Exception) -> str:
    return str(reason) or type(reason).__name__
