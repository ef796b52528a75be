"""`tidelog topic describe`"""

from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.failure import unknown_name
from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.output import plural
from tidelog.cli.tables import JSON, TSV, Column, show
from tidelog.cli.watching import watch_option, watched
from tidelog.client import Client, PartitionView
from tidelog.storage.uuids import uuid_text
from tidelog.survey.partition_state import OFFLINE, STATES, judge, leader_words
from tidelog.survey.topics import min_isr_in, named_topic, offsets_of, topic_settings

COLUMNS = (
    Column("P", "partition"),
    Column("LEADER", "leader_words"),
    Column("EPOCH", "leader_epoch"),
    Column("REPLICAS", "replicas"),
    Column("ISR", "isr"),
    Column("LOG-START", "log_start_offset"),
    Column("HIGH-WATERMARK", "high_watermark"),
    Column("STATE", "words"),
)


@click.command(name="describe")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC…")
@click.option("--only", metavar="STATE,…", help=f"Partitions that are {', '.join(STATES)}.")
@click.option("--configs", is_flag=True, help="Also the settings that are not defaults.")
@asks_cluster
@watch_option
@table_option
@shared_options
def command(
    *,
    asking: Asking,
    names: tuple[str, ...],
    only: str | None,
    configs: bool,
    watch: bool,
    output: str,
) -> None:
    """Show the partitions of topics: who leads, who follows, what is committed.

    \b
    Examples:
      tidelog topic describe orders
      tidelog topic describe orders --only under-replicated,offline
      tidelog topic describe orders -o json
    """
    states = chosen_states(only)

    async def look(client: Client) -> list[dict[str, Any]]:
        return [await describe(client, name) for name in names]

    def once() -> None:
        documents = asking.run(look)
        for document in documents:
            if states:
                document["partitions"] = [
                    each for each in document["partitions"] if each["state"] in states
                ]
        if output == JSON:
            show(output, documents, COLUMNS, [])
            return
        for document in documents:
            head = "" if output == TSV else head_of(document, configs=configs)
            rows = [table_row(each) for each in document["partitions"]]
            show(output, document, COLUMNS, rows, head=head)

    watched(once, watch=watch)


def chosen_states(only: str | None) -> list[str]:
    states = [each.strip() for each in (only or "").split(",") if each.strip()]
    for state in states:
        if state not in STATES:
            raise unknown_name("state", state, list(STATES), advice=f"--only {','.join(STATES)}")
    return states


async def describe(client: Client, name: str) -> dict[str, Any]:
    view = await client.brokers()
    topic = await named_topic(client, name)
    settings = await topic_settings(client, name)
    min_isr = min_isr_in(settings)
    partitions = []
    for each in topic.partitions:
        judgement = judge(each, view.brokers, min_isr)
        start, end = (None, None)
        if judgement.state != OFFLINE:
            start, end = await offsets_of(client, each)
        partitions.append(
            {
                "partition": each.partition,
                "leader": each.leader,
                "preferred_leader": each.preferred,
                "leader_epoch": each.leader_epoch,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
                "log_start_offset": start,
                "high_watermark": end,
                "state": judgement.state,
                "reason": judgement.reason,
            }
        )
    return {
        "topic": name,
        "topic_id": uuid_text(topic.topic_id),
        "internal": topic.is_internal,
        "replication_factor": topic.replication_factor,
        "min_insync_replicas": min_isr,
        "partitions": partitions,
        "configs": {e.name: e.value for e in settings if not e.is_default and not e.sensitive},
    }


def head_of(document: dict[str, Any], *, configs: bool) -> str:
    parts = [
        document["topic"],
        plural(len(document["partitions"]), "partition"),
        f"replication factor {document['replication_factor']}",
    ]
    if document["min_insync_replicas"] is not None:
        parts.append(f"min ISR {document['min_insync_replicas']}")
    lines = [" · ".join(parts)]
    if configs:
        lines += [f"  {key} = {value}" for key, value in sorted(document["configs"].items())]
    return "\n".join(lines)


def table_row(document: dict[str, Any]) -> dict[str, Any]:
    view = PartitionView(
        "",
        document["partition"],
        document["leader"],
        document["leader_epoch"],
        tuple(document["replicas"]),
        tuple(document["isr"]),
    )
    reason = f": {document['reason']}" if document["reason"] else ""
    return {
        **document,
        "leader_words": leader_words(view),
        "words": f"{document['state']}{reason}",
    }
