"""Logins with SASL over a network: who gets in, who does not, and what strangers may ask."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.loopback import GUARD_S, answer_of, loopback, pass_time, run, until
from tidelog.core.security.decoys import DECOY_MECHANISM, DECOY_USER, shared_secret
from tidelog.core.security.principal import Principal
from tidelog.core.security.protocols import LoginSettings, SaslSettings
from tidelog.core.security.sasl import MECHANISMS, LoginFailed, ScramClient, Token
from tidelog.core.security.scram import ScramMechanism, derive_credential
from tidelog.host.entropy import SystemEntropy
from tidelog.host.frames import FrameLimits
from tidelog.host.ports import CloseReason, ConnectionClosed, LoginRejected, NetworkError
from tidelog.rpc import ApiTable, Peer, serve
from tidelog.rpc.logins import (
    LATE_LOGINS,
    LOGIN_TIMEOUT_MS,
    MOST_REQUESTS,
    SASL_AUTHENTICATION_FAILED,
    UNSUPPORTED_SASL_MECHANISM,
    Logins,
)
from tidelog.rpc.mechanisms import credentials_of, offered
from tidelog.rpc.secured_network import SecuredNetwork
from tidelog.rpc.server import PeerAuthentication
from tidelog.wire.protocol import API_VERSIONS, Listener, RequestHeader, encode_request
from tidelog.wire.protocol.schemas.api_versions_request import ApiVersionsRequest
from tidelog.wire.protocol.schemas.api_versions_response import ApiVersionsResponse
from tidelog.wire.protocol.schemas.find_coordinator_request import FindCoordinatorRequest
from tidelog.wire.protocol.schemas.find_coordinator_response import FindCoordinatorResponse
from tidelog.wire.protocol.schemas.sasl_authenticate_request import SaslAuthenticateRequest
from tidelog.wire.protocol.schemas.sasl_handshake_request import SaslHandshakeRequest

WAIT_MS = 600_000
DELAY_MS = 100
FIND_COORDINATOR = 10
ENTROPY = SystemEntropy()
CREDENTIALS = {
    (mechanism, "alice"): derive_credential(mechanism, "tide", b"0123456789abcdef", 4096)
    for mechanism in ScramMechanism
}
EXAMPLE = next(iter(CREDENTIALS.values()))
CREDENTIALS[DECOY_MECHANISM, DECOY_USER] = shared_secret(b"drawn by chance", EXAMPLE)


def verify(token):
    if token != "signed":
        raise LoginFailed("the token is not signed")
    return Token("alice", 1 << 60)


class Stage:
    """A listener with SASL on a network; calls that got through are written down."""

    def __init__(self, network, **sasl):
        self.network = network
        self.served = []
        sasl_settings = SaslSettings(
            MECHANISMS, {"alice": "tide"}, failed_delay_ms=DELAY_MS, **sasl
        )
        made = offered(sasl_settings, lambda *whom: CREDENTIALS.get(whom), verify, ENTROPY)
        self.logins = Logins(sasl_settings, made, network.wheel.clock, network.wheel)
        self.closed = []

    async def open(self):
        handlers = {
            API_VERSIONS: lambda call: call.answer(ApiVersionsResponse()),
            FIND_COORDINATOR: self._serve,
            **LATE_LOGINS,
        }
        accept = serve(
            ApiTable(Listener.CLIENT, handlers),
            "SAFE",
            authentication=PeerAuthentication(logins=self.logins),
            on_closed=lambda _, reason: self.closed.append(reason),
        )
        self.listener = await self.network.listen("127.0.0.1", 0, accept)

    def _serve(self, call):
        self.served.append(call.principal)
        call.answer(FindCoordinatorResponse(error_message="served"))

    def peer(self, mechanism="SCRAM-SHA-512", user="alice", password="tide", token="signed"):
        login = LoginSettings(mechanism, user, password, token_file="token")
        secured = SecuredNetwork(
            self.network,
            self.network.wheel.clock,
            credentials=credentials_of(login, ENTROPY, lambda _: token),
        )
        return Peer(secured, ("127.0.0.1", self.listener.port), "story", connect_timeout_ms=WAIT_MS)

    def stranger(self):
        return Peer(self.network, ("127.0.0.1", self.listener.port), "stranger")


def on_stage(story, *, limits=FrameLimits(), **sasl):  # noqa: B008
    async def whole():
        async with loopback(frame_limits=limits) as network:
            stage = Stage(network, **sasl)
            await stage.open()
            await story(stage)
            await stage.listener.stop(timeout_ms=WAIT_MS)

    run(whole)


async def coordinator(peer):
    return await peer.ask(FindCoordinatorRequest(key="g"), 3, timeout_ms=WAIT_MS)


async def in_time(stage, work):
    """What a refused login is answered with, after its pause."""
    task = asyncio.ensure_future(work)
    async with asyncio.timeout(GUARD_S):
        while not task.done():
            await asyncio.sleep(0)
            if stage.logins.failed:
                pass_time(stage.network, DELAY_MS)
    return await task


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_whoever_knows_the_password_is_served_by_name(mechanism):
    async def story(stage):
        peer = stage.peer(mechanism)
        assert (await coordinator(peer)).error_message == "served"
        assert stage.served == [Principal("User", "alice")]
        assert (stage.logins.succeeded, stage.logins.failed) == (1, 0)
        assert not stage.logins.strangers
        peer.close()

    on_stage(story)


@pytest.mark.parametrize(
    ("mechanism", "wrong", "told"),
    [
        ("SCRAM-SHA-512", {"password": "ebb"}, "unknown user or wrong password .SCRAM-SHA"),
        ("SCRAM-SHA-256", {"user": "mallory"}, "unknown user or wrong password .SCRAM-SHA"),
        ("PLAIN", {"password": "ebb"}, "unknown user or wrong password"),
        ("PLAIN", {"user": "mallory"}, "unknown user or wrong password"),
        ("OAUTHBEARER", {"token": "forged"}, "not signed"),
    ],
)
def test_whoever_does_not_is_told_so_after_a_pause_and_hung_up_on(mechanism, wrong, told):
    async def story(stage):
        peer = stage.peer(mechanism, **wrong)
        asked = asyncio.ensure_future(coordinator(peer))
        await until(lambda: stage.logins.failed)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not asked.done()
        pass_time(stage.network, DELAY_MS)
        with pytest.raises(LoginRejected, match=told) as refused:
            await asked
        assert refused.value.error_code == SASL_AUTHENTICATION_FAILED
        await until(lambda: stage.closed)
        assert stage.closed == [CloseReason.LOGIN_FAILED]
        assert stage.served == []

    on_stage(story)


def test_who_is_refused_is_not_called_late_afterwards(caplog):
    async def story(stage):
        peer = stage.peer("PLAIN", password="ebb")
        with pytest.raises(LoginRejected):
            await in_time(stage, coordinator(peer))
        await until(lambda: stage.closed)
        pass_time(stage.network, 2 * LOGIN_TIMEOUT_MS)

    on_stage(story)
    assert "refused: wrong password" in caplog.text
    assert "no login within" not in caplog.text


def test_a_server_cannot_make_a_client_work_without_end():
    client = ScramClient(ScramMechanism.SCRAM_SHA_512, "alice", "tide", "abc")
    with pytest.raises(LoginFailed, match="999999999 iterations"):
        client.answer(b"r=abcdef,s=c2FsdA==,i=999999999")


def test_an_unknown_user_and_a_wrong_password_look_the_same():
    """Message by message, as far as a stranger can see."""

    async def shape(stage, user):
        peer = stage.stranger()
        await peer.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1, timeout_ms=WAIT_MS)
        first = SaslAuthenticateRequest(auth_bytes=f"n,,n={user},r=abc".encode())
        answers = [await peer.ask(first, 1, timeout_ms=WAIT_MS)]
        fields = dict(each.split("=", 1) for each in answers[0].auth_bytes.decode().split(","))
        proof = "A" * 86 + "=="
        final = SaslAuthenticateRequest(auth_bytes=f"c=biws,r={fields['r']},p={proof}".encode())
        answers.append(await in_time(stage, peer.ask(final, 1, timeout_ms=WAIT_MS)))
        peer.close()
        codes = [(each.error_code, each.error_message) for each in answers]
        return codes, fields["i"], len(fields["r"]), len(fields["s"])

    async def story(stage):
        assert await shape(stage, "alice") == await shape(stage, "nobody")

    on_stage(story)


def test_a_mechanism_that_is_not_offered_is_refused_with_those_that_are():
    async def story(stage):
        peer = stage.stranger()
        request = SaslHandshakeRequest(mechanism="GSSAPI")
        answer = await peer.ask(request, 1, timeout_ms=WAIT_MS)
        assert answer.error_code == UNSUPPORTED_SASL_MECHANISM
        assert tuple(answer.mechanisms) == MECHANISMS
        await until(lambda: stage.closed)
        assert stage.closed == [CloseReason.LOGIN_FAILED]

    on_stage(story)


def test_a_stranger_is_told_the_versions_and_nothing_else():
    async def story(stage):
        peer = stage.stranger()
        assert isinstance(
            await peer.ask(ApiVersionsRequest(), 0, timeout_ms=WAIT_MS), ApiVersionsResponse
        )
        with pytest.raises(NetworkError):
            await coordinator(peer)
        await until(lambda: stage.closed)
        assert stage.closed == [CloseReason.NOT_LOGGED_IN]
        assert stage.served == []

    on_stage(story)


@pytest.mark.parametrize(
    "requests",
    [
        [SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc")],
        [SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeRequest(mechanism="PLAIN")],
        [SaslHandshakeRequest(mechanism="PLAIN"), ApiVersionsRequest()],
    ],
)
def test_messages_out_of_order_end_the_connection(requests):
    async def story(stage):
        peer = stage.stranger()
        for each in requests[:-1]:
            await peer.ask(each, 1, timeout_ms=WAIT_MS)
        with pytest.raises(NetworkError):
            await peer.ask(requests[-1], 1, timeout_ms=WAIT_MS)
        await until(lambda: stage.closed)
        assert stage.closed == [CloseReason.NOT_LOGGED_IN]

    on_stage(story)


def test_a_stranger_has_little_time():
    async def story(stage):
        peer = stage.stranger()
        await peer.ask(ApiVersionsRequest(), 0, timeout_ms=WAIT_MS)
        pass_time(stage.network, LOGIN_TIMEOUT_MS)
        await until(lambda: stage.closed)
        assert stage.closed == [CloseReason.NOT_LOGGED_IN]
        peer.close()

    on_stage(story)


def test_a_stranger_has_few_requests():
    async def story(stage):
        peer = stage.stranger()
        for _ in range(MOST_REQUESTS):
            await peer.ask(ApiVersionsRequest(), 0, timeout_ms=WAIT_MS)
        with pytest.raises(ConnectionClosed):
            await peer.ask(ApiVersionsRequest(), 0, timeout_ms=WAIT_MS)
        assert stage.closed == [CloseReason.NOT_LOGGED_IN]

    on_stage(story)


def test_a_stranger_sends_small_frames_only():
    limits = FrameLimits(untrusted_frame_bytes=1000)

    async def story(stage):
        connection = await stage.network.connect(
            "127.0.0.1", stage.listener.port, timeout_ms=WAIT_MS
        )
        with pytest.raises(NetworkError):
            await answer_of(connection, [bytes(1001)], timeout_ms=WAIT_MS)
        assert stage.closed == [CloseReason.FRAME_TOO_LARGE]
        logged_in = stage.peer()
        request = FindCoordinatorRequest(key="g" * 2000)
        await logged_in.ask(request, 3, timeout_ms=WAIT_MS)
        logged_in.close()

    on_stage(story, limits=limits)


def test_the_oldest_of_too_many_strangers_makes_room(monkeypatch):
    monkeypatch.setattr("tidelog.rpc.logins.MOST_STRANGERS", 2)

    async def story(stage):
        peers = [stage.stranger() for _ in range(3)]
        for peer in peers[:2]:
            await peer.ask(ApiVersionsRequest(), 0, timeout_ms=WAIT_MS)
        known = stage.peer()
        await coordinator(known)
        assert stage.closed == [CloseReason.NOT_LOGGED_IN]
        assert len(stage.logins.strangers) == 1
        for peer in (*peers, known):
            peer.close()

    on_stage(story)


def test_a_login_with_an_end_is_renewed_on_the_same_connection():
    async def story(stage):
        peer = stage.peer()
        await coordinator(peer)
        for renewals in (1, 2, 3):
            pass_time(stage.network, 9_000)
            answers = [coordinator(peer) for _ in range(3)]
            assert {each.error_message for each in await asyncio.gather(*answers)} == {"served"}
            assert stage.logins.succeeded == 1 + renewals
        assert len(stage.listener.connections) == 1
        assert set(stage.served) == {Principal("User", "alice")}
        peer.close()

    on_stage(story, reauth_max_ms=10_000)


def test_a_login_that_is_over_and_not_renewed_ends_the_connection():
    async def story(stage):
        peer = stage.stranger()
        await log_in_plain(peer, b"\0alice\0tide")
        await coordinator(peer)
        pass_time(stage.network, 10_000)
        with pytest.raises(NetworkError):
            await coordinator(peer)
        assert stage.closed == [CloseReason.LOGIN_EXPIRED]

    on_stage(story, reauth_max_ms=10_000)


async def log_in_plain(peer, message):
    await peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1, timeout_ms=WAIT_MS)
    request = SaslAuthenticateRequest(auth_bytes=message)
    return await peer.ask(request, 1, timeout_ms=WAIT_MS)


def test_nobody_becomes_somebody_else_on_the_way():
    async def story(stage):
        stage.logins.mechanisms["PLAIN"].args[0]["bob"] = "sand"
        peer = stage.stranger()
        answer = await log_in_plain(peer, b"\0alice\0tide")
        assert answer.session_lifetime_ms == 10_000
        pass_time(stage.network, 2_000)
        answer = await in_time(stage, log_in_plain(peer, b"\0bob\0sand"))
        assert answer.error_code == SASL_AUTHENTICATION_FAILED
        assert "not of User:" in answer.error_message
        await until(lambda: stage.closed)

    on_stage(story, reauth_max_ms=10_000)


@pytest.mark.parametrize(("password", "lets_in"), [(b"tide", True), (b"ebb", False)])
def test_old_clients_send_messages_without_a_request_around_them(password, lets_in):
    async def story(stage):
        connection = await stage.network.connect(
            "127.0.0.1", stage.listener.port, timeout_ms=WAIT_MS
        )
        handshake = encode_request(
            RequestHeader(17, 0, 1, "old"), SaslHandshakeRequest(mechanism="PLAIN")
        )
        await answer_of(connection, handshake, timeout_ms=WAIT_MS)
        message = answer_of(connection, [b"\0alice\0" + password], timeout_ms=WAIT_MS)
        if lets_in:
            assert bytes(await message) == b""
            ask = encode_request(RequestHeader(10, 3, 2, "old"), FindCoordinatorRequest(key="g"))
            await answer_of(connection, ask, timeout_ms=WAIT_MS)
            assert stage.served == [Principal("User", "alice")]
        else:
            with pytest.raises(NetworkError):
                await in_time(stage, message)
            assert stage.closed == [CloseReason.LOGIN_FAILED]
        connection.close()

    on_stage(story)


def test_who_is_logged_in_for_good_cannot_log_in_again():
    async def story(stage):
        peer = stage.stranger()
        await log_in_plain(peer, b"\0alice\0tide")
        again = SaslHandshakeRequest(mechanism="PLAIN")
        assert (await peer.ask(again, 1, timeout_ms=WAIT_MS)).error_code == 34
        message = SaslAuthenticateRequest(auth_bytes=b"\0alice\0tide")
        assert (await peer.ask(message, 1, timeout_ms=WAIT_MS)).error_code == 34
        await coordinator(peer)
        peer.close()

    on_stage(story)


API_KEYS = st.one_of(st.sampled_from([0, 1, 3, 10, 17, 18, 19, 36]), st.integers(0, 90))
HEADERS = st.builds(
    lambda key, version, rest: key.to_bytes(2, "big") + version.to_bytes(2, "big") + rest,
    API_KEYS,
    st.integers(0, 20),
    st.binary(max_size=60),
)
SASL_MESSAGES = st.one_of(
    st.binary(max_size=60),
    st.text(alphabet="n,=rabcypBearer \x00\x01", max_size=60).map(str.encode),
)
SASL_FRAMES = st.one_of(
    st.sampled_from(MECHANISMS).map(
        lambda name: encode_request(
            RequestHeader(17, 1, 1, "x"), SaslHandshakeRequest(mechanism=name)
        )
    ),
    SASL_MESSAGES.map(
        lambda data: encode_request(
            RequestHeader(36, 1, 1, "x"), SaslAuthenticateRequest(auth_bytes=data)
        )
    ),
)
FRAMES = st.one_of(st.binary(min_size=1, max_size=60), HEADERS).map(lambda frame: [frame])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(FRAMES, SASL_FRAMES), min_size=1, max_size=6))
def test_nothing_that_a_stranger_sends_gets_through_or_breaks_us(frames):
    """Every connection ends for a reason of its own, and none with an error of ours."""

    async def story(stage):
        connection = await stage.network.connect(
            "127.0.0.1", stage.listener.port, timeout_ms=WAIT_MS
        )
        for frame in frames:
            if not connection.is_closed:
                connection.post(frame)
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        connection.close()
        while not stage.closed:
            await asyncio.sleep(0)
            pass_time(stage.network, DELAY_MS)
        assert stage.served == []
        assert stage.logins.succeeded == 0
        assert CloseReason.HANDLER_FAILED not in stage.closed

    on_stage(story)
