"""An administrator of users, access rules and quotas, who is slowed down by his own."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Final

from tidelog.client import Admin, Client, NewRecord, NewTopic, Producer
from tidelog.client.access_admin import AccessAdmin, NewPassword
from tidelog.core.security.acls import Acl, AclFilter, Operation, PatternType, Permission
from tidelog.core.security.acls import ResourceType as Kind
from tidelog.core.security.scram import MIN_ITERATIONS, ScramMechanism
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.stage import FAILURES, Stage, pause_s

ADD_RULE, REMOVE_RULES, SET_PASSWORD, REMOVE_PASSWORD = "rule", "no rules", "password", "no login"
SET_QUOTA, REMOVE_QUOTA, WRITE = "quota", "no quota", "slowed write"
ACCESS_TASKS: Final = (
    ADD_RULE, ADD_RULE, ADD_RULE, REMOVE_RULES, SET_PASSWORD, REMOVE_PASSWORD,
    SET_QUOTA, REMOVE_QUOTA, WRITE, WRITE,
)  # fmt: skip

USERS: Final = ("ann", "bob")
NAMES: Final = ("tide", "tides", "ebb", "*")
HOSTS: Final = ("*", "10.0.0.7", "10.0.0.0/24")
OPERATIONS: Final = (Operation.READ, Operation.WRITE, Operation.ALL, Operation.DESCRIBE)
SLOWED: Final = "slowed"
RATES: Final = (20.0, 200.0)
"""Bytes a second: a few small records are too many."""


class AccessChurn:
    """Rules are about people and topics that nobody else is; the quota is for its own client id."""

    __slots__ = ("_entropy", "_name", "_pause_ms", "_stage", "_written")

    def __init__(self, stage: Stage, name: str, pause_ms: int) -> None:
        self._stage = stage
        self._name = name
        self._pause_ms = pause_ms
        self._entropy: Random = stage.stream(name)
        self._written = 0

    async def run(self, process: ClientProcess) -> None:
        client = process.new_client(SLOWED)
        with suppress(*FAILURES):
            await Admin(client).create_topic(NewTopic(f"{SLOWED}-{self._name}", 1))
        while not self._stage.stopped:
            task = self._entropy.choice(ACCESS_TASKS)
            with suppress(*FAILURES):
                await self._do(client, task)
                self._stage.history.done[task] += 1
            await asyncio.sleep(pause_s(self._entropy, self._pause_ms))

    async def _do(self, client: Client, task: str) -> None:
        entropy = self._entropy
        admin, user = AccessAdmin(client), entropy.choice(USERS)
        own = (("client-id", SLOWED),)
        if task == ADD_RULE:
            await admin.add_acls([self._rule(user)])
        elif task == REMOVE_RULES:
            await admin.remove_acls(AclFilter(principal=f"User:{user}"))
        elif task == SET_PASSWORD:
            salt = b"salt %d" % entropy.randrange(1_000)
            sha_256 = ScramMechanism.SCRAM_SHA_256
            await admin.set_password(NewPassword(user, sha_256, "tide", salt, MIN_ITERATIONS))
        elif task == REMOVE_PASSWORD:
            await admin.remove_password(user, ScramMechanism.SCRAM_SHA_256)
        elif task == SET_QUOTA:
            await admin.set_quotas(own, {"producer_byte_rate": entropy.choice(RATES)})
        elif task == REMOVE_QUOTA:
            await admin.set_quotas(own, {"producer_byte_rate": None})
        else:
            first, count = self._written, entropy.randrange(1, 40)
            self._written += count
            records = [NewRecord(b"slow-%d" % number) for number in range(first, first + count)]
            await Producer(client).write(f"{SLOWED}-{self._name}", records)

    def _rule(self, user: str) -> Acl:
        entropy = self._entropy
        return Acl(
            Kind.TOPIC,
            entropy.choice(NAMES),
            entropy.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            entropy.choice((f"User:{user}", "User:*")),
            entropy.choice(HOSTS),
            entropy.choice(OPERATIONS),
            entropy.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
        )
