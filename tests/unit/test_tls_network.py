"""The network with TLS: the same frames, bounds and ends as without, and no stranger's."""

import asyncio
import socket
import ssl

import pytest
import uvloop

from support.certificates import DAY, Authority
from support.loopback import Script, answer_of, echo, loopback, pass_time, run, until
from tidelog.core.security.certificates import read_certificate
from tidelog.core.security.tls_settings import ClientAuth, TlsSettings
from tidelog.host.ports import CloseReason, NetworkError, PeerNotTrusted
from tidelog.host.tls import TlsError, TlsSource
from tidelog.host.tls_transport import HANDSHAKE_TIMEOUT_MS

WAIT_MS = 60_000
AUTHORITY = Authority()
SERVER = AUTHORITY.leaf("server")
LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])


def served(leaf=SERVER, **more):
    settings = TlsSettings(key=leaf.key, chain=leaf.certificate, **more)
    return TlsSource(settings, server_side=True)


def trusting(authority=AUTHORITY, **more):
    return TlsSource(TlsSettings(trusted=authority.certificate, **more), server_side=False)


class Stage:
    """A listener with TLS on a network, and what its handler heard."""

    def __init__(self, network, listener, script):
        self.network = network
        self.listener = listener
        self.script = script

    async def connect(self, tls, host="127.0.0.1"):
        port = self.listener.port
        return await self.network.connect(host, port, timeout_ms=WAIT_MS, tls=tls)


def on_stage(story, *, loop=None, server=None, on_request=echo):
    async def whole():
        async with loopback() as network:
            script = Script(on_request)
            listener = await network.listen("127.0.0.1", 0, script.accept, tls=server or served())
            await story(Stage(network, listener, script))
            await listener.stop(timeout_ms=WAIT_MS)

    run(whole, loop)


@LOOPS
def test_frames_pass_in_both_directions(loop):
    async def story(stage):
        connection = await stage.connect(trusting())
        answers = [answer_of(connection, [b"%d" % n], timeout_ms=WAIT_MS) for n in range(50)]
        assert [bytes(await each) for each in answers] == [b"re:%d" % n for n in range(50)]
        connection.close()
        await until(lambda: stage.script.closed)
        assert stage.script.closed == [CloseReason.CLOSED_BY_PEER]

    on_stage(story, loop=loop)


