"""Users and their passwords, as AlterUserScramCredentials and its twin have them."""

from pathlib import Path

import pytest

from support import loopback
from support.controller_node import ControllerNode, controller_node
from support.lone_broker import lone_broker
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.security.scram import ScramCredential, ScramMechanism, derive_credential
from tidelog.core.security.scram import salted_password as salted
from tidelog.wire.protocol.schemas import alter_user_scram_credentials_request as ask
from tidelog.wire.protocol.schemas.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
)
from tidelog.wire.protocol.schemas.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tidelog.wire.protocol.schemas.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
)

SHA_256, SHA_512 = ScramMechanism


def password(name: str, mechanism: int = SHA_256, iterations: int = 4096):
    return ask.ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=b"salt",
        salted_password=salted(SHA_256, "secret", b"salt", iterations),
    )


def removal(name: str, mechanism: int = SHA_256):
    return ask.ScramCredentialDeletion(name=name, mechanism=mechanism)


async def alter(node: ControllerNode, *changes) -> list[tuple[str, int]]:
    request = ask.AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ask.ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ask.ScramCredentialUpsertion)],
    )
    answer = await node.ask(request, 0, AlterUserScramCredentialsResponse)
    return [(each.user, each.error_code) for each in answer.results]


def test_a_password_is_kept_as_kafka_keeps_it_and_removed_again(tell) -> None:
    async def story():
        async with controller_node() as node:
            assert await alter(node, password("ann")) == [("ann", 0)]
            expected = derive_credential(SHA_256, "secret", b"salt", 4096)
            assert node.image.scram_credentials == {(SHA_256, "ann"): expected}
            assert await alter(node, removal("ann"), password("bob", SHA_512)) == [
                ("ann", 0),
                ("bob", 0),
            ]
            assert list(node.image.scram_credentials) == [(SHA_512, "bob")]

    tell(story)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ((password("", iterations=4096),), Error.UNACCEPTABLE_CREDENTIAL),
        ((password("ann", iterations=4095),), Error.UNACCEPTABLE_CREDENTIAL),
        ((password("ann", iterations=16385),), Error.UNACCEPTABLE_CREDENTIAL),
        ((password("ann", mechanism=3),), Error.UNSUPPORTED_SASL_MECHANISM),
        ((removal("ann", mechanism=0),), Error.UNSUPPORTED_SASL_MECHANISM),
        ((removal("ann"),), Error.RESOURCE_NOT_FOUND),
        ((password("ann"), password("ann")), Error.DUPLICATE_RESOURCE),
        ((password("ann"), password("ann", SHA_512, 1)), Error.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_what_kafka_refuses_is_refused_for_that_user_alone(changes, error) -> None:
    async def story():
        async with controller_node() as node:
            results = await alter(node, *changes, password("bob"))
            assert sorted(results) == sorted([(changes[0].name, error), ("bob", 0)])
            assert list(node.image.scram_credentials) == [(SHA_256, "bob")]

    loopback.run(story)


def test_users_are_described_without_their_keys(tmp_path: Path) -> None:
    async def story():
        async with lone_broker(tmp_path, (50,)) as s:
            for user, mechanism, iterations in (
                ("ann", 1, 4096),
                ("ann", 2, 8192),
                ("bob", 1, 5000),
            ):
                kept = ScramCredential(b"s", b"stored", b"server", iterations)
                s.commit(r.UserScramCredential(user, mechanism, kept))

            async def described(*users: str):
                names = [UserName(name=user) for user in users] if users else None
                answer = await s.ask(DescribeUserScramCredentialsRequest(users=names), 0)
                assert isinstance(answer, DescribeUserScramCredentialsResponse)
                return {
                    each.user: each.error_code
                    or [(info.mechanism, info.iterations) for info in each.credential_infos]
                    for each in answer.results
                }

            everybody = {"ann": [(1, 4096), (2, 8192)], "bob": [(1, 5000)]}
            assert await described() == everybody
            assert await described("bob", "eve", "ann", "ann") == {
                "bob": [(1, 5000)],
                "eve": Error.RESOURCE_NOT_FOUND,
                "ann": Error.DUPLICATE_RESOURCE,
            }

    loopback.run(story)
