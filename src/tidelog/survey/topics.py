"""One topic: found by its name, with its settings and where its partitions begin and end."""

from tidelog.client import Admin, Client, KafkaError, PartitionView, TopicView
from tidelog.client.admin import TOPIC_RESOURCE, ConfigEntry
from tidelog.client.errors import ClientError
from tidelog.client.offsets import EARLIEST, LATEST, find_offset
from tidelog.core.errors import Error
from tidelog.survey.refusal import nearest

MIN_ISR = "min.insync.replicas"


async def named_topic(client: Client, name: str) -> TopicView:
    """With a guess, if there is none of that name."""
    try:
        return await client.topic(name)
    except KafkaError as error:
        if error.error != Error.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        near = nearest(name, list((await client.view()).topics))
        guess = f"there is no topic {name}; did you mean {near}?" if near else error.message
        raise KafkaError(error.error, guess) from None


async def topic_settings(client: Client, name: str) -> list[ConfigEntry]:
    """None of them, if the cluster does not tell."""
    try:
        return await Admin(client).configs(TOPIC_RESOURCE, name)
    except KafkaError:
        return []


def min_isr_in(settings: list[ConfigEntry]) -> int | None:
    return next((int(each.value or 1) for each in settings if each.name == MIN_ISR), None)


async def offsets_of(client: Client, partition: PartitionView) -> tuple[int | None, int | None]:
    """(log start offset, high watermark), None for what nobody says."""
    try:
        start = await find_offset(client, partition.topic, partition.partition, EARLIEST)
        end = await find_offset(client, partition.topic, partition.partition, LATEST)
    except ClientError:
        return None, None
    return start.offset, end.offset
