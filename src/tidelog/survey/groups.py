"""One look at a consumer group: its members, what it committed, where partitions end."""

from typing import NamedTuple

from tidelog.client import Client, KafkaError
from tidelog.client.groups import GroupAdmin, GroupMember, GroupView
from tidelog.client.offsets import READ_UNCOMMITTED, end_offsets
from tidelog.core.errors import Error
from tidelog.survey.refusal import nearest

TopicPartition = tuple[str, int]


class PartitionLag(NamedTuple):
    topic: str
    partition: int
    committed: int | None
    """None: nothing was committed yet."""
    end: int | None
    """None: nobody leads the partition, or it is gone."""
    member: GroupMember | None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def where(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)


class GroupSurvey(NamedTuple):
    group: GroupView
    partitions: tuple[PartitionLag, ...]

    @property
    def lag(self) -> int | None:
        known = [each.lag for each in self.partitions if each.lag is not None]
        return sum(known) if known else None


async def named_group(client: Client, group_id: str) -> GroupView:
    """With a guess, if there is none of that name."""
    admin = GroupAdmin(client)
    try:
        return await admin.describe(group_id)
    except KafkaError as error:
        if error.error != Error.GROUP_ID_NOT_FOUND:
            raise
        near = nearest(group_id, [each.group_id for each in await admin.list_groups()])
        told = f"there is no group {group_id}"
        raise KafkaError(error.error, f"{told}; did you mean {near}?" if near else told) from None


async def survey(
    client: Client, group_id: str, *, isolation: int = READ_UNCOMMITTED
) -> GroupSurvey:
    """`isolation` says whose end counts: of all records, or of those that are decided."""
    group = await named_group(client, group_id)
    committed = await GroupAdmin(client).committed(group_id, coordinator=group.coordinator)
    owners = group.owners
    wanted = sorted({*committed, *owners})
    ends = await end_offsets(client, wanted, isolation=isolation)
    return GroupSurvey(
        group,
        tuple(
            PartitionLag(
                topic,
                index,
                committed[topic, index].offset if (topic, index) in committed else None,
                ends.get((topic, index)),
                owners.get((topic, index)),
            )
            for topic, index in wanted
        ),
    )
