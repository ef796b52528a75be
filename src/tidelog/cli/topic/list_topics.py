"""`tidelog topic list`"""

from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.tables import Column, show
from tidelog.client import Client, ClusterView, TopicView
from tidelog.storage.uuids import uuid_text
from tidelog.survey.partition_state import HEALTHY, judge

COLUMNS = (
    Column("TOPIC", "topic"),
    Column("PARTITIONS", "partitions"),
    Column("REPLICATION-FACTOR", "replication_factor"),
    Column("STATE", "state"),
    Column("ID", "topic_id", wide=True),
)


@click.command(name="list")
@click.option("-i", "--internal", is_flag=True, help="Also those the cluster has for itself.")
@asks_cluster
@table_option
@shared_options
def command(*, asking: Asking, internal: bool, output: str) -> None:
    """List the topics.

    \b
    Examples:
      tidelog topic list
      tidelog topic list -o json
    """

    async def look(client: Client) -> ClusterView:
        return await client.view()

    view = asking.run(look)
    topics = [topic for topic in view.topics.values() if internal or not topic.is_internal]
    rows = [row_of(topic, view) for topic in sorted(topics, key=lambda each: each.name)]
    if not rows and output in ("text", "wide"):
        click.echo("no topics; create one: tidelog topic create orders -p 3", err=True)
    show(output, rows, COLUMNS, rows)


def row_of(topic: TopicView, view: ClusterView) -> dict[str, Any]:
    unwell = [
        str(each.partition)
        for each in topic.partitions
        if judge(each, view.brokers, None).state != HEALTHY
    ]
    return {
        "topic": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "state": f"not healthy: {','.join(unwell)}" if unwell else HEALTHY,
    }
