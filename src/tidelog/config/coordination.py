"""What a broker is told about the coordinators on it and the topics they live on."""

from dataclasses import dataclass

from tidelog.config.settings import Settings


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """How a topic of coordinators is created."""

    partitions: int
    replication_factor: int
    segment_bytes: int
    min_isr: int | None = None
    """None: what the cluster has by default."""


@dataclass(frozen=True, slots=True)
class Coordinating:
    offsets_topic: InternalTopic
    transactions_topic: InternalTopic
    disconnect_grace_ms: int
    """0: a member whose connection broke is not taken for dead."""


def read_coordinating(settings: Settings) -> Coordinating:
    offsets, transactions = "offsets.topic", "transaction.state.log"
    return Coordinating(
        _topic(settings, offsets, None),
        _topic(settings, transactions, settings.whole(f"{transactions}.min.isr")),
        settings.whole("tidelog.group.disconnect.grace.ms"),
    )


def _topic(settings: Settings, prefix: str, min_isr: int | None) -> InternalTopic:
    return InternalTopic(
        settings.whole(f"{prefix}.num.partitions"),
        settings.whole(f"{prefix}.replication.factor"),
        settings.whole(f"{prefix}.segment.bytes"),
        min_isr,
    )
