"""What the members of groups have read and processed, for the rules to compare with commits."""

from tidelog.core.coordination import TopicPartition


class DeliveryBook:
    """Per group and partition: which offsets some member has processed."""

    __slots__ = ("_processed",)

    def __init__(self) -> None:
        self._processed: dict[tuple[str, TopicPartition], dict[int, None]] = {}

    def processed(self, group_id: str, partition: TopicPartition, offset: int) -> None:
        self._processed.setdefault((group_id, partition), {})[offset] = None

    def has(self, group_id: str, partition: TopicPartition, offset: int) -> bool:
        return offset in self._processed.get((group_id, partition), ())
