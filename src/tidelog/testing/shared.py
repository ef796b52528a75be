"""The broker that all tests of a run share: everybody has topics of their own."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from tidelog.client import KafkaError
from tidelog.core.errors import Error
from tidelog.testing.cluster import Cluster

FOR_ALL = frozenset(
    (
        "close",
        "heal",
        "kill",
        "partition_off",
        "pause",
        "restart",
        "resume",
        "slow",
        "start",
        "stop",
    )
)
"""What one test must not do to the broker of all others."""


class SharedBroker:
    """A `Cluster` of one broker for one of many tests: what can be read of it, and topics."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topics: list[str] = []

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    def topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, object] | None = None,
        *,
        assignment: Sequence[Sequence[int]] = (),
    ) -> str:
        """Make a topic whose name begins like this; what it is called. It goes with the test."""
        made = f"{name}-{secrets.token_hex(4)}"
        self._cluster.topic(made, partitions, configs=configs, assignment=assignment)
        self._topics.append(made)
        return made

    def clean_up(self) -> None:
        """The next test finds none of it."""
        self._cluster.answer_as_usual()
        topics, self._topics = self._topics, []
        for topic in topics:
            try:
                self._cluster.delete_topic(topic)
            except KafkaError as error:
                if error.error != Error.UNKNOWN_TOPIC_OR_PARTITION:  # the test may have done it
                    raise

    def __getattr__(self, name: str) -> Any:
        if name in FOR_ALL:
            raise AttributeError(
                f"`tidelog` is the broker of all tests, so there is no {name}(): take the fixture"
                " tidelog_cluster, which is yours alone"
            )
        return getattr(self._cluster, name)