@LOOPS
@pytest.mark.parametrize("size_bytes", [16 * 1024, 65_531, 1_000_003, 20_000_000])
def test_large_frames_arrive_whole(loop, size_bytes):
    large = bytes(range(256)) * (size_bytes // 256 + 1)

    def take(connection, frame, slot):
        connection.trusted = True
        slot.answer([b"re:", bytes(frame)])

    async def story(stage):
        connection = await stage.connect(trusting())
        await answer_of(connection, [b"hello"], timeout_ms=WAIT_MS)
        sent = [memoryview(large)[:size_bytes]]
        answer = await answer_of(connection, sent, timeout_ms=WAIT_MS)
        assert answer[3:] == sent[0]
        connection.close()

    on_stage(story, loop=loop, on_request=take)


def test_a_reader_that_lags_is_served_in_pieces_that_the_socket_takes():
    large = b"x" * 30_000_000

    async def story(stage):
        connection = await stage.connect(trusting())
        connection.stream._transport.pause_reading()
        answer = answer_of(connection, [b"much"], timeout_ms=WAIT_MS)
        await until(lambda: stage.script.requests)
        (peer,) = stage.listener.connections
        await until(lambda: peer.congested)
        assert peer.stream._transport.get_write_buffer_size() > 10_000_000
        assert peer.stream._transport._encrypted.pending == 0
        connection.stream._transport.resume_reading()
        assert len(await answer) == len(large)
        assert not peer.congested
        connection.close()

    on_stage(story, on_request=lambda _connection, _frame, slot: slot.answer([large]))


def test_a_server_that_the_client_does_not_trust_is_asked_nothing():
    async def story(stage):
        with pytest.raises(PeerNotTrusted, match=r"unable to get local issuer|self-signed"):
            await stage.connect(trusting(Authority("another")))
        await until(lambda: not stage.listener.connections)
        assert stage.script.requests == []

    on_stage(story)


@pytest.mark.parametrize(
    ("leaf", "reason"),
    [
        (AUTHORITY.leaf("server", expires_in=-DAY), "certificate has expired"),
        (AUTHORITY.leaf("server", hosts=("elsewhere",)), "IP address mismatch"),
    ],
)
def test_a_certificate_that_does_not_fit_is_refused_by_the_client(leaf, reason):
    async def story(stage):
        with pytest.raises(PeerNotTrusted, match=reason):
            await stage.connect(trusting())

    on_stage(story, server=served(leaf))


async def greet(stage, tls):
    connection = await stage.connect(tls)
    return await answer_of(connection, [b"hello"], timeout_ms=WAIT_MS)


def test_a_client_may_be_told_not_to_look_at_the_name():
    async def story(stage):
        (await stage.connect(trusting(check_host=False))).close()

    on_stage(story, server=served(AUTHORITY.leaf("server", hosts=("elsewhere",))))


def test_a_client_certificate_is_known_to_the_handler():
    alice = AUTHORITY.leaf({"O": "Tides", "CN": "alice"})
    subjects = []

    def note(connection, frame, slot):
        subjects.append(read_certificate(connection.certificate).subject)
        slot.answer([b"ok"])

    async def story(stage):
        tls = trusting(key=alice.key, chain=alice.certificate)
        connection = await stage.connect(tls)
        await answer_of(connection, [b"who am I?"], timeout_ms=WAIT_MS)
        connection.close()

    required = {"client_auth": ClientAuth.REQUIRED, "trusted": AUTHORITY.certificate}
    on_stage(story, server=served(**required), on_request=note)
    assert subjects == ["CN=alice,O=Tides"]


UNSOUND = [
    (None, "certificate required"),
    (Authority("another").leaf("mallory"), "unknown ca"),
    (AUTHORITY.leaf("alice", expires_in=-DAY), "certificate expired"),
]


@pytest.mark.parametrize(("client", "reason"), UNSOUND)
def test_a_client_whose_certificate_is_refused_is_told_why(client, reason):
    shown = {} if client is None else {"key": client.key, "chain": client.certificate}

    async def story(stage):
        connection = await stage.connect(trusting(**shown))
        await until(lambda: connection.is_closed)
        with pytest.raises(PeerNotTrusted, match=reason):
            await answer_of(connection, [b"hello"], timeout_ms=WAIT_MS)

    required = {"client_auth": ClientAuth.REQUIRED, "trusted": AUTHORITY.certificate}
    on_stage(story, server=served(**required))


@pytest.mark.parametrize("client", [client for client, _ in UNSOUND])
def test_a_client_without_a_sound_certificate_gets_no_answer(client):
    shown = {} if client is None else {"key": client.key, "chain": client.certificate}

    async def story(stage):
        # With TLS 1.3 a client hears of the refusal after its own side of the handshake is done.
        with pytest.raises(NetworkError):
            await greet(stage, trusting(**shown))
        await until(lambda: not stage.listener.connections)
        assert stage.script.requests == []

    required = {"client_auth": ClientAuth.REQUIRED, "trusted": AUTHORITY.certificate}
    on_stage(story, server=served(**required))


def ask_and_leave(port):
    """A request and the end of TLS in one piece, as from somebody who does not wait."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trusting()().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with socket.create_connection(("127.0.0.1", port)) as peer:
        for _ in range(2):
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                peer.sendall(outgoing.read())
                incoming.write(peer.recv(65_536))
        tls.do_handshake()
        tls.write(b"\0\0\0\5hello")
        with pytest.raises(ssl.SSLWantReadError):
            tls.unwrap()
        peer.sendall(outgoing.read())
        while peer.recv(65_536):
            pass


def test_an_answer_to_somebody_who_has_left_costs_nobody_else_theirs():
    async def story(stage):
        await asyncio.to_thread(ask_and_leave, stage.listener.port)
        await until(lambda: stage.script.closed)
        assert stage.script.requests == [b"hello"]

    on_stage(story)


def test_plain_text_to_a_listener_with_tls_ends_the_connection():
    async def story(stage):
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.listener.port)
        writer.write(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff")
        await reader.read()
        writer.close()
        await writer.wait_closed()
        await until(lambda: not stage.listener.connections)
        assert stage.script.requests == []

    on_stage(story)


def test_tls_to_a_plain_text_listener_is_told_as_such():
    async def story():
        async with loopback() as network:
            script = Script(echo)
            listener = await network.listen("127.0.0.1", 0, script.accept)
            with pytest.raises(NetworkError):
                await network.connect(
                    "127.0.0.1", listener.port, timeout_ms=WAIT_MS, tls=trusting()
                )
            await listener.stop(timeout_ms=WAIT_MS)
            assert script.closed == [CloseReason.FRAME_TOO_LARGE]

    run(story)


def test_a_peer_that_never_shakes_hands_is_counted_and_sent_away():
    async def story(stage):
        with socket.create_connection(("127.0.0.1", stage.listener.port)) as silent:
            await until(lambda: stage.listener.connections)
            assert stage.network.admission.open == 1
            assert stage.script.connections == []
            pass_time(stage.network, HANDSHAKE_TIMEOUT_MS + 1)
            await until(lambda: not stage.listener.connections)
            silent.setblocking(True)
            assert silent.recv(10) == b""
        assert stage.network.admission.open == 0

    on_stage(story)


def test_a_paused_connection_shakes_hands_and_is_read_when_it_goes_on():
    async def story(stage):
        accept = stage.script.accept

        def held(connection):
            handler = accept(connection)
            connection.pause()
            return handler

        listener = await stage.network.listen("127.0.0.1", 0, held, tls=served())
        connection = await stage.network.connect(
            "127.0.0.1", listener.port, timeout_ms=WAIT_MS, tls=trusting()
        )
        answer = answer_of(connection, [b"early"], timeout_ms=WAIT_MS)
        await until(lambda: stage.script.connections)
        for _ in range(20):
            await asyncio.sleep(0)
        assert stage.script.requests == []
        stage.script.connections[0].resume()
        assert bytes(await answer) == b"re:early"
        connection.close()
        await listener.stop(timeout_ms=WAIT_MS)

    on_stage(story)


def test_a_renewed_certificate_serves_the_next_connection(tmp_path):
    path = SERVER.write(tmp_path / "server.pem")
    source = TlsSource(TlsSettings(key_file=str(path)), server_side=True)
    assert source.renewed(source.first_settings) is None

    async def story(stage):
        earlier = await stage.connect(trusting())
        renewed = Authority("next")
        renewed.leaf("server").write(path)
        source.adopt(source.renewed(source.first_settings))
        assert source.renewed(source.first_settings) is None
        with pytest.raises(PeerNotTrusted):
            await stage.connect(trusting())
        later = await stage.connect(trusting(renewed))
        for connection in (earlier, later):
            assert bytes(await answer_of(connection, [b"?"], timeout_ms=WAIT_MS)) == b"re:?"
            connection.close()

    on_stage(story, server=source)


def test_versions_and_ciphers_are_those_that_were_asked_for():
    chosen = served(versions=("TLSv1.2",), ciphers=("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",))()
    assert chosen.maximum_version is ssl.TLSVersion.TLSv1_2
    older = [each["name"] for each in chosen.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert older == ["ECDHE-ECDSA-AES256-GCM-SHA384"]
    assert served()().minimum_version is ssl.TLSVersion.TLSv1_2
    assert served(ciphers=("TLS_AES_128_GCM_SHA256",))().minimum_version is ssl.TLSVersion.TLSv1_3


def test_an_encrypted_key_needs_its_password(tmp_path):
    path = tmp_path / "server.pem"
    path.write_text(SERVER.encrypted_key("wave") + SERVER.certificate)
    TlsSource(TlsSettings(key_file=str(path), key_password="wave"), server_side=True)
    with pytest.raises(TlsError, match=r"ssl\.key\.password"):
        TlsSource(TlsSettings(key_file=str(path)), server_side=True)
    with pytest.raises(TlsError, match="belong together"):
        TlsSource(TlsSettings(key_file=str(path), key_password="surf"), server_side=True)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (TlsSettings(), "needs a certificate"),
        (TlsSettings(key_file="/nowhere/at/all.pem"), "No such file"),
        (TlsSettings(key=SERVER.key, chain=AUTHORITY.certificate), "belong together"),
        (TlsSettings(key=SERVER.key, chain="nothing"), "belong together"),
        (TlsSettings(key=SERVER.key, chain=SERVER.certificate, trusted="nothing"), "truststore"),
        (TlsSettings(key=SERVER.key, chain=SERVER.certificate, versions=("SSLv3",)), "TLSv1.2"),
        (TlsSettings(key=SERVER.key, chain=SERVER.certificate, ciphers=("ROT13",)), "none of"),
        (
            TlsSettings(key=SERVER.key, chain=SERVER.certificate, client_auth=ClientAuth.REQUIRED),
            "truststore",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_name_of_its_setting(settings, reason):
    with pytest.raises(TlsError, match=reason):
        TlsSource(settings, server_side=True)
