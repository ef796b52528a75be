"""Kafka's range assignor: neighbouring partitions of each topic to each member."""

from collections.abc import Mapping, Sequence

TopicPartition = tuple[str, int]


def assign_ranges(
    subscriptions: Mapping[str, Sequence[str]], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Member → partitions. Of each topic, the first members in order of their ids get one more
    when the numbers do not divide; a topic that does not exist has no partitions."""
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in sorted(subscriptions)}
    for topic in sorted({topic for topics in subscriptions.values() for topic in topics}):
        members = [member for member in assigned if topic in subscriptions[member]]
        share, more = divmod(partitions.get(topic, 0), len(members))
        begin = 0
        for place, member in enumerate(members):
            end = begin + share + (place < more)
            assigned[member] += [(topic, index) for index in range(begin, end)]
            begin = end
    return assigned
