"""Passwords that are shown as they are: found right once, and wrong again when they change."""

import asyncio

import pytest

from tidelog.core.security import scram
from tidelog.core.security.scram import ScramCredential, ScramMechanism
from tidelog.host.entropy import SystemEntropy
from tidelog.host.workers import ThreadWorkers
from tidelog.node import passwords
from tidelog.node.passwords import Passwords

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def credential(mechanism: ScramMechanism, password: str) -> ScramCredential:
    salted = scram.salted_password(mechanism, password, b"salt" * 6, scram.MIN_ITERATIONS)
    client_key = scram.hmac_of(mechanism, salted, b"Client Key")
    server_key = scram.hmac_of(mechanism, salted, b"Server Key")
    stored_key = scram.hash_of(mechanism, client_key)
    return ScramCredential(b"salt" * 6, stored_key, server_key, scram.MIN_ITERATIONS)


class Users:
    """Who has which password."""

    def __init__(self) -> None:
        self.known = {(SHA_512, "alice"): credential(SHA_512, "tide")}
        self.passwords = Passwords(
            lambda mechanism, user: self.known.get((mechanism, user)),
            SystemEntropy(),
            lambda: ThreadWorkers("passwords", 1),
        )

    async def may(self, user: str, password: str) -> bool:
        knows = self.passwords.knows(user, password)
        return knows or await self.passwords.fits(user, password)


@pytest.fixture
def users():
    made = Users()
    yield made
    made.passwords.close()


def test_a_right_password_is_computed_once_and_a_wrong_one_each_time(users):
    async def story():
        assert [await users.may("alice", "tide") for _ in range(3)] == [True] * 3
        assert users.passwords.computed == 1
        assert [await users.may("alice", "ebb") for _ in range(3)] == [False] * 3
        assert users.passwords.computed == 4

    asyncio.run(story())


def test_somebody_unknown_is_computed_too_and_never_let_in(users):
    async def story():
        assert not await users.may("mallory", "tide")
        assert users.passwords.computed == 1

    asyncio.run(story())


def test_a_remembered_password_is_forgotten_with_its_credential(users):
    async def story():
        assert await users.may("alice", "tide")
        users.known[SHA_512, "alice"] = credential(SHA_512, "ebb")
        assert not await users.may("alice", "tide")
        assert await users.may("alice", "ebb")
        users.known.clear()
        assert not await users.may("alice", "ebb")

    asyncio.run(story())


def test_a_password_that_changes_while_it_is_computed_does_not_count(users):
    async def story():
        found = asyncio.ensure_future(users.passwords.fits("alice", "tide"))
        await asyncio.sleep(0)
        users.known[SHA_512, "alice"] = credential(SHA_512, "ebb")
        assert not await found
        assert not await users.may("alice", "tide")

    asyncio.run(story())


def test_each_mechanism_has_its_own_password(users):
    users.known[SHA_256, "alice"] = credential(SHA_256, "sand")

    async def story():
        assert await users.may("alice", "sand")
        assert await users.may("alice", "tide")
        assert not await users.may("alice", "ebb")

    asyncio.run(story())


def test_the_longest_unused_is_forgotten_when_there_are_too_many(users, monkeypatch):
    monkeypatch.setattr(passwords, "REMEMBERED_MAX", 2)
    for name in ("bob", "carol"):
        users.known[SHA_512, name] = credential(SHA_512, "tide")

    async def story():
        for name in ("alice", "bob", "alice", "carol", "alice"):
            assert await users.may(name, "tide")
        assert users.passwords.computed == 3
        assert await users.may("bob", "tide")
        assert users.passwords.computed == 4

    asyncio.run(story())
