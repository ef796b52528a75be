"""Which bearer tokens are believed."""

import json
import ssl
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from support.certificates import Authority
from tidelog.core.security.protocols import TokenSettings
from tidelog.core.security.sasl import LoginFailed
from tidelog.host.bearer_tokens import TokenKeysError, TokenVerifier, fetched

RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ISSUER, AUDIENCE = "https://issuer.example.org", "tides"
NOW = int(time.time())
LIFE_S = 86_400
"""Tokens are made when tests are collected; they may be tried much later."""


def wall_ms():
    return time.time_ns() // 1_000_000


def jwks():
    first = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key()))
    second = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(EC.public_key()))
    shared = {"kty": "oct", "k": "c2hhcmVk", "kid": "shared"}
    return {"keys": [{**first, "kid": "one"}, {**second, "kid": "two"}, shared]}


def signed(key=RSA, algorithm="RS256", kid="one", **claims):
    usual = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "exp": NOW + LIFE_S}
    body = {name: value for name, value in {**usual, **claims}.items() if value is not None}
    return jwt.encode(body, key, algorithm=algorithm, headers={"kid": kid})


@pytest.fixture
def verifier(tmp_path):
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps(jwks()))
    made = TokenVerifier(TokenSettings(f"file://{path}", ISSUER, (AUDIENCE,)), wall_ms)
    made.adopt(made.read())
    return made


@pytest.mark.parametrize(
    "token",
    [signed(), signed(EC, "ES256", "two"), signed(aud=["others", AUDIENCE])],
)
def test_a_token_of_the_issuer_names_its_user_and_its_end(verifier, token):
    found = verifier.verify(token)
    assert found.user == "alice"
    assert found.expires_ms == (NOW + LIFE_S) * 1000


def test_a_token_that_ended_a_moment_ago_is_taken_because_clocks_differ(verifier):
    ended = int(time.time()) - 5
    assert verifier.verify(signed(exp=ended)).expires_ms >= ended * 1000


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (signed(exp=NOW - 60), "expired"),
        (signed(exp=None), "exp"),
        (signed(nbf=NOW + LIFE_S), "not valid yet"),
        (signed(iat=NOW + LIFE_S), "not valid yet"),
        (signed(sub=None), "sub"),
        (signed(sub=""), "names no user"),
        (signed(iss="https://mallory.example.org"), "issuer"),
        (signed(aud="others"), "Audience"),
        (signed(kid="three"), "unknown key"),
        (signed(EC, "ES256", "one"), "alg"),
        (signed(rsa.generate_private_key(65537, 2048)), "Signature"),
        (signed(None, "none"), "alg"),
        (signed("c2hhcmVkc2hhcmVkc2hhcmVkc2hhcmVkc2hhcmVk", "HS256", "shared"), "unknown key"),
        (signed()[:-6] + "AAAAAA", "Signature"),
        ("nothing", "segments"),
        ("", "segments"),
    ],
)
def test_every_other_token_is_refused(verifier, token, told):
    with pytest.raises(LoginFailed, match=told):
        verifier.verify(token)


def test_the_clock_of_the_node_decides(tmp_path):
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps(jwks()))
    late = TokenVerifier(TokenSettings(f"file://{path}"), lambda: (NOW + 2 * LIFE_S) * 1000)
    late.adopt(late.read())
    with pytest.raises(LoginFailed, match="expired"):
        late.verify(signed(aud=None))


@pytest.mark.parametrize("end", ["soon", [], 1e400])
def test_an_end_that_is_no_time_is_refused(verifier, end):
    body = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "exp": end}
    key = jwt.PyJWS().encode(json.dumps(body).encode(), RSA, "RS256", {"kid": "one"})
    with pytest.raises(LoginFailed):
        verifier.verify(key)


def test_an_unknown_key_is_a_reason_to_look_for_new_ones(verifier):
    asked = []
    verifier.on_unknown_key = lambda: asked.append(1)
    verifier.verify(signed())
    assert asked == []
    with pytest.raises(LoginFailed):
        verifier.verify(signed(kid="three"))
    assert asked == [1]


def test_without_keys_nobody_is_let_in(tmp_path):
    verifier = TokenVerifier(TokenSettings(f"file://{tmp_path}/jwks.json"), wall_ms)
    with pytest.raises(TokenKeysError, match="No such file"):
        verifier.read()
    with pytest.raises(LoginFailed, match="no keys"):
        verifier.verify(signed())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": []}', '{"keys": [{"kty": "RSA"}]}'])
def test_what_is_no_key_set_is_told(tmp_path, text):
    path = tmp_path / "jwks.json"
    path.write_text(text)
    with pytest.raises(TokenKeysError, match=r"jwks\.json"):
        TokenVerifier(TokenSettings(f"file://{path}"), wall_ms).read()


@pytest.mark.parametrize("url", ["http://127.0.0.1/keys", "ftp://x/keys", "/etc/passwd"])
def test_keys_come_from_nowhere_else(url):
    with pytest.raises(TokenKeysError, match="neither"):
        fetched(url)


class Issuer(BaseHTTPRequestHandler):
    """Shows its keys, and sends whoever asks for others to another place."""

    def do_GET(self):
        found = self.path == "/jwks"
        self.send_response(200 if found else 302)
        if not found:
            self.send_header("Location", "/jwks")
        self.end_headers()
        self.wfile.write(json.dumps(jwks()).encode() if found else b"")

    def log_message(self, *_):
        """Nobody reads it."""


@contextmanager
def issuer(directory, authority):
    """Its address. It has a certificate for localhost."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(
        authority.leaf("issuer", hosts=("localhost",)).write(directory / "i.pem")
    )
    with HTTPServer(("127.0.0.1", 0), Issuer) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"https://localhost:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_keys_come_over_https_from_an_issuer_that_the_machine_trusts(tmp_path, monkeypatch):
    authority = Authority()
    with issuer(tmp_path, authority) as address:
        verifier = TokenVerifier(TokenSettings(f"{address}/jwks", ISSUER, (AUDIENCE,)), wall_ms)
        with pytest.raises(TokenKeysError, match="certificate verify failed"):
            verifier.read()
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.write(tmp_path / "ca.pem")))
        verifier.adopt(verifier.read())
        with pytest.raises(TokenKeysError, match="302"):
            fetched(f"{address}/elsewhere")
    assert verifier.verify(signed()).user == "alice"
