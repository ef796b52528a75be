"""The administration of groups by different clients, in the same words."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from e2e.clients.confluent_driver import refusals, refused
from e2e.clients.driver import refused_with
from e2e.clients.java_driver import JavaDriver

TIMEOUT_S = 10


class GroupSeen(NamedTuple):
    """State in lower case without spaces or marks, and partitions by client id."""

    state: str
    assigned: Mapping[str, set[int]]


class GroupAdmin:
    """What a client can ask about groups and do to them. Raises Refused."""

    def listed(self) -> dict[str, str]:
        """States by group id."""
        raise NotImplementedError

    def described(self, group_id: str) -> GroupSeen:
        raise NotImplementedError

    def offsets(self, group_id: str) -> dict[int, int]:
        raise NotImplementedError

    def alter_offset(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        raise NotImplementedError

    def delete_offset(self, group_id: str, topic: str, partition: int) -> None:
        raise NotImplementedError

    def delete(self, group_id: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing of the client is left."""


def plain(state: object) -> str:
    return str(state).rpartition(".")[2].lower().replace("_", "").replace(" ", "")


class ConfluentGroups(GroupAdmin):
    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def _one(self, futures: dict[Any, Any]) -> Any:
        (future,) = futures.values()
        with refusals():
            return future.result(TIMEOUT_S)

    def listed(self) -> dict[str, str]:
        found = self._admin.list_consumer_groups().result(TIMEOUT_S)
        assert not found.errors, found.errors
        return {each.group_id: plain(each.state) for each in found.valid}

    def described(self, group_id: str) -> GroupSeen:
        seen = self._one(self._admin.describe_consumer_groups([group_id]))
        assigned = {
            each.client_id: {place.partition for place in each.assignment.topic_partitions}
            for each in seen.members
        }
        return GroupSeen(plain(seen.state), assigned)

    def offsets(self, group_id: str) -> dict[int, int]:
        asked = ConsumerGroupTopicPartitions(group_id)
        found = self._one(self._admin.list_consumer_group_offsets([asked]))
        return {place.partition: place.offset for place in found.topic_partitions or []}

    def alter_offset(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        place = TopicPartition(topic, partition, offset)
        asked = ConsumerGroupTopicPartitions(group_id, [place])
        done = self._one(self._admin.alter_consumer_group_offsets([asked]))
        for each in done.topic_partitions:
            if each.error is not None:
                raise refused(each.error)

    def delete(self, group_id: str) -> None:
        self._one(self._admin.delete_consumer_groups([group_id]))


class KafkaPythonGroups(GroupAdmin):
    def __init__(self, bootstrap: str) -> None:
        with warnings.catch_warnings():  # it loads its schemas with a call that Python will drop
            warnings.simplefilter("ignore", DeprecationWarning)
            from kafka import KafkaAdminClient, errors, structs
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
        self._structs, self._errors = structs, errors

    def close(self) -> None:
        self._admin.close()

    def listed(self) -> dict[str, str]:
        found = self._admin.list_groups()
        return {each["group_id"]: plain(each["group_state"]) for each in found}

    def described(self, group_id: str) -> GroupSeen:
        seen = self._admin.describe_groups([group_id])[group_id]
        assigned = {
            member["client_id"]: {
                partition
                for topic in member["member_assignment"]["assigned_partitions"]
                for partition in topic["partitions"]
            }
            for member in seen["members"]
        }
        return GroupSeen(plain(seen["group_state"]), assigned)

    def offsets(self, group_id: str) -> dict[int, int]:
        found = self._admin.list_group_offsets(group_id)[group_id]
        return {place.partition: each.offset for place, each in found.items()}

    def alter_offset(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        place = self._structs.TopicPartition(topic, partition)
        wanted = {place: self._structs.OffsetAndMetadata(offset, "", -1)}
        self._check(self._admin.alter_group_offsets(group_id, wanted)[place])

    def delete_offset(self, group_id: str, topic: str, partition: int) -> None:
        place = self._structs.TopicPartition(topic, partition)
        self._check(self._admin.delete_group_offsets(group_id, [place])[place])

    def delete(self, group_id: str) -> None:
        done = self._admin.delete_groups([group_id])[group_id]
        if done != "OK":
            self._check(getattr(self._errors, done))

    def _check(self, kind: Any) -> None:
        if kind.errno:
            raise refused_with(kind.errno)


class JavaGroups(GroupAdmin):
    def __init__(self, driver: JavaDriver) -> None:
        self._driver, self._ask = driver, driver.ask

    def close(self) -> None:
        self._driver.close()

    def listed(self) -> dict[str, str]:
        pairs = (each.split("=") for each in self._ask("groups"))
        return {group_id: plain(state) for group_id, state in pairs}

    def described(self, group_id: str) -> GroupSeen:
        state, *pairs = self._ask("group", group_id)
        assigned: dict[str, set[int]] = {}
        for client_id, partition in (each.split("=") for each in pairs):
            assigned.setdefault(client_id, set()).add(int(partition))
        return GroupSeen(plain(state), assigned)

    def offsets(self, group_id: str) -> dict[int, int]:
        pairs = (each.split("=") for each in self._ask("group_offsets", group_id))
        return {int(partition): int(offset) for partition, offset in pairs}

    def alter_offset(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        self._ask("alter_group_offset", topic, partition, group_id, offset)

    def delete_offset(self, group_id: str, topic: str, partition: int) -> None:
        self._ask("delete_group_offset", topic, partition, group_id)

    def delete(self, group_id: str) -> None:
        self._ask("delete_group", group_id)
