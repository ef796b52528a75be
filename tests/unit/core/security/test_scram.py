"""SCRAM: the examples of the RFCs, both sides against each other, and everything that must fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.security import scram
from tidelog.core.security.scram import ScramError, ScramMechanism

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
NONCE = "rOprNGfwEbeRWgbNEkqO"

# RFC 7677, section 3, and the same conversation with the longer hash as other libraries test it.
EXAMPLES = [
    (
        SHA_256,
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        "W22ZaJ0SNY7soEsUEjb6gQ==",
        "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
    (
        SHA_512,
        "02431b08-2f89-4bad-a4e6-80c0564ec865",
        "Yin2FuHTt/M0kJWb0t9OI32n2VmOGi3m+JfjOvuDF88=",
        "Hc5yec3NmCD7t+kFRw4/3yD6/F3SQHc7AVYschRja+Bc3sbdjlA0eH1OjJc0DD4ghn1tnXN5/Wr6qm9xmaHt4A==",
        "BQuhnKHqYDwQWS5jAw4sZed+C9KFUALsbrq81bB0mh+bcUUbbMPNNmBIupnS2AmyyDnG5CTBQtkjJ9kyY4kzmw==",
    ),
]


def talk(mechanism, password, credential, name="alice"):
    """A whole conversation; returns the client's final message and the server's."""
    offered = scram.client_first(name, "client")
    heard = scram.parse_client_first(offered.message)
    assert heard.name == name
    answer = scram.server_first(heard, "server", credential)
    final = scram.client_final(
        mechanism, password, offered, scram.parse_server_first(offered, answer.message)
    )
    server_final = scram.verify_client_final(mechanism, credential, heard, answer, final.message)
    scram.verify_server_final(final, server_final)
    return final, server_final


@pytest.mark.parametrize(("mechanism", "server_nonce", "salt", "proof", "signature"), EXAMPLES)
def test_the_published_conversation_is_reproduced(mechanism, server_nonce, salt, proof, signature):
    first = scram.client_first("user", NONCE)
    assert first.message == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    message = f"r={NONCE}{server_nonce},s={salt},i=4096".encode()
    answer = scram.parse_server_first(first, message)
    final = scram.client_final(mechanism, "pencil", first, answer)
    assert final.message == f"c=biws,r={NONCE}{server_nonce},p={proof}".encode()

    credential = scram.derive_credential(mechanism, "pencil", answer.salt, 4096)
    heard = scram.parse_client_first(first.message)
    assert scram.server_first(heard, server_nonce, credential).message == message
    server_final = scram.verify_client_final(mechanism, credential, heard, answer, final.message)
    assert server_final == f"v={signature}".encode()
    scram.verify_server_final(final, server_final)


def test_mechanisms_have_kafkas_names_and_numbers():
    assert [(each.value, each.sasl_name) for each in ScramMechanism] == [
        (1, "SCRAM-SHA-256"),
        (2, "SCRAM-SHA-512"),
    ]
    assert ScramMechanism.of_sasl_name("SCRAM-SHA-512") is SHA_512
    assert ScramMechanism.of_sasl_name("SCRAM-SHA-1") is None


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_wrong_password_is_refused(mechanism):
    credential = scram.derive_credential(mechanism, "right", b"salt", 4096)
    talk(mechanism, "right", credential)
    with pytest.raises(ScramError, match="wrong password"):
        talk(mechanism, "wrong", credential)


def test_a_password_that_was_salted_elsewhere_gives_the_same_credential():
    salted = scram.salted_password(SHA_512, "secret", b"salt", 8192)
    assert scram.credential_of(SHA_512, salted, b"salt", 8192) == scram.derive_credential(
        SHA_512, "secret", b"salt", 8192
    )


def test_a_user_who_does_not_exist_has_one_salt_and_no_password():
    decoy = scram.decoy_credential(SHA_256, "nobody", b"of this node")
    assert decoy == scram.decoy_credential(SHA_256, "nobody", b"of this node")
    assert decoy.salt != scram.decoy_credential(SHA_256, "nobody else", b"of this node").salt
    with pytest.raises(ScramError, match="wrong password"):
        talk(SHA_256, "guess", decoy)


def test_a_proof_of_another_conversation_is_refused():
    credential = scram.derive_credential(SHA_256, "secret", b"salt", 4096)
    final, _ = talk(SHA_256, "secret", credential)
    heard = scram.parse_client_first(scram.client_first("alice", "client").message)
    other = scram.server_first(heard, "another", credential)
    with pytest.raises(ScramError, match="nonce"):
        scram.verify_client_final(SHA_256, credential, heard, other, final.message)


def test_a_server_that_does_not_know_the_password_is_found_out():
    credential = scram.derive_credential(SHA_256, "secret", b"salt", 4096)
    final, server_final = talk(SHA_256, "secret", credential)
    impostor = scram.derive_credential(SHA_256, "other", b"salt", 4096)
    forged = credential._replace(server_key=impostor.server_key)
    with pytest.raises(ScramError, match="does not know the password"):
        talk(SHA_256, "secret", forged)
    with pytest.raises(ScramError, match="refuses: other-error"):
        scram.verify_server_final(final, b"e=other-error")
    scram.verify_server_final(final, server_final)


@pytest.mark.parametrize(
    "message",
    [
        b"r=client,s=c2FsdA==,i=4096",  # adds nothing to the nonce
        b"r=stranger,s=c2FsdA==,i=4096",
        b"r=clientserver,s=c2FsdA==,i=4095",
        b"r=clientserver,s=c2FsdA=,i=4096",
        b"r=clientserver,s=,i=4096",
        b"m=must,r=clientserver,s=c2FsdA==,i=4096",
        b"",
    ],
)
def test_a_client_refuses_a_first_message_that_weakens_it(message):
    with pytest.raises(ScramError):
        scram.parse_server_first(scram.client_first("alice", "client"), message)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        b"n,,n=alice",
        b"n,,n=,r=nonce",
        b"y,,n=alice,r=nonce",
        b"p=tls-unique,,n=alice,r=nonce",
        b"n,,n=al=ice,r=nonce",
        b"n,,m=must,n=alice,r=nonce",
        b"n,,n=alice,r=non ce",
        b"n,,n=ali\x00ce,r=nonce",
    ],
)
def test_a_server_refuses_a_malformed_first_message(message):
    with pytest.raises(ScramError):
        scram.parse_client_first(message)


def test_a_first_message_may_name_somebody_else_and_extensions():
    first = scram.parse_client_first(b"n,a=admin=2C1,n=al=3Dice,r=nonce,tokenauth=true")
    assert (first.name, first.authzid) == ("al=ice", "admin,1")
    assert first.extensions == {"tokenauth": "true"}


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1))
def test_every_name_survives_the_conversation(name):
    assert scram.parse_client_first(scram.client_first(name, "nonce").message).name == name


@given(st.binary(max_size=200))
def test_bytes_of_a_stranger_only_ever_raise_scram_errors(message):
    credential = scram.ScramCredential(b"salt", bytes(32), bytes(32), 4096)
    first = scram.client_first("alice", "client")
    answer = scram.server_first(first, "server", credential)
    final = scram.ClientFinal(b"", bytes(32))
    for read in (
        lambda: scram.parse_client_first(message),
        lambda: scram.parse_server_first(first, message),
        lambda: scram.verify_client_final(SHA_256, credential, first, answer, message),
        lambda: scram.verify_server_final(final, message),
    ):
        with pytest.raises(ScramError):
            read()


def test_a_credential_does_not_show_its_keys():
    credential = scram.derive_credential(SHA_256, "secret", b"salt", 4096)
    assert repr(credential) == "ScramCredential(4096 iterations)"
