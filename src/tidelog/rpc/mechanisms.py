"""The mechanisms of SASL, made from settings: what a listener offers, what a client uses."""

from collections.abc import Callable
from functools import partial

from tidelog.core.security.decoys import Decoys
from tidelog.core.security.protocols import LoginSettings, SaslSettings
from tidelog.core.security.sasl import (
    OAUTHBEARER,
    PLAIN,
    BearerClient,
    BearerServer,
    ClientConversation,
    FindCredential,
    PlainClient,
    PlainServer,
    ScramClient,
    ScramServer,
    VerifyToken,
)
from tidelog.core.security.scram import ScramMechanism
from tidelog.host.ports import Entropy
from tidelog.rpc.logins import BeginConversation
from tidelog.rpc.secured_network import Credentials


def offered(
    settings: SaslSettings,
    find: FindCredential,
    verify: VerifyToken | None,
    entropy: Entropy,
) -> dict[str, BeginConversation]:
    """By name, in the order of the settings."""
    decoys = Decoys(find, entropy.uuid())
    made: dict[str, BeginConversation] = {}
    for name in settings.mechanisms:
        scram = ScramMechanism.of_sasl_name(name)
        if scram is not None:
            made[name] = partial(_scram_server, scram, find, entropy, decoys)
        elif name == PLAIN:
            made[name] = partial(PlainServer, settings.plain_users)
        else:
            assert name == OAUTHBEARER, name
            assert verify is not None, "tokens that nobody can verify"
            made[name] = partial(BearerServer, verify)
    return made


def credentials_of(
    login: LoginSettings, entropy: Entropy, read_token: Callable[[str], str]
) -> Credentials:
    return Credentials(login.mechanism, partial(_client, login, entropy, read_token))


def nonce(entropy: Entropy) -> str:
    """Of 30 characters or more, as RFC 5802 has them in its examples."""
    return (entropy.uuid() + entropy.uuid()).hex()


def _scram_server(
    mechanism: ScramMechanism, find: FindCredential, entropy: Entropy, decoys: Decoys
) -> ScramServer:
    return ScramServer(mechanism, find, nonce(entropy), decoys.credential)


def _client(
    login: LoginSettings, entropy: Entropy, read_token: Callable[[str], str]
) -> ClientConversation:
    scram = ScramMechanism.of_sasl_name(login.mechanism)
    if scram is not None:
        return ScramClient(scram, login.user, login.password, nonce(entropy))
    if login.mechanism == PLAIN:
        return PlainClient(login.user, login.password)
    assert login.mechanism == OAUTHBEARER, login.mechanism
    assert login.token_file is not None, "a token that is nowhere"
    return BearerClient(read_token(login.token_file))
