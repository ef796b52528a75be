"""Topics of a running cluster, through librdkafka's admin client: the same for both systems."""

import importlib
import importlib.util
import time
from collections.abc import Callable, Mapping
from typing import Any

from tidelog.bench.compare.system import SystemFailed, SystemMissing

ANSWER_WITHIN_S = 20.0
WAIT_S = 90.0
POLL_S = 0.05


def library(name: str = "confluent_kafka") -> Any:
    """librdkafka in Python; SystemMissing if it is not installed."""
    if importlib.util.find_spec("confluent_kafka") is None:
        raise SystemMissing(
            "confluent-kafka is not installed, and topics are made with it: pip install"
            " confluent-kafka"
        )
    return importlib.import_module(name)


def wait_until(condition: Callable[[], bool], what: str, within_s: float = WAIT_S) -> None:
    """Until it is so; SystemFailed if it is not in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() >= deadline:
            raise SystemFailed(f"{what}: not so after {within_s:g} s")
        time.sleep(POLL_S)


class Topics:
    """Makes topics, and knows who leads them and who is in sync."""

    __slots__ = ("_admin",)

    def __init__(
        self, bootstrap_servers: str, client_settings: Mapping[str, str] | None = None
    ) -> None:
        settings = {
            **(client_settings or {}),
            "bootstrap.servers": bootstrap_servers,
            "log_level": 0,
            # A node that was killed is back in a second: do not wait ten for it.
            "reconnect.backoff.max.ms": 200,
        }
        self._admin = library("confluent_kafka.admin").AdminClient(settings)

    def create(
        self, name: str, partitions: int, replication_factor: int, config: Mapping[str, str]
    ) -> None:
        """Returns when every partition has a leader and all its replicas are in sync."""
        new = library("confluent_kafka.admin").NewTopic(
            name, partitions, replication_factor, config=dict(config)
        )
        _done(self._admin.create_topics([new])[name], "TOPIC_ALREADY_EXISTS")
        wait_until(
            lambda: self._is_whole(name, partitions, replication_factor),
            f"{name} has {partitions} leaders and {replication_factor} replicas in sync",
        )

    def delete(self, name: str) -> None:
        _done(self._admin.delete_topics([name])[name], "UNKNOWN_TOPIC_OR_PART")

    def leader(self, topic: str, partition: int) -> int:
        """-1 while there is none."""
        found = self._partitions(topic).get(partition)
        return -1 if found is None else int(found.leader)

    def leader_addresses(self, topic: str) -> dict[int, tuple[str, int]]:
        """Partition → where its leader is reached."""
        listed = self._admin.list_topics(topic, timeout=ANSWER_WITHIN_S)
        brokers = {each.id: (str(each.host), int(each.port)) for each in listed.brokers.values()}
        partitions = listed.topics[topic].partitions.items()
        return {int(number): brokers[each.leader] for number, each in partitions}

    def all_in_sync(self) -> bool:
        """Whether every replica of every topic is in sync; not if nobody can say so."""
        try:
            topics = self._admin.list_topics(timeout=ANSWER_WITHIN_S).topics.values()
        except library().KafkaException:
            return False
        partitions = [each for topic in topics for each in topic.partitions.values()]
        return all(each.leader >= 0 and len(each.isrs) == len(each.replicas) for each in partitions)

    def _is_whole(self, name: str, partitions: int, replication_factor: int) -> bool:
        found = self._partitions(name)
        return len(found) == partitions and all(
            each.leader >= 0 and len(each.isrs) == replication_factor for each in found.values()
        )

    def _partitions(self, topic: str) -> dict[int, Any]:
        listed = self._admin.list_topics(topic, timeout=ANSWER_WITHIN_S).topics
        return dict(listed[topic].partitions) if topic in listed else {}


def _done(future: Any, unless: str) -> None:
    """A broker passes such a request on to the controller, and again if the connection breaks or
    the controller changes: then the second is refused because the first was done."""
    try:
        future.result(ANSWER_WITHIN_S)
    except TimeoutError:
        raise SystemFailed(f"the cluster did not answer in {ANSWER_WITHIN_S:g} s") from None
    except library().KafkaException as reason:
        if reason.args[0].name() != unless:
            raise SystemFailed(f"the cluster refused: {reason}") from None
