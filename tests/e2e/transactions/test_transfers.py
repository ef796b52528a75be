"""Money goes from account to account, in transactions over several partitions, while coordinators
are killed: whenever all ends are written, the sum is what it was.

A transfer that is aborted on purpose has only taken the money: one that somebody saw would be
missing in the sum.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import confluent_kafka
import pytest

from e2e.transactions.reading import (
    GUARD_S,
    TRANSACTIONS,
    assert_replicas_are_identical,
    committed,
    transaction_coordinator,
    wait_in_sync,
    wait_stable,
)
from tidelog.testing import Cluster

ACCOUNTS = 12
PARTITIONS = 3
DEPOSIT = 100
TELLERS = 3
TRANSFERS = 15
"""Of each teller, before and after its coordinator dies."""
ABORT_EVERY = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as started:
        yield started


class Leg(NamedTuple):
    """What a record says: which transfer, whose account, how much more or less."""

    transfer: str
    account: int
    amount: int

    @classmethod
    def read(cls, value: bytes) -> "Leg":
        transfer, account, amount = value.decode().split(" ")
        return cls(transfer, int(account), int(amount))

    def write(self) -> bytes:
        return f"{self.transfer} {self.account} {self.amount}".encode()


class Teller:
    """One transactional producer, and the transfers that it was told are committed."""

    def __init__(self, cluster: Cluster, topic: str, name: str) -> None:
        self.name = name
        self.done: set[str] = set()
        self.failures: list[str] = []
        self._chance = random.Random(name)
        self._topic = topic
        self._number = 0
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "transactional.id": name,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(GUARD_S)

    def deposit(self) -> None:
        legs = [Leg("deposit", account, DEPOSIT) for account in range(ACCOUNTS)]
        self._transact(legs, means_it=True)

    def work(self, transfers: int) -> None:
        for _ in range(transfers):
            self._number += 1
            giver, taker = self._chance.sample(range(ACCOUNTS), 2)
            amount = self._chance.randint(1, 50)
            transfer = f"{self.name}-{self._number}"
            means_it = self._number % ABORT_EVERY != 0
            legs = [Leg(transfer, giver, -amount), Leg(transfer, taker, amount)]
            if self._transact(legs if means_it else legs[:1], means_it=means_it):
                self.done.add(transfer)

    def _transact(self, legs: list[Leg], *, means_it: bool) -> bool:
        """True if it is committed for sure."""
        self._producer.begin_transaction()
        for leg in legs:
            self._producer.produce(self._topic, leg.write(), partition=leg.account % PARTITIONS)
        try:
            if means_it:
                self._end(self._producer.commit_transaction)
                return True
            assert self._producer.flush(GUARD_S) == 0
        except confluent_kafka.KafkaException as failure:
            error = failure.args[0]
            self.failures.append(f"{legs[0].transfer}: {error.name()}")
            if not error.txn_requires_abort():
                raise
        self._end(self._producer.abort_transaction)
        return False

    def _end(self, end: Callable[[float], None]) -> None:
        for _ in range(5):
            try:
                end(GUARD_S)
                return
            except confluent_kafka.KafkaException as failure:
                if not failure.args[0].retriable():
                    raise
        raise AssertionError("the end of a transaction was tried five times")


def all_work(tellers: list[Teller]) -> list[threading.Thread]:
    threads = [threading.Thread(target=each.work, args=(TRANSFERS,)) for each in tellers]
    for thread in threads:
        thread.start()
    return threads


def wait_for_transfer(cluster: Cluster, teller: Teller) -> None:
    before = len(teller.done)
    cluster.wait(lambda: len(teller.done) > before, GUARD_S)


def check_books(cluster: Cluster, topic: str, tellers: list[Teller]) -> None:
    """Once all ends are written."""
    found = committed(cluster, topic)
    legs = [Leg.read(each.value) for seen in found.values() for each in seen]
    assert sum(leg.amount for leg in legs) == ACCOUNTS * DEPOSIT
    transfers = Counter(leg.transfer for leg in legs)
    assert transfers.pop("deposit") == ACCOUNTS
    assert set(transfers.values()) == {2}, "both legs, each once"
    assert set().union(*(teller.done for teller in tellers)) == set(transfers)


def test_no_money_is_lost_or_made_while_coordinators_are_killed(cluster: Cluster) -> None:
    topic = cluster.topic("accounts", PARTITIONS, replication_factor=3)
    tellers = [Teller(cluster, topic, f"teller-{number}") for number in range(TELLERS)]
    tellers[0].deposit()
    for teller in tellers:
        working = all_work(tellers)
        coordinator = transaction_coordinator(cluster, teller.name)
        wait_for_transfer(cluster, teller)
        cluster.kill(coordinator)
        for thread in working:
            thread.join()
        check_books(cluster, topic, tellers)
        cluster.restart(coordinator)
        wait_in_sync(cluster, topic, TRANSACTIONS)
    wait_stable(cluster, topic, TRANSACTIONS)
    check_books(cluster, topic, tellers)
    assert_replicas_are_identical(cluster, topic)
    for broker in cluster.brokers:
        assert "Traceback" not in cluster.log(broker)
