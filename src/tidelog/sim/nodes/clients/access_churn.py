"""An administrator of users, access rules and quotas, who is slowed down by his own."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Final

from tidelog.client import Admin, Client, NewRecord, NewTopic, Producer
from tidelog.client.access_admin import AccessAdmin, NewPassword
from tidelog.client.consumer import Consumer
from tidelog.core.security.acls import Acl, AclFilter, Operation, PatternType, Permission
from tidelog.core.security.acls import ResourceType as Kind
from tidelog.core.security.scram import MIN_ITERATIONS, ScramMechanism
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.stage import FAILURES, Stage, pause_s
from tidelog.sim.nodes.cluster import STRANGER

ADD_RULE, REMOVE_RULES, SET_PASSWORD, REMOVE_PASSWORD = "rule", "no rules", "password", "no login"
SET_QUOTA, REMOVE_QUOTA, WRITE, READ = "quota", "no quota", "slowed write", "slowed read"
GROW, CONNECT = "slowed topics", "slowed connection"
ACCESS_TASKS: Final = (
    ADD_RULE, ADD_RULE, ADD_RULE, REMOVE_RULES, SET_PASSWORD, REMOVE_PASSWORD,
    SET_QUOTA, SET_QUOTA, REMOVE_QUOTA, WRITE, WRITE, READ, GROW, CONNECT,
)  # fmt: skip

USERS: Final = ("ann", "bob")
NAMES: Final = ("tide", "tides", "ebb", "*")
HOSTS: Final = ("*", "10.0.0.7", "10.0.0.0/24")
PERMISSIONS: Final = (Permission.ALLOW, Permission.ALLOW, Permission.DENY)
OPERATIONS: Final = (Operation.READ, Operation.WRITE, Operation.ALL, Operation.DESCRIBE)
SLOWED: Final = "slowed"
RATES: Final = {
    "producer_byte_rate": (20.0, 200.0),
    "consumer_byte_rate": (20.0, 200.0),
    "controller_mutation_rate": (0.2, 1.0),
    "connection_creation_rate": (1.0,),
}
"""A few small records, topics or connections are too many."""
FOR_STRANGERS: Final = (
    (Kind.TOPIC, "inspected", (*OPERATIONS, Operation.CREATE, Operation.DELETE, Operation.ALTER)),
    (Kind.GROUP, "inspected", (Operation.READ, Operation.DESCRIBE, Operation.DELETE)),
    (Kind.TRANSACTIONAL_ID, "inspected", (Operation.WRITE, Operation.DESCRIBE)),
    (Kind.CLUSTER, "kafka-cluster", (Operation.DESCRIBE, Operation.IDEMPOTENT_WRITE)),
)
"""What an inspector who is a stranger may be allowed, or not."""


class AccessChurn:
    """Rules are about people and topics that nobody else is, and about strangers; quotas are for
    its own client id and address."""

    __slots__ = ("_consumer", "_entropy", "_pause_ms", "_secured", "_stage", "_topic", "_written")

    def __init__(self, stage: Stage, name: str, pause_ms: int, *, secured: bool) -> None:
        self._stage = stage
        self._topic = f"{SLOWED}-{name}"
        self._secured = secured
        self._pause_ms = pause_ms
        self._entropy: Random = stage.stream(name)
        self._written = 0

    async def run(self, process: ClientProcess) -> None:
        client = process.new_client(SLOWED)
        self._consumer = Consumer(client, {(self._topic, 0): 0})
        with suppress(*FAILURES):
            await Admin(client).create_topic(NewTopic(self._topic, 1))
        tasks: list[str] = []
        while not self._stage.stopped:
            tasks = tasks or self._entropy.sample(ACCESS_TASKS, len(ACCESS_TASKS))
            task = tasks.pop()
            with suppress(*FAILURES):
                if task in (WRITE, READ, GROW, CONNECT):
                    await self._suffer(process, client, task)
                else:
                    await self._do(client, task, process.machine.name)
                self._stage.history.done[task] += 1
            await asyncio.sleep(pause_s(self._entropy, self._pause_ms))

    async def _do(self, client: Client, task: str, address: str) -> None:
        entropy = self._entropy
        admin, user = AccessAdmin(client), entropy.choice(USERS)
        if task == ADD_RULE:
            stranger = self._secured and entropy.random() < 0.6
            await admin.add_acls([self._rule_for_strangers() if stranger else self._rule(user)])
        elif task == REMOVE_RULES:
            await admin.remove_acls(AclFilter(principal=f"User:{user}"))
        elif task == SET_PASSWORD:
            salt = b"salt %d" % entropy.randrange(1_000)
            sha_256 = ScramMechanism.SCRAM_SHA_256
            await admin.set_password(NewPassword(user, sha_256, "tide", salt, MIN_ITERATIONS))
        elif task == REMOVE_PASSWORD:
            await admin.remove_password(user, ScramMechanism.SCRAM_SHA_256)
        else:
            assert task in (SET_QUOTA, REMOVE_QUOTA), task
            key = entropy.choice(list(RATES))
            by_address = key == "connection_creation_rate"
            own = (("ip", address),) if by_address else (("client-id", SLOWED),)
            rate = entropy.choice(RATES[key]) if task == SET_QUOTA else None
            await admin.set_quotas(own, {key: rate})

    async def _suffer(self, process: ClientProcess, client: Client, task: str) -> None:
        """What quotas are about."""
        entropy = self._entropy
        if task == WRITE:
            first, count = self._written, entropy.randrange(1, 40)
            self._written += count
            records = [NewRecord(b"slow-%d" % number) for number in range(first, first + count)]
            await Producer(client).write(self._topic, records)
        elif task == READ:
            await self._consumer.read(max_wait_ms=100)
        elif task == GROW:
            more, admin = f"{self._topic}-more", Admin(client)
            if entropy.random() < 0.5:
                await admin.create_topic(NewTopic(more, entropy.choice((1, 3))))
                await admin.add_partitions(more, 4)
            else:
                await admin.delete_topic(more)
        else:
            for _ in range(3):
                another = process.new_client(SLOWED)
                await another.view()
                await another.close()

    def _rule(self, user: str) -> Acl:
        """Where somebody else has to log in, rules for everybody are for addresses of nobody."""
        entropy = self._entropy
        rule = Acl(
            Kind.TOPIC,
            entropy.choice(NAMES),
            entropy.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            entropy.choice((f"User:{user}", "User:*")),
            entropy.choice(HOSTS),
            entropy.choice(OPERATIONS),
            entropy.choice(PERMISSIONS),
        )
        open_to_all = self._secured and (rule.principal, rule.host) == ("User:*", HOSTS[0])
        return rule._replace(host=HOSTS[1]) if open_to_all else rule

    def _rule_for_strangers(self) -> Acl:
        kind, name, operations = self._entropy.choice(FOR_STRANGERS)
        operation = self._entropy.choice(operations)
        permission = self._entropy.choice(PERMISSIONS)
        literal = PatternType.LITERAL
        return Acl(kind, name, literal, f"User:{STRANGER}", "*", operation, permission)
