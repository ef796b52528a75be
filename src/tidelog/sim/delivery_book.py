"""What the members of groups have read and made of it, for the rules to compare with commits."""

from typing import Final, NamedTuple

from tidelog.core.coordination import TopicPartition

INPUTS: Final = "inputs"
"""The topic that groups read."""


class Input(NamedTuple):
    """A record that a group has to process."""

    group_id: str
    partition: TopicPartition
    offset: int


class DeliveryBook:
    __slots__ = ("_made", "_processed", "exactly_once")

    def __init__(self) -> None:
        self._processed: dict[tuple[str, TopicPartition], dict[int, None]] = {}
        self._made: dict[int, Input] = {}
        self.exactly_once: dict[str, int] = {}
        """Groups that process in transactions, with the number of partitions they read."""

    def processed(self, group_id: str, partition: TopicPartition, offset: int) -> None:
        """Some member has read it, and done what it is there for."""
        self._processed.setdefault((group_id, partition), {})[offset] = None

    def has(self, group_id: str, partition: TopicPartition, offset: int) -> bool:
        return offset in self._processed.get((group_id, partition), ())

    def made(self, output: int, of: Input) -> None:
        """This output is written for that input, perhaps not for the first time."""
        self._made[output] = of

    def input_of(self, output: int) -> Input | None:
        return self._made.get(output)
