"""The context a partition change is built in: its topic's settings and who may lead."""

from collections.abc import Callable

from tidelog.core.metadata.decision import View
from tidelog.core.metadata.image import MetadataImage, PartitionState
from tidelog.core.metadata.partition_change import ChangeContext
from tidelog.core.metadata.topic_configs import (
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
    bool_value,
    int_value,
)

ELR_FEATURE = "eligible.leader.replicas.version"


class Contexts:
    """Contexts for the changes of one decision; a topic's settings are looked up once."""

    __slots__ = ("_by_topic", "_elr_enabled", "_is_acceptable", "_view")

    def __init__(self, view: View, is_acceptable: Callable[[int], bool] | None = None) -> None:
        self._view = view
        self._is_acceptable = view.image.is_active if is_acceptable is None else is_acceptable
        self._elr_enabled = elr_enabled(view.image)
        self._by_topic: dict[bytes, ChangeContext] = {}

    def of(self, partition: PartitionState) -> ChangeContext:
        return self.of_topic(partition.id.topic_id)

    def of_topic(self, topic_id: bytes) -> ChangeContext:
        context = self._by_topic.get(topic_id)
        if context is None:
            name = self._view.image.topics[topic_id].name
            context = ChangeContext(
                min_insync_replicas(self._view, name),
                self._elr_enabled,
                self._is_acceptable,
                unclean_allowed(self._view, name),
            )
            self._by_topic[topic_id] = context
        return context


def elr_enabled(image: MetadataImage) -> bool:
    """From the log, not from this node's settings: all controllers must agree on it."""
    return image.features.get(ELR_FEATURE, 0) > 0


def min_insync_replicas(view: View, topic: str) -> int:
    value = view.image.topic_config(topic, MIN_INSYNC_REPLICAS)
    return int_value(MIN_INSYNC_REPLICAS, value, default=view.settings.min_insync_replicas)


def unclean_allowed(view: View, topic: str) -> bool:
    value = view.image.topic_config(topic, UNCLEAN_LEADER_ELECTION_ENABLE)
    return bool_value(UNCLEAN_LEADER_ELECTION_ENABLE, value, default=view.settings.unclean_default)
